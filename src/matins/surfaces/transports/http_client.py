"""Calls of a daemon over HTTP. It loads quickly, since every command uses it.

The requests of calls over HTTP, and what their answers mean. Loads quickly, since every command uses it.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, suppress
from datetime import datetime
from os import PathLike, fspath
from typing import Any, NamedTuple, cast
from urllib.parse import SplitResult, quote, urlencode, urlsplit

import orjson

from matins import errors
from matins.api.use_case import USE_CASES, UseCase, check_payloads, encode_cursor
from matins.errors import Conflict, Example, InvalidInput, MatinsError, NotAllowed, NotFound, StoreUnavailable

CUT_OFF = (http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError, OSError)
TRIES = 3
ANSWERING = 50
"""How often a request is repeated whose first one is still being answered."""
ANSWERING_S = 0.1
STILL_ANSWERING: Any = object()
SILENCE_S = 45.0
"""Three heartbeats."""
_MAX_RECONNECTS = 30
_MAX_SILENCE_S = 60.0
"""A daemon that says nothing for so long is given up, also when something accepts connections in its place."""
_MAX_ABSENCE_S = 5.0
"""A daemon is back within this time when it is restarted. After it, a refused connection means that it was stopped."""
MAX_EVENT_BYTES = 1 << 22


class Request(NamedTuple):
    method: str
    path: str
    body: bytes | None
    headers: Mapping[str, str]

    def may_repeat(self, error: BaseException, *, kept: bool) -> bool:
        """Whether it may be sent again after an error. A kept connection may have been closed; a new one that fails
        means that no server listens."""
        again = kept or "Idempotency-Key" in self.headers or self.method in ("GET", "PUT")
        return again and not isinstance(error, (ConnectionRefusedError, TimeoutError))


class Response(NamedTuple):
    status: int
    body: bytes


class Frame(NamedTuple):
    at: str | None
    """The id of the last event."""
    data: bytes | None
    """None when the server sends only the position of the stream, or a heartbeat."""


class FrameReader:
    """Reads the frames of a stream of events, line by line."""

    def __init__(self, at: str | None) -> None:
        self._at = at
        self._data: bytes | None = None

    def feed(self, line: bytes) -> Frame | None:
        """The frame that ends with this line."""
        field, _, value = line.rstrip(b"\r\n").partition(b": ")
        if field == b"id":
            self._at = value.decode()
        elif field == b"data":
            self._data = value
        elif not line.strip():
            frame, self._data = Frame(self._at, self._data), None
            return frame
        return None


class Daemon:
    """The address of a daemon, and the token for it."""

    def __init__(self, url: str, token: str | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            hint = "For example: http://127.0.0.1:7411."
            raise InvalidInput(f'"{url}" is not a URL of a daemon.', value=url, field="url", hint=hint)
        if token is not None and not (token.isascii() and token.isprintable()):
            raise InvalidInput("The token is malformed.", field="token", hint="Copy it again, on one line.")
        self.url = url.rstrip("/")
        self.parts: SplitResult = parts
        self._token = token

    def headers(self, more: Mapping[str, str]) -> dict[str, str]:
        return {**({} if self._token is None else {"Authorization": f"Bearer {self._token}"}), **more}

    def stream(self, arguments: Mapping[str, Any], at: str | None) -> Request:
        """The request for live events."""
        types = arguments.get("types")
        wanted = [types] if isinstance(types, str) else list(types or [])
        query = urlencode([("types", kind) for kind in wanted])
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": at} if at else {})
        return Request("GET", f"/v1/events/stream?{query}", None, self.headers(headers))

    def unreachable(self, error: BaseException) -> StoreUnavailable:
        text = str(error) or type(error).__name__
        return StoreUnavailable(f"No daemon answers at {self.url}: {text}.", hint="Start it: matins up")

    def stopped(self) -> StoreUnavailable:
        return StoreUnavailable(f"The daemon at {self.url} has stopped.", hint="Start it: matins up")


class Patience:
    """How long a follower of events tries to reconnect. `now` is in seconds of a clock that is never set."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._tries = 0
        self._heard_at: float | None = None
        self._absent_since: float | None = None

    def heard(self, now: float) -> None:
        self._tries, self._heard_at, self._absent_since = 0, now, None

    def wait_s(self, error: BaseException | None, now: float) -> float:
        """Seconds until the next try, after a stream that ended or failed. Raises StoreUnavailable to give up."""
        self._tries += 1
        if self._heard_at is not None and self._is_absent(error, now):
            raise self._daemon.stopped() from error
        if error is not None and self._is_over(now):
            raise self._daemon.unreachable(error) from error
        return min(self._tries, 5) * 0.2

    def _is_absent(self, error: BaseException | None, now: float) -> bool:
        """Whether connections were refused for too long."""
        if not isinstance(error, ConnectionRefusedError):
            self._absent_since = None
            return False
        if self._absent_since is None:
            self._absent_since = now
        return now - self._absent_since >= _MAX_ABSENCE_S

    def _is_over(self, now: float) -> bool:
        if self._heard_at is None:
            return True  # the first connection must succeed
        return self._tries > _MAX_RECONNECTS or now - self._heard_at >= _MAX_SILENCE_S


def result_of(use_case: UseCase, request: Request, response: Response) -> Any:
    """The result as JSON data, or `STILL_ANSWERING`: the first request was cut off. Raises the error of the server."""
    if response.status < 400:
        return True if use_case.method == "DELETE" else orjson.loads(response.body) if response.body else None
    error = error_of(response)
    if isinstance(error, NotFound) and use_case.method == "DELETE":
        return False
    if "Idempotency-Key" in request.headers and isinstance(error, Conflict) and error.field == "Idempotency-Key":
        return STILL_ANSWERING
    raise error


def never_answered() -> StoreUnavailable:
    hint = "Check the result, then try again."
    return StoreUnavailable("The daemon is still answering an earlier request.", hint=hint)


def schedule_of(arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """The arguments with which the wanted schedule is found; None for events of all."""
    schedule, agent = arguments.get("schedule"), arguments.get("agent")
    if schedule is None:
        return None
    return {"name": schedule} | ({} if agent is None else {"agent": agent})


def wanted_fields(arguments: Mapping[str, Any], schedule_id: str | None) -> dict[str, Any]:
    """The fields that wanted events have, because the stream has all events."""
    run_id, agent = arguments.get("run_id"), arguments.get("agent")
    only = {} if run_id is None else {"run_id": str(run_id)}
    if schedule_id is not None:
        return only | {"schedule_id": schedule_id}
    return only if agent is None else only | {"agent": agent}


def wanted_event(frame: Frame, only: Mapping[str, Any]) -> Any:
    """The event of a frame, if it has these fields."""
    event = None if frame.data is None else orjson.loads(frame.data)
    return event if event is not None and all(event[name] == value for name, value in only.items()) else None


def items_of(use_case: UseCase, found: Any) -> Any:
    return found["items"] if use_case.returns.startswith("builtins.list[") else found


def request_of(use_case: UseCase, arguments: Mapping[str, Any]) -> Request:
    given = dict(arguments)
    headers: dict[str, str] = {}
    if use_case.method == "PATCH":
        rev = given.pop(use_case.revision, None) if use_case.revision else None
        headers["If-Match"] = "*" if rev is None else f'"{rev}"'
    if use_case.method == "POST":
        headers["Idempotency-Key"] = str(uuid.uuid4())
    path = use_case.path.replace(":path}", "}")
    for name in use_case.in_path:
        parameter = use_case.parameters[name]
        value = given.pop(name, None if parameter.required else parameter.default)
        if value is None:
            needed = ", ".join(each for each, parameter in use_case.parameters.items() if parameter.required)
            raise InvalidInput(f'"{name}" is missing.', field=name, hint=f"{use_case.name} needs: {needed}.")
        path = path.replace(f"{{{name}}}", _quoted(name, value))
    cursor = use_case.page and use_case.page[0]
    if cursor and use_case.parameters[cursor].annotation.startswith("str") and given.get(cursor) is not None:
        given["cursor"] = encode_cursor(use_case, given.pop(cursor))  # an event's id contains its store
    query = {name: _text(given.pop(name)) for name in list(given) if not use_case.has_body or name in use_case.query}
    query = {name: value for name, value in query.items() if value is not None}
    if query:
        path += "?" + urlencode(query, doseq=True)
    if not use_case.has_body:
        return Request(use_case.method, path, None, headers)
    headers["Content-Type"] = "application/json"
    return Request(use_case.method, path, _body(given), headers)


def _quoted(name: str, value: Any) -> str:
    try:
        return quote(str(value), safe="")
    except UnicodeEncodeError:
        raise InvalidInput(f'"{name}" is not valid Unicode.', value=ascii(value)[:60], field=name) from None


def _body(given: dict[str, Any]) -> bytes:
    check_payloads(given)
    try:
        return orjson.dumps(given, default=_plain)
    except TypeError as error:
        hint = "Use strings, numbers, lists and mappings."
        raise InvalidInput(f"This cannot be written as JSON: {error}.", hint=hint) from None


def _plain(value: Any) -> Any:
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, (set, frozenset)):
        return list(cast("set[Any]", value))
    if isinstance(value, PathLike):
        return fspath(cast("PathLike[str]", value))
    raise TypeError(type(value).__name__)


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat()
    return list(cast("list[Any]", value)) if isinstance(value, (list, tuple, set, frozenset)) else value


def error_of(response: Response) -> MatinsError:
    """The error that the server raised."""
    try:
        found: dict[str, Any] = orjson.loads(response.body)
        message, code = str(found["detail"]), str(found["code"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        message = f"The server answered {response.status}, but not as Matins does."
        return StoreUnavailable(message, hint="Check that the URL is that of Matins.")
    kind = _by_code().get(code) or _by_status(response.status)
    hint = Example(found["example"]) if "example" in found else found.get("hint")
    if issubclass(kind, InvalidInput):
        return kind(message, hint=hint, **{name: found.get(name) for name in ("value", "field", "allowed")})
    return kind(message, hint=hint)


def _by_code() -> dict[str, type[MatinsError]]:
    """Error classes of bad input and of the store by code; use cases raise no others."""
    found = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    return {kind.code: kind for kind in found if issubclass(kind, (InvalidInput, errors.StoreError))}


def _by_status(status: int) -> type[MatinsError]:
    if status in (401, 403):
        return NotAllowed
    if status == 503:
        return StoreUnavailable
    return {404: NotFound, 409: Conflict}.get(status, InvalidInput if status < 500 else MatinsError)


class AbortedError(Exception):
    """The call was given up by another thread."""


class Http:
    """Keeps its connection, and repeats a request that was cut off. Each POST has a key, so it is executed once."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 60.0,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """`check` is called for every new connection before a token is sent. It raises where another program may
        listen."""
        self._daemon = Daemon(url, token)
        self.check = check
        self.url = self._daemon.url
        self.described = f"the daemon at {self.url}"
        self._timeout = timeout
        self._connection: http.client.HTTPConnection | None = None
        self._lock = threading.Lock()
        self._newest: socket.socket | None = None
        """The socket that was connected last."""
        self.aborted = False

    def call(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
        from matins.api import codec  # commands print documents, and load neither types nor codec

        return codec.convert(use_case, self.document(use_case, arguments))

    def document(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
        """The result as JSON data; for a collection, the items of one page."""
        return items_of(use_case, self._fetch(use_case, arguments))

    def pages(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Iterator[list[Any]]:
        """A whole collection as documents, page by page."""
        while True:
            found = self._fetch(use_case, arguments)
            yield items_of(use_case, found)
            if found["next"] is None:
                return
            arguments = {**arguments, "cursor": found["next"]}
            if use_case.page is not None:
                arguments.pop(use_case.page[0], None)

    def _fetch(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
        request = request_of(use_case, arguments)
        for _ in range(ANSWERING):
            found = result_of(use_case, request, self._send(request))
            if found is not STILL_ANSWERING:
                return found
            time.sleep(ANSWERING_S)
        raise never_answered()

    # -- events

    def follow(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Iterator[Any]:
        from matins.api import codec

        with closing(self.follow_documents(arguments)) as events:
            for event in events:
                yield from codec.convert(use_case, [event])

    def follow_documents(self, arguments: Mapping[str, Any]) -> Generator[dict[str, Any]]:
        """Live events, until the daemon is gone. After a reconnect, events from the time without a connection
        follow."""
        wanted = schedule_of(arguments)
        schedule = None if wanted is None else self.document(USE_CASES["schedules.get"], wanted)["id"]
        only = wanted_fields(arguments, schedule)
        at = None if arguments.get("after") is None else str(arguments["after"])
        patience = Patience(self._daemon)
        while True:
            failure: Exception | None = None
            connection = self._new(SILENCE_S)
            try:
                self._connect(connection)
                for frame in self._frames(connection, arguments, at):
                    at = frame.at
                    event = wanted_event(frame, only)
                    if event is not None:
                        yield event
                    patience.heard(time.monotonic())  # after `yield`: the caller may take its time
            except (*CUT_OFF, StoreUnavailable) as error:
                failure = error
            finally:
                connection.close()
            time.sleep(patience.wait_s(failure, time.monotonic()))

    def _frames(
        self, connection: http.client.HTTPConnection, arguments: Mapping[str, Any], at: str | None
    ) -> Iterator[Frame]:
        request = self._daemon.stream(arguments, at)
        connection.request(request.method, request.path, headers=dict(request.headers))
        response = connection.getresponse()
        if response.status != 200:
            raise error_of(Response(response.status, response.read()))
        reader = FrameReader(at)
        while line := response.readline(MAX_EVENT_BYTES):
            frame = reader.feed(line)
            if frame is not None:
                yield frame

    # -- the connection

    def close(self) -> None:
        with self._lock:
            self._hang_up()

    def abort(self) -> None:
        """Give up the call or stream of another thread, and make no other. This does not wait for that thread."""
        self.aborted = True
        if self._newest is not None:
            with suppress(OSError):  # closed already
                socket.socket.shutdown(self._newest, socket.SHUT_RDWR)  # not that of TLS, which the other thread uses
        if self._lock.acquire(blocking=False):  # otherwise the other thread hangs up
            self._hang_up()
            self._lock.release()

    def _send(self, request: Request) -> Response:
        try:
            with self._lock:
                return self._send_repeatedly(request)
        finally:
            if self.aborted:
                self.close()

    def _send_repeatedly(self, request: Request) -> Response:
        for tries_left in reversed(range(TRIES)):
            kept = self._connection is not None
            try:
                return self._exchange(request)
            except CUT_OFF as error:
                self._hang_up()
                if not tries_left or not request.may_repeat(error, kept=kept):
                    raise self._daemon.unreachable(error) from error
        raise AssertionError("the last try raises")

    def _exchange(self, request: Request) -> Response:
        if self._connection is None:
            self._connection = self._new(self._timeout)
            self._connect(self._connection)
        headers = self._daemon.headers(request.headers)
        self._connection.request(request.method, request.path, request.body, headers)
        response = self._connection.getresponse()
        answer = Response(response.status, response.read())
        if response.will_close:
            self._hang_up()
        return answer

    def _connect(self, connection: http.client.HTTPConnection) -> None:
        """Connect, then check: a daemon that lives now has had its port when the connection was made."""
        if self.aborted:
            raise AbortedError
        connection.connect()
        self._newest = connection.sock
        connection.auto_open = 0  # otherwise it would connect again without the check
        if self.aborted:  # while there was no socket yet
            raise AbortedError
        self.check()

    def _new(self, timeout: float) -> http.client.HTTPConnection:
        parts = self._daemon.parts
        host, port = cast("str", parts.hostname), parts.port
        if parts.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=timeout)
        return http.client.HTTPConnection(host, port, timeout=timeout)

    def _hang_up(self) -> None:
        if self._connection is not None:
            with suppress(OSError):
                self._connection.close()
            self._connection = None
