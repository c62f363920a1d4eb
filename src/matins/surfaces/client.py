"""A daemon over HTTP, with nothing but the standard library: quick to load, since every command begins with it."""

from __future__ import annotations

import http.client
import ssl
import threading
import time
import uuid
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, Self, cast
from urllib.parse import quote, urlencode, urlsplit

import orjson

from matins import errors
from matins.errors import Conflict, InvalidInput, MatinsError, NotAllowed, NotFound, StoreUnavailable
from matins.surfaces.pages import encode_cursor
from matins.surfaces.routes import BY_USE_CASE, PAGES, Route

_CUT_OFF = (http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError)
_TRIES = 3
_ANSWERING = 50
_ANSWERING_S = 0.1
_SILENCE_S = 45.0
"""Three heartbeats."""
_MOST_RETURNS = 30
_LONGEST_EVENT = 1 << 22


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


class _Told(NamedTuple):
    at: str | None
    """The last event's id."""
    event: dict[str, Any] | None
    """None where it is only said where one stands, or that the daemon is still there."""


class Client:
    """`client.add(name="morning", when="every weekday at 9am", …)`, or `client.call("add", …)`: documents come back.

    It keeps its connection, and asks again when that was cut off: each POST carries a key, so it is done once.
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 60.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidInput(f'"{url}" is not an address', value=url, field="url", hint="http://127.0.0.1:7411")
        if token is not None and not (token.isascii() and token.isprintable()):
            raise InvalidInput(
                "The token holds what no token does", field="token", hint="copy it once more, on one line"
            )
        self.url = url.rstrip("/")
        self.whereabouts = f"the daemon at {self.url}"
        self._parts = parts
        self._token = token
        self._timeout = timeout
        self._connection: http.client.HTTPConnection | None = None
        self._lock = threading.Lock()

    # -- use cases

    def call(self, use_case: str, /, **arguments: Any) -> Any:
        """What the use case gives back, as a document; of a collection, the items of one page."""
        return _plain(self._ask(use_case, arguments))

    def pages(self, use_case: str, /, **arguments: Any) -> Iterator[list[Any]]:
        """A whole collection, page by page."""
        while True:
            told = self._ask(use_case, arguments)
            yield _plain(told)
            if told["next"] is None:
                return
            arguments = {**arguments, "cursor": told["next"]}
            if page := PAGES.get(use_case):
                arguments.pop(page.argument, None)

    def __getattr__(self, name: str) -> Any:
        if name not in BY_USE_CASE:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return partial(self.call, name)

    def _ask(self, use_case: str, arguments: Mapping[str, Any]) -> Any:
        route = BY_USE_CASE.get(use_case)
        if route is None:
            raise InvalidInput(f'There is no use case "{use_case}" over HTTP', value=use_case, field="use_case")
        path, body, headers = _request(route, arguments)
        key = headers.get("Idempotency-Key")
        for _ in range(_ANSWERING):
            answer = self._send(route.method, path, body, headers)
            if answer.status < 400:
                return True if route.method == "DELETE" else orjson.loads(answer.body) if answer.body else None
            error = _error(answer)
            if isinstance(error, NotFound) and route.method == "DELETE":
                return False
            if key is None or not (isinstance(error, Conflict) and error.field == "Idempotency-Key"):
                raise error
            time.sleep(_ANSWERING_S)  # our own request, cut off and asked again, is being answered
        raise StoreUnavailable("The daemon still answers an earlier request", hint="look, then try again")

    # -- events

    def events(self, after: str | int | None = None, types: str | list[str] | None = None) -> Generator[dict[str, Any]]:
        """Events as they happen, for ever; what happens while the daemon is away comes when it is back."""
        wanted = [types] if isinstance(types, str) else list(types or [])
        at = None if after is None else str(after)
        returns = _MOST_RETURNS  # the first connection must come about
        while True:
            query = urlencode([("types", kind) for kind in wanted])
            connection = self._open(_SILENCE_S)
            try:
                response = self._listen(connection, f"/v1/events/stream?{query}", at)
                for told in _read_events(response, at):
                    returns, at = 0, told.at
                    if told.event is not None:
                        yield told.event
            except (*_CUT_OFF, OSError, StoreUnavailable) as error:
                if returns >= _MOST_RETURNS:
                    raise self._unreachable(error) from error
            finally:
                connection.close()
            returns += 1
            time.sleep(min(returns, 5) * 0.2)

    def follow(self, after: str, types: list[str]) -> Generator[dict[str, Any]]:
        return self.events(after, types)

    def _listen(self, connection: http.client.HTTPConnection, path: str, at: str | None) -> http.client.HTTPResponse:
        headers = self._headers() | {"Accept": "text/event-stream"} | ({"Last-Event-ID": at} if at else {})
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        if response.status != 200:
            raise _error(Answer(response.status, {}, response.read()))
        return response

    # -- the connection

    def close(self) -> None:
        with self._lock:
            self._hang_up()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *why: object) -> None:
        self.close()

    def _send(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        with self._lock:
            for tries_left in reversed(range(_TRIES)):
                kept = self._connection is not None
                try:
                    return self._exchange(method, path, body, headers)
                except (*_CUT_OFF, OSError) as error:
                    self._hang_up()
                    # One that was kept may have been closed long ago; a new one that fails means that nobody is there.
                    again = kept or "Idempotency-Key" in headers or method in ("GET", "PUT")
                    if not tries_left or not again or isinstance(error, (ConnectionRefusedError, TimeoutError)):
                        raise self._unreachable(error) from error
        raise AssertionError("the last try raises")

    def _exchange(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        if self._connection is None:
            self._connection = self._open(self._timeout)
        self._connection.request(method, path, body, {**self._headers(), **headers})
        response = self._connection.getresponse()
        answer = Answer(response.status, dict(response.getheaders()), response.read())
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
        said = str(error) or type(error).__name__
        return StoreUnavailable(f"No daemon answers at {self.url}: {said}", hint="start it: matins up")


def _plain(told: Any) -> Any:
    page: dict[str, Any] = cast("Any", told) if isinstance(told, dict) else {}
    return page["items"] if page.keys() == {"items", "next"} else cast("Any", told)


def _request(route: Route, arguments: Mapping[str, Any]) -> tuple[str, bytes | None, dict[str, str]]:
    given = dict(arguments)
    headers: dict[str, str] = {}
    if route.method == "PATCH":
        rev = given.pop("if_rev", None)
        headers["If-Match"] = "*" if rev is None else f'"{rev}"'
    if route.method == "POST":
        headers["Idempotency-Key"] = str(uuid.uuid4())
    path = route.path.replace(":path}", "}")
    for name in route.in_path:
        if name not in given:
            raise InvalidInput(f'"{name}" is missing', field=name, hint=f"{route.use_case} needs it")
        path = path.replace(f"{{{name}}}", quote(str(given.pop(name)), safe=""))
    page = PAGES.get(route.use_case)
    if page is not None and route.use_case == "deliveries" and given.get(page.argument) is not None:
        given["cursor"] = encode_cursor(route.use_case, given.pop(page.argument))
    query = {name: _text(given.pop(name)) for name in list(given) if not route.has_body or name in route.in_query}
    query = {name: value for name, value in query.items() if value is not None}
    if query:
        path += "?" + urlencode(query, doseq=True)
    if not route.has_body:
        return path, None, headers
    headers["Content-Type"] = "application/json"
    return path, _body(given), headers


def _body(given: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(given)
    except TypeError as error:
        raise InvalidInput(f"It cannot be said in JSON: {error}", hint="texts, numbers, lists and mappings") from None


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat()
    return list(cast("list[Any]", value)) if isinstance(value, (list, tuple, set, frozenset)) else value


def _read_events(response: http.client.HTTPResponse, at: str | None) -> Iterator[_Told]:
    data: bytes | None = None
    while line := response.readline(_LONGEST_EVENT):
        field, _, value = line.rstrip(b"\r\n").partition(b": ")
        if field == b"id":
            at = value.decode()
        elif field == b"data":
            data = value
        elif not line.strip():
            yield _Told(at, None if data is None else orjson.loads(data))
            data = None


def _error(answer: Answer) -> MatinsError:
    """The error that the server raised, again."""
    try:
        told: dict[str, Any] = orjson.loads(answer.body)
        message, code = str(told["detail"]), str(told["code"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return StoreUnavailable(f"The server answered {answer.status}, but not as Matins does", hint="is it Matins?")
    kind = _by_code().get(code) or _by_status(answer.status)
    if issubclass(kind, InvalidInput):
        return kind(message, **{name: told.get(name) for name in ("value", "field", "allowed", "hint")})
    return kind(message, hint=told.get("hint"))


def _by_code() -> dict[str, type[MatinsError]]:
    """Those of bad input and of the store; no other error leaves a use case."""
    found = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    return {kind.code: kind for kind in found if issubclass(kind, (InvalidInput, errors.StoreError))}


def _by_status(status: int) -> type[MatinsError]:
    if status in (401, 403):
        return NotAllowed
    if status == 503:
        return StoreUnavailable
    return {404: NotFound, 409: Conflict}.get(status, InvalidInput if status < 500 else MatinsError)
