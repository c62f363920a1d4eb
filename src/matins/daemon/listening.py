"""Where the daemon listens."""

from __future__ import annotations

import socket

from matins.errors import InvalidInput
from matins.surfaces.http.server import bind

PORT = 7411


def bound(host: str, port: int | None) -> socket.socket:
    """On the port that was asked for, else on the usual one, else on any that is free."""
    if port is not None:
        return _bind(host, port)
    try:
        return bind(host, PORT)
    except OSError:
        return _bind(host, 0)


def _bind(host: str, port: int) -> socket.socket:
    try:
        return bind(host, port)
    except OSError as error:
        raise InvalidInput(
            f"{host}:{port} cannot be listened on: {error.strerror}",
            value=port,
            field="port",
            hint="name another one: --port 0 takes any that is free",
        ) from error


def url_of(host: str, listening: socket.socket) -> str:
    return f"http://{name_of(host)}:{listening.getsockname()[1]}"


def name_of(host: str) -> str:
    """As it stands in an address."""
    return f"[{host}]" if ":" in host else host
