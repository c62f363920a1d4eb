"""The door to a SQLite file that another process owns: a unix socket on which use cases are called by name.

One line of JSON for a call, one for its answer. Whoever may open the socket is the owner: it has the mode 0600, and the
peer's user is checked as well.
"""

from __future__ import annotations

import contextlib
import os
import socket
import socketserver
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from matins import errors
from matins.errors import MatinsError, StoreUnavailable
from matins.model.principal import OWNER, Principal
from matins.service import RIGHTS, Service
from matins.service.wire import from_wire, to_wire

_LONGEST_CALL = 256 << 20
_PATIENCE_S = 60


class ControlServer:
    """Answers calls of other processes while the engine of this one owns the file."""

    def __init__(self, path: Path, service: Service) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.unlink(missing_ok=True)  # we own the file, so nobody listens on what is left there
        self._path = path
        before = os.umask(0o177)
        try:
            self._server = _Server(str(path), _handler(service))
        finally:
            os.umask(before)
        threading.Thread(target=self._server.serve_forever, name="matins-control", daemon=True).start()

    def close(self) -> None:
        stopper = threading.Thread(target=self._server.shutdown)
        stopper.start()
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as knock:
            knock.connect(str(self._path))  # it looks whether to stop after each connection, and else twice a second
        stopper.join()
        self._server.server_close()
        self._path.unlink(missing_ok=True)


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False

    def verify_request(self, request: Any, client_address: Any) -> bool:
        _, uid, _ = struct.unpack("3i", request.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return uid == os.getuid()


def _handler(service: Service) -> Callable[..., socketserver.BaseRequestHandler]:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            with suppress(BrokenPipeError, ConnectionResetError):  # the caller is gone; what it asked for is done
                while line := self.rfile.readline(_LONGEST_CALL):
                    self.wfile.write(orjson.dumps(answer(service, line)) + b"\n")

    return Handler


def answer(service: Service, line: bytes) -> dict[str, Any]:
    """What a call gives, or the error it raises."""
    try:
        call = orjson.loads(line)
        name = call["call"]
        if name not in RIGHTS:
            raise errors.InvalidInput(f'There is no use case "{name}"', value=name, field="call")
        arguments, options = from_wire(call["arguments"]), from_wire(call["options"])
        principal = _principal(call["principal"]) if call.get("principal") else OWNER
        return {"value": to_wire(getattr(service, name)(principal, *arguments, **options))}
    except MatinsError as error:
        return {"error": _error_to_wire(error)}
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        return {"error": _error_to_wire(errors.InvalidInput(f"The call cannot be understood: {error}"))}


def _principal(data: dict[str, Any]) -> Principal:
    rights = data.pop("rights", None)
    return Principal(**data, rights=None if rights is None else frozenset(rights))


def _error_to_wire(error: MatinsError) -> dict[str, Any]:
    fields = {name: getattr(error, name, None) for name in ("value", "field", "allowed", "hint")}
    fields["value"] = None if fields["value"] is None else str(fields["value"])
    return {"class": type(error).__name__, "message": error.message, **fields}


def _error_from_wire(data: dict[str, Any]) -> MatinsError:
    kind = getattr(errors, data.pop("class"), MatinsError)
    message = data.pop("message")
    if issubclass(kind, errors.InvalidInput):
        return kind(message, **data)
    return kind(message, hint=data["hint"])


def call_owner(path: Path, principal: Principal, name: str, /, *arguments: Any, **options: Any) -> Any:
    """Have the owner of a file do something, on behalf of whom it is said."""
    rights = None if principal.rights is None else sorted(principal.rights)
    who = {"role": principal.role, "name": principal.name, "run_id": principal.run_id, "rights": rights}
    call = {"call": name, "principal": who, "arguments": to_wire(list(arguments)), "options": to_wire(options)}
    try:
        said = orjson.dumps(call, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError as error:
        raise errors.InvalidInput(f"It cannot be said to the engine that owns the store: {error}") from None
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_PATIENCE_S)
            connection.connect(str(path))
            connection.sendall(said)
            line = connection.makefile("rb").readline()
    except OSError as error:
        raise StoreUnavailable(f"The engine that owns the store does not answer: {error}", hint="try again") from error
    if not line:
        raise StoreUnavailable("The engine that owns the store ended before it answered", hint="look, then try again")
    answered = orjson.loads(line)
    if "error" in answered:
        raise _error_from_wire(answered["error"])
    return from_wire(answered["value"])
