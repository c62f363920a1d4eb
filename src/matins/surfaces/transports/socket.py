"""The owner of a SQLite file: a unix socket on which other processes of the same user call use cases.

One line of JSON for a call, one for its result. No principal is sent: the peer's credentials must be the owner's, or
the connection is refused.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import orjson

from matins import errors
from matins.api import codec
from matins.api.use_case import USE_CASES, Caller, UseCase, check_payloads
from matins.engine.when.triggers import Trigger
from matins.errors import Example, InvalidInput, MatinsError, NotAllowed, StoreBusy, StoreError, StoreUnavailable
from matins.model.access import OWNER, Principal
from matins.net.peer import peer_uid, shared_by
from matins.surfaces.transports.in_process import follow

log = logging.getLogger("matins")
_FIELDS = ("value", "field", "allowed")
_MAX_CALL_BYTES = 256 << 20
_TIMEOUT_S = 60


class OwnerSocketServer:
    """Answers calls of other processes while the engine of this one owns the file."""

    def __init__(self, path: Path, caller: Caller) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _check_folder(path)
        path.unlink(missing_ok=True)  # this process owns the file, so no other listens here
        self._path = path
        before = os.umask(0o177)
        try:
            self._server = _Server(str(path), _handler(caller))
        finally:
            os.umask(before)
        threading.Thread(target=self._server.serve_forever, name="matins-control", daemon=True).start()

    def close(self) -> None:
        stopper = threading.Thread(target=self._server.shutdown)
        stopper.start()
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as waker:
            waker.setblocking(False)  # behind callers that are no longer accepted it would wait forever
            waker.connect(str(self._path))  # the server checks for a shutdown after a connection, or twice a second
        stopper.join()
        self._server.server_close()
        self._path.unlink(missing_ok=True)


def answers(path: Path) -> bool:
    """Whether an engine listens on the socket."""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(_TIMEOUT_S)
        try:
            caller.connect(str(path))
        except OSError:
            return False
        return peer_uid(caller) in (os.getuid(), 0)


def call_owner(path: Path | None, principal: Principal, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
    """The result of a call to the engine that owns a file, at its socket. None: its process does not listen."""
    if path is None:
        hint = "Stop it, or try again."
        raise StoreBusy("Another process holds the store and does not release it.", hint=hint)
    if principal != OWNER:
        hint = "Use a token and the API of that process: matins tokens create NAME"
        raise NotAllowed("Only the owner can act beside the engine of another process.", field="principal", hint=hint)
    return OwnerSocket(path).call(use_case, arguments)


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False

    def verify_request(self, request: Any, client_address: Any) -> bool:
        return peer_uid(request) == os.getuid()


def _check_folder(path: Path) -> None:
    """Raise if the socket lies in the shared temporary folder, in a folder that is not ours alone."""
    folder = path.parent
    if folder.name == f"matins-{os.getuid()}" and os.path.lexists(folder) and (reason := shared_by(folder)):
        hint = "Delete it, set TMPDIR to a folder of your own, or use a shorter path for the store."
        raise StoreError(f"The folder {folder} is not safe for a socket: {reason}.", hint=hint)


def _check_peer(connection: socket.socket, path: Path) -> None:
    """Raise if another user listens. Root may: it can do anything here."""
    if peer_uid(connection) not in (os.getuid(), 0):
        message = f"The process that listens on {path} belongs to another user."
        raise StoreError(message, hint="Delete the socket, and start your own engine.")


def _handler(caller: Caller) -> Callable[..., socketserver.BaseRequestHandler]:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            with suppress(BrokenPipeError, ConnectionResetError):  # the caller is gone; its call is executed
                while line := self.rfile.readline(_MAX_CALL_BYTES):
                    self.wfile.write(answer(caller, line) + b"\n")

    return Handler


def answer(caller: Caller, line: bytes) -> bytes:
    """The result of a call, or the error that it raised, as JSON."""
    try:
        use_case, arguments = _read_call(line)
        return b'{"result":' + codec.encode(caller.invoke(OWNER, use_case, arguments)) + b"}"
    except MatinsError as error:
        return _error_line(error)
    except RecursionError:
        return _error_line(InvalidInput("The call is nested too deeply.", field="call", hint="Make it flatter."))
    except Exception:
        log.exception("a call of another process failed")
        return _error_line(MatinsError("The engine that owns the store failed.", hint="See its log."))


def _read_call(line: bytes) -> tuple[UseCase, dict[str, Any]]:
    try:
        call = orjson.loads(line)
        name, arguments = call["call"], dict(call["arguments"])
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput(f"The call cannot be read: {error}.", field="call") from None
    if not isinstance(name, str) or name not in USE_CASES:
        raise InvalidInput(f"There is no use case {name!r}.", value=name, field="call")
    return USE_CASES[name], arguments


def _error_line(error: MatinsError) -> bytes:
    fields = {name: _plain(getattr(error, name, None)) for name in _FIELDS}
    fields |= {"example": error.hint.settings} if isinstance(error.hint, Example) else {"hint": error.hint}
    return orjson.dumps({"error": {"class": _public_class(error).__name__, "message": error.message, **fields}})


def _plain(value: object) -> Any:
    if value is None or isinstance(value, (bool, float)) or (isinstance(value, int) and abs(value) < 1 << 53):
        return value
    return str(value).encode("utf-8", "replace").decode()


def _public_class(error: MatinsError) -> type[MatinsError]:
    """The nearest class that every process has."""
    return next(kind for kind in type(error).__mro__ if kind.__module__ == errors.__name__)


def _error(data: dict[str, Any]) -> MatinsError:
    kind: type[MatinsError] = getattr(errors, data["class"])
    hint = Example(data["example"]) if "example" in data else data["hint"]
    if issubclass(kind, InvalidInput):
        return kind(data["message"], hint=hint, **{name: data[name] for name in _FIELDS})
    return kind(data["message"], hint=hint)


class OwnerSocket:
    """Calls the engine that owns a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.described = f"the engine at {path}"

    def call(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
        return codec.convert(use_case, self.document(use_case, arguments))

    def document(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
        line = self._exchange(_request(use_case, arguments))
        answered = orjson.loads(line)
        if "error" in answered:
            raise _error(answered["error"])
        return answered["result"]

    def follow(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Iterator[Any]:
        wait = threading.Event().wait
        return follow(lambda given: self.call(use_case, given), use_case, arguments, lambda item: item.id, wait)

    def _exchange(self, request: bytes) -> bytes:
        _check_folder(self.path)
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(_TIMEOUT_S)
                connection.connect(str(self.path))
                _check_peer(connection, self.path)
                connection.sendall(request)
                line = connection.makefile("rb").readline()
        except OSError as error:
            message = f"The engine that owns the store does not answer: {error}."
            raise StoreUnavailable(message, hint="Try again.") from error
        if not line:
            message = "The engine that owns the store ended before it answered."
            raise StoreUnavailable(message, hint="Check the result, then try again.")
        return line


def _request(use_case: UseCase, arguments: Mapping[str, Any]) -> bytes:
    check_payloads(arguments)
    call = {"call": use_case.name, "arguments": arguments}
    try:
        return orjson.dumps(call, default=_as_json, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError as error:
        message = f"The engine that owns the store cannot be given this: {error}."
        raise InvalidInput(message, hint="Use strings, numbers, lists and mappings.") from None


def _as_json(value: Any) -> Any:
    if isinstance(value, Trigger):
        return value.to_dict()
    if isinstance(value, (set, frozenset, tuple)):
        return list(cast("tuple[Any, ...]", value))
    if isinstance(value, os.PathLike):
        return os.fspath(cast("os.PathLike[str]", value))
    raise TypeError(f"{type(value).__name__} is not JSON serializable")
