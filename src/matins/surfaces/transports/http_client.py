"""Calls of a daemon over HTTP. It loads quickly, since every command uses it."""

from __future__ import annotations

import http.client
import ssl
import threading
import time
import uuid
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, suppress
from datetime import datetime
from os import PathLike, fspath
from typing import Any, NamedTuple, cast
from urllib.parse import quote, urlencode, urlsplit

import orjson

from matins import errors
from matins.api.paging import encode_cursor
from matins.api.use_case import UseCase
from matins.errors import Conflict, Example, InvalidInput, MatinsError, NotAllowed, NotFound, StoreUnavailable

_CUT_OFF = (http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError)
_TRIES = 3
_ANSWERING = 50
_ANSWERING_S = 0.1
_SILENCE_S = 45.0
"""Three heartbeats."""
_MAX_SILENCE_S = 60.0
"""A daemon that says nothing for so long is given up, also when something accepts connections in its place."""
_MAX_RECONNECTS = 30
_MAX_EVENT_BYTES = 1 << 22


class Response(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


class _Frame(NamedTuple):
    at: str | None
    """The id of the last event."""
    data: bytes | None
    """None when the server sends only the position of the stream, or a heartbeat."""


class Http:
    """Keeps its connection, and repeats a request that was cut off. Each POST has a key, so it is executed once."""

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 60.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            hint = "For example: http://127.0.0.1:7411."
            raise InvalidInput(f'"{url}" is not a URL of a daemon.', value=url, field="url", hint=hint)
        if token is not None and not (token.isascii() and token.isprintable()):
            raise InvalidInput("The token is malformed.", field="token", hint="Copy it again, on one line.")
        self.url = url.rstrip("/")
        self.described = f"the daemon at {self.url}"
        self._parts = parts
        self._token = token
        self._timeout = timeout
        self._connection: http.client.HTTPConnection | None = None
        self._lock = threading.Lock()

    def call(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
        from matins.api import codec  # commands print documents, and load neither types nor codec

        return codec.convert(use_case, self.document(use_case, arguments))

    def document(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
        """The result as JSON data; for a collection, the items of one page."""
        return _items(use_case, self._fetch(use_case, arguments))

    def pages(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Iterator[list[Any]]:
        """A whole collection as documents, page by page."""
        while True:
            found = self._fetch(use_case, arguments)
            yield _items(use_case, found)
            if found["next"] is None:
                return
            arguments = {**arguments, "cursor": found["next"]}
            if use_case.page is not None:
                arguments.pop(use_case.page[0], None)

    def _fetch(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
        path, body, headers = _request(use_case, arguments)
        key = headers.get("Idempotency-Key")
        for _ in range(_ANSWERING):
            response = self._send(use_case.method, path, body, headers)
            if response.status < 400:
                return True if use_case.method == "DELETE" else orjson.loads(response.body) if response.body else None
            error = _error(response)
            if isinstance(error, NotFound) and use_case.method == "DELETE":
                return False
            if key is None or not (isinstance(error, Conflict) and error.field == "Idempotency-Key"):
                raise error
            time.sleep(_ANSWERING_S)  # the first request was cut off and is still being answered
        hint = "Check the result, then try again."
        raise StoreUnavailable("The daemon is still answering an earlier request.", hint=hint)

    # -- events

    def follow(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Iterator[Any]:
        from matins.api import codec

        with closing(self.follow_documents(arguments)) as events:
            for event in events:
                yield from codec.convert(use_case, [event])

    def follow_documents(self, arguments: Mapping[str, Any]) -> Generator[dict[str, Any]]:
        """Live events, without an end. After a reconnect, events from the time without a connection follow."""
        only = self._filter(arguments)
        types = arguments.get("types")
        wanted = [types] if isinstance(types, str) else list(types or [])
        at = None if arguments.get("after") is None else str(arguments["after"])
        reconnects, heard_at = _MAX_RECONNECTS, time.monotonic()  # the first connection must succeed
        while True:
            query = urlencode([("types", kind) for kind in wanted])
            connection = self._open(_SILENCE_S)
            try:
                response = self._listen(connection, f"/v1/events/stream?{query}", at)
                for frame in _frames(response, at):
                    reconnects, heard_at, at = 0, time.monotonic(), frame.at
                    event = None if frame.data is None else orjson.loads(frame.data)
                    if event is not None and all(event[name] == value for name, value in only.items()):
                        yield event
            except (*_CUT_OFF, OSError, StoreUnavailable) as error:
                if reconnects >= _MAX_RECONNECTS or time.monotonic() - heard_at >= _MAX_SILENCE_S:
                    raise self._unreachable(error) from error
            finally:
                connection.close()
            reconnects += 1
            time.sleep(min(reconnects, 5) * 0.2)

    def _filter(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The fields that wanted events have, because the stream has all events."""
        from matins.api.use_case import USE_CASES

        run_id, schedule, agent = (arguments.get(name) for name in ("run_id", "schedule", "agent"))
        only = {} if run_id is None else {"run_id": str(run_id)}
        if schedule is not None:
            given = {"name": schedule} | ({} if agent is None else {"agent": agent})
            return only | {"schedule_id": self.document(USE_CASES["schedules.get"], given)["id"]}
        return only if agent is None else only | {"agent": agent}

    def _listen(self, connection: http.client.HTTPConnection, path: str, at: str | None) -> http.client.HTTPResponse:
        headers = self._headers() | {"Accept": "text/event-stream"} | ({"Last-Event-ID": at} if at else {})
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        if response.status != 200:
            raise _error(Response(response.status, {}, response.read()))
        return response

    # -- the connection

    def close(self) -> None:
        with self._lock:
            self._hang_up()

    def _send(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Response:
        with self._lock:
            for tries_left in reversed(range(_TRIES)):
                kept = self._connection is not None
                try:
                    return self._exchange(method, path, body, headers)
                except (*_CUT_OFF, OSError) as error:
                    self._hang_up()
                    # A kept connection may have been closed; a new one that fails means that no server listens.
                    again = kept or "Idempotency-Key" in headers or method in ("GET", "PUT")
                    if not tries_left or not again or isinstance(error, (ConnectionRefusedError, TimeoutError)):
                        raise self._unreachable(error) from error
        raise AssertionError("the last try raises")

    def _exchange(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Response:
        if self._connection is None:
            self._connection = self._open(self._timeout)
        self._connection.request(method, path, body, {**self._headers(), **headers})
        response = self._connection.getresponse()
        answer = Response(response.status, dict(response.getheaders()), response.read())
        if response.will_close:
            self._hang_up()
        return answer

    def _open(self, timeout: float) -> http.client.HTTPConnection:
        host, port = cast("str", self._parts.hostname), self._parts.port
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=timeout)
        return http.client.HTTPConnection(host, port, timeout=timeout)

    def _hang_up(self) -> None:
        if self._connection is not None:
            with suppress(OSError):
                self._connection.close()
            self._connection = None

    def _headers(self) -> dict[str, str]:
        return {} if self._token is None else {"Authorization": f"Bearer {self._token}"}

    def _unreachable(self, error: Exception) -> StoreUnavailable:
        text = str(error) or type(error).__name__
        return StoreUnavailable(f"No daemon answers at {self.url}: {text}.", hint="Start it: matins up")


def _items(use_case: UseCase, found: Any) -> Any:
    return found["items"] if use_case.returns.startswith("builtins.list[") else found


def _request(use_case: UseCase, arguments: Mapping[str, Any]) -> tuple[str, bytes | None, dict[str, str]]:
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
        return path, None, headers
    headers["Content-Type"] = "application/json"
    return path, _body(given), headers


def _quoted(name: str, value: Any) -> str:
    try:
        return quote(str(value), safe="")
    except UnicodeEncodeError:
        raise InvalidInput(f'"{name}" is not valid Unicode.', value=ascii(value)[:60], field=name) from None


def _body(given: dict[str, Any]) -> bytes:
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


def _frames(response: http.client.HTTPResponse, at: str | None) -> Iterator[_Frame]:
    data: bytes | None = None
    while line := response.readline(_MAX_EVENT_BYTES):
        field, _, value = line.rstrip(b"\r\n").partition(b": ")
        if field == b"id":
            at = value.decode()
        elif field == b"data":
            data = value
        elif not line.strip():
            yield _Frame(at, data)
            data = None


def _error(response: Response) -> MatinsError:
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
