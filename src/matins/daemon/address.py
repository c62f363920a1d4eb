"""The address that the daemon listens on."""

from __future__ import annotations

import socket

from matins.errors import InvalidInput
from matins.surfaces.http.server import bind

PORT = 7411


def bind_address(host: str, port: int | None) -> socket.socket:
    """A socket on the given port; without one on the default port, or on any free port."""
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
            f"Matins cannot listen on {host}:{port}: {error.strerror}.",
            value=port,
            field="port",
            hint="Use another port. --port 0 uses any free port.",
        ) from error


def url_of(host: str, listening: socket.socket) -> str:
    return f"http://{host_in_url(host)}:{listening.getsockname()[1]}"


def host_in_url(host: str) -> str:
    """The host as it is written in a URL."""
    return f"[{host}]" if ":" in host else host
