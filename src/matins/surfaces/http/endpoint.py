"""The endpoint of a use case: read the request, call, respond.

The arguments of a use case from a request: its path, its query and its body.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple, cast
from urllib.parse import parse_qsl, quote, urlencode

import msgspec
import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from matins.api import codec
from matins.api.arguments import argument_kind
from matins.api.results import Schedule
from matins.api.use_case import USE_CASES, Caller, UseCase, decode_cursor, next_cursor
from matins.engine.validation import nearest
from matins.errors import InvalidInput, MatinsError, NotFound
from matins.model.access import OWNER, Principal
from matins.records import record_kinds
from matins.service.idempotency import IDEMPOTENCY_KEY, IdempotencyStore, StoredResponse
from matins.service.permissions import check_right
from matins.service.sign_in import SignIn
from matins.surfaces.http.authentication import Authenticator, header
from matins.surfaces.http.connections import ARRIVED, Turns
from matins.surfaces.http.problem_json import HttpError, problem

_MAX_DEPTH = 100
_MAX_PAIRS = 200
_CURSOR = "cursor"


def read_request(use_case: UseCase, path: Mapping[str, str], query: bytes, body: bytes) -> dict[str, Any]:
    """The arguments of a request. This checks only where each may be; the service checks the values."""
    outer = _read_query(use_case, query)
    inner = _read_body(use_case, body) if body else {}
    for name in inner:
        if name in path or name in use_case.in_query or name == use_case.revision:
            where = "path" if name in path else "If-Match header" if name == use_case.revision else "query"
            message = f'"{name}" belongs in the {where}.'
            raise InvalidInput(message, field=name, hint="Remove it from the body.")
    return {**inner, **outer, **path}


def _read_query(use_case: UseCase, text: bytes) -> dict[str, Any]:
    if not text:
        return {}
    allowed = [*use_case.in_query, *([_CURSOR] if use_case.page else [])]
    given: dict[str, Any] = {}
    for name, value in _pairs(text):
        if name not in allowed:
            hint = nearest(name, allowed)
            raise InvalidInput(f'There is no parameter "{name[:60]}" here.', field=name[:60], hint=hint)
        read = value if name == _CURSOR else argument_kind(use_case.parameters[name].annotation).from_text(name, value)
        if isinstance(read, list):
            given.setdefault(name, []).extend(read)
        elif name in given:
            raise InvalidInput(f'"{name}" is given twice.', field=name, hint="Give it once.")
        else:
            given[name] = read
    cursor = given.pop(_CURSOR, None)
    if cursor is None:
        return given
    place = decode_cursor(use_case, cursor)
    if place.keys() & given.keys():
        field = next(iter(place))
        raise InvalidInput(f'"cursor" and "{field}" say the same.', field=field, hint="Omit one of them.")
    return {**given, **place}


def _read_body(use_case: UseCase, body: bytes) -> dict[str, Any]:
    if not use_case.has_body:
        return {}
    data = read_json(body)
    if not isinstance(data, dict):
        raise InvalidInput("The body must be a JSON object.", field="body", hint='For example: {"name": …}.')
    return cast("dict[str, Any]", data)


def read_json(body: bytes) -> Any:
    try:
        data = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        hint = "Check quotes and commas."
        raise HttpError(400, "invalid_json", f"The body is not JSON: {error}", hint=hint) from None
    if body.count(b"[") + body.count(b"{") > _MAX_DEPTH and _deeper(data, _MAX_DEPTH):
        message = f"The body is nested deeper than {_MAX_DEPTH} levels."
        raise InvalidInput(message, field="body", hint="Make it flatter.")
    return data


def _deeper(value: Any, depth: int) -> bool:
    parts: Iterable[Any] = ()
    if isinstance(value, dict):
        parts = cast("dict[str, Any]", value).values()
    elif isinstance(value, list):
        parts = cast("list[Any]", value)
    return depth < 0 or any(_deeper(part, depth - 1) for part in parts)


def _pairs(text: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text.decode("ascii"), keep_blank_values=True, max_num_fields=_MAX_PAIRS, errors="strict")
    except ValueError:
        hint = "Percent-encode it as UTF-8."
        raise InvalidInput("The query cannot be read.", field="query", hint=hint) from None


_TAGS = re.compile(r'\s*(W/)?"([\x21\x23-\x7e]*)"\s*(?:,|$)')
_REV = re.compile(r"[0-9]{1,15}")
ANY = "*"


def etag(body: bytes, first: str | None = None) -> str:
    """The tag of a body. `first` is the part that an edit compares, such as a schedule's revision."""
    return f'"{digest(body)}"' if first is None else f'"{first}.{digest(body)}"'


def digest(data: bytes) -> str:
    return blake2b(data, digest_size=8).hexdigest()


def is_unchanged(scope: Any, tag: str) -> bool:
    """Whether the client already has this version, by If-None-Match."""
    given = header(scope, b"if-none-match")
    return given is not None and (given.strip() == ANY or tag.strip('"') in tags(given, weak=True))


def tags(text: str, *, weak: bool = False) -> list[str]:
    found: list[str] = []
    place = 0
    while place < len(text):
        match = _TAGS.match(text, place)
        if match is None:
            message, hint = "An ETag must be in double quotes.", 'For example: If-Match: "3".'
            raise HttpError(400, "invalid_header", message, value=text, hint=hint)
        place = match.end()
        if weak or not match[1]:
            found.append(match[2])
    return found


def expected_revision(scope: Any, current: Callable[[], int]) -> int | None:
    """The revision that an edit expects; None for any. `current` is called when several are allowed."""
    given = _required(scope)
    if given.strip() == ANY:
        return None
    revisions = [int(first) for first in _first_parts(given) if _REV.fullmatch(first)]
    if len(revisions) == 1:
        return revisions[0]
    now = current() if revisions else 0
    if now in revisions:
        return now
    raise _stale()


def check_edit(scope: Any, current: Callable[[], str | None]) -> None:
    """Check the condition of an edit of a record without revisions. If there is no record, the use case raises."""
    given, tag = _required(scope), current()
    if tag is not None and given.strip() != ANY and _first_part(tag) not in _first_parts(given):
        raise _stale()


def check_replace(scope: Any, current: Callable[[], str | None]) -> None:
    """Check the condition of a replacement or deletion. `current` returns the present tag; None without a record."""
    wanted, unwanted = header(scope, b"if-match"), header(scope, b"if-none-match")
    if wanted is None and unwanted is None:
        return
    tag = current()
    if wanted is not None:
        if tag is None:
            message, hint = "The record does not exist.", "Omit If-Match to create it."
            raise HttpError(412, "stale", message, field="If-Match", hint=hint)
        if wanted.strip() != ANY and _first_part(tag) not in _first_parts(wanted):
            raise _stale()
    if unwanted is not None and tag is not None and is_unchanged(scope, tag):
        message, hint = "The record exists already.", "Omit If-None-Match to replace it."
        raise HttpError(412, "stale", message, field="If-None-Match", hint=hint)


def _first_part(tag: str) -> str:
    """The part of a tag that an edit compares."""
    return tag.strip('"').partition(".")[0]


def _first_parts(text: str) -> list[str]:
    return [_first_part(tag) for tag in tags(text)]


def _required(scope: Any) -> str:
    given = header(scope, b"if-match")
    if given is None:
        message = "An edit must name the revision that it changes."
        hint = "Read the record and send its ETag as If-Match, or send If-Match: * to change any revision."
        raise HttpError(428, "precondition_required", message, field="If-Match", hint=hint)
    return given


def _stale() -> HttpError:
    message, hint = "The record has changed since you read it.", "Read it again and send the new ETag."
    return HttpError(412, "stale", message, field="If-Match", hint=hint)


_READ_ON = 4 << 20
_JSON = "application/json"
_CLOSE = {"Connection": "close"}
"""Closes the connection: the rest of a body would be read as the next request."""


@dataclass(frozen=True)
class EndpointContext:
    """The objects that every endpoint needs."""

    caller: Caller
    authenticator: Authenticator
    idempotency: IdempotencyStore
    pool: Executor
    changed: Callable[[], None]
    """Called after a request that may have changed something."""
    body_timeout_s: float
    turns: Turns
    sign_in: SignIn
    changing: threading.Lock = field(default_factory=threading.Lock)
    """One lock for all endpoints: one may replace what another edits."""


class EndpointRequest(NamedTuple):
    scope: Any
    path: dict[str, str]
    body: bytes


class EndpointResponse(NamedTuple):
    status: int
    body: bytes
    headers: dict[str, str]


class Endpoint:
    """An ASGI application for one use case."""

    def __init__(self, use_case: UseCase, context: EndpointContext) -> None:
        self.use_case = use_case
        self._context = context
        self._reader = next((u for u in USE_CASES.values() if (u.method, u.path) == ("GET", use_case.path)), None)
        """The use case that reads what a PUT, a PATCH or a DELETE changes."""
        self._conditional = use_case.method in ("PUT", "PATCH", "DELETE") and use_case.revision is None
        self._tagged = self._reader is not None and use_case.method in ("GET", "PUT", "PATCH")
        """Whether the result is the whole record."""
        kind = record_kinds().get(use_case.noun)
        self._state = tuple(kind.state_types or ()) if kind is not None else ()
        """Fields that change without an edit, and do not cause a conflict."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._respond(scope, receive)
        await response(scope, receive, send)
        if self.use_case.method != "GET":
            self._context.changed()

    async def _respond(self, scope: Any, receive: Receive) -> Response:
        loop, use_case = asyncio.get_running_loop(), self.use_case
        try:
            if use_case.has_body and ARRIVED not in scope:  # bodies are awaited only from principals with the right
                await loop.run_in_executor(self._context.pool, self._principal, scope)
            body = b""
            if use_case.has_body:
                body = await in_time(read_body(scope, receive, use_case.max_bytes), self._context.body_timeout_s)
            principal = self._context.authenticator.at_once(scope) if use_case.short else None
        except (HttpError, MatinsError) as error:
            return problem(error, scope)
        request = EndpointRequest(scope, scope["path_params"], body)
        if principal is not None:
            return self._answer(request, principal)
        answer = self._read if use_case.method == "GET" else self._answer
        return await loop.run_in_executor(self._context.pool, answer, request)

    def _read(self, request: EndpointRequest) -> Response:
        with self._context.turns.turn():
            return self._answer(request)

    def _answer(self, request: EndpointRequest, known: Principal | None = None) -> Response:
        """The response. It runs in a thread of the pool, from the token to the bytes, unless the principal is known."""
        try:
            principal = known or self._principal(request.scope)
            key = header(request.scope, b"idempotency-key") if self.use_case.method == "POST" else None
            answer = self._call(principal, request, None) if key is None else self._once(principal, request, key)
        except Exception as error:
            return problem(error, request.scope)
        return Response(answer.body, answer.status, answer.headers, _JSON if answer.body else None)

    def _principal(self, scope: Any) -> Principal:
        """The principal. Rights are checked before anything is read or stored, including stored responses."""
        principal = self._context.authenticator.principal_of(scope)
        check_right(principal, self.use_case)
        return principal

    def _once(self, principal: Principal, request: EndpointRequest, key: str) -> EndpointResponse:
        """The same response for the same key and request, also when the server was killed before it answered."""
        idempotency, digest = self._context.idempotency, _digest(request)
        try:
            answer = idempotency.once(
                principal, key, digest, lambda: self._call(principal, request, key), self._as_stored
            )
        except (MatinsError, HttpError) as error:
            response = problem(error, request.scope)
            if response.status_code < 500 and getattr(error, "field", None) != IDEMPOTENCY_KEY:
                body = bytes(response.body).decode()
                idempotency.refuse(principal, key, digest, StoredResponse(response.status_code, body))
            raise
        if isinstance(answer, EndpointResponse):
            return answer
        kind = "application/problem+json" if answer.status >= 400 else _JSON
        return EndpointResponse(
            answer.status, answer.body.encode(), {"Idempotency-Replayed": "true", "Content-Type": kind}
        )

    def _as_stored(self, answer: EndpointResponse) -> StoredResponse:
        return StoredResponse(answer.status, self._without_secret(answer.body))

    def _call(self, principal: Principal, request: EndpointRequest, key: str | None) -> EndpointResponse:
        use_case, scope = self.use_case, request.scope
        if request.body:
            check_content_type(scope)
        arguments = read_request(use_case, request.path, scope["query_string"], request.body)
        if use_case.name == "schedules.run" and key is not None:  # even a crash in between does not start it twice
            arguments.setdefault("key", key)
        if use_case.revision is not None:
            revision = expected_revision(scope, lambda: self._current(principal, arguments).rev)
            arguments[use_case.revision] = revision
        if not self._conditional:
            return self._response(request, arguments, self._result(principal, arguments))
        check = check_edit if use_case.method == "PATCH" else check_replace
        with self._context.changing:  # one request at a time reads and changes
            check(scope, lambda: self._current_tag(arguments))
            return self._response(request, arguments, self._result(principal, arguments))

    def _result(self, principal: Principal, arguments: Mapping[str, Any]) -> Any:
        return self._context.caller.invoke(principal, self.use_case, arguments)

    def _current(self, principal: Principal, arguments: Mapping[str, Any]) -> Any:
        """The present result of the reading use case."""
        if self._reader is None:
            message, hint = "This path supports no conditions.", "Omit If-Match and If-None-Match."
            raise HttpError(400, "condition_not_supported", message, hint=hint)
        named = {name: arguments[name] for name in self._reader.parameters if arguments.get(name) is not None}
        return self._context.caller.invoke(principal, self._reader, named)

    def _current_tag(self, arguments: Mapping[str, Any]) -> str | None:
        """The present tag; None if there is no record. It is read as the owner, since a tag reveals nothing."""
        try:
            found = self._current(OWNER, arguments)
        except NotFound:
            return None
        return self._tag(found, codec.encode(found))

    def _response(self, request: EndpointRequest, arguments: dict[str, Any], result: Any) -> EndpointResponse:
        use_case = self.use_case
        if use_case.method == "DELETE" and result is False:
            what = " ".join(request.path.values()) or use_case.noun
            field = next(iter(request.path), None)
            raise NotFound(f'There is no "{what}".', value=what, field=field, hint="It may be deleted already.")
        if use_case.status == 204:
            return EndpointResponse(204, b"", {})
        headers: dict[str, str] = {}
        if isinstance(result, list):
            body = codec.encode(_page(use_case, request, arguments, cast("list[Any]", result), headers))
        else:
            body = codec.encode(result)
        if use_case.method == "GET":
            tag = headers["ETag"] = self._tag(result, body)
            if is_unchanged(request.scope, tag):
                return EndpointResponse(304, b"", headers)
        elif isinstance(result, Schedule):
            headers["ETag"] = f'"{result.rev}"'
        elif self._tagged:
            headers["ETag"] = self._tag(result, body)
        if use_case.location is not None:
            headers["Location"] = request.scope["root_path"] + _location(use_case.location, result)
        return EndpointResponse(use_case.status, body, headers)

    def _tag(self, result: Any, body: bytes) -> str:
        """The tag of the result. Its first part is what an edit compares: a schedule's revision, or the settings."""
        if isinstance(result, Schedule):
            return etag(body, str(result.rev))
        if not self._state or isinstance(result, list):
            return etag(body)
        document = codec.to_document(result)
        for name in self._state:
            del document[name]
        return etag(body, digest(msgspec.json.encode(document)))

    def _without_secret(self, body: bytes) -> str:
        """The body without the secret that is shown once, for storing."""
        field = self.use_case.secret
        if field is None:
            return body.decode()
        return msgspec.json.encode({**msgspec.json.decode(body), field: None}).decode()


async def in_time(body: Awaitable[bytes], timeout_s: float) -> bytes:
    """The body. Raises HttpError if a slow client does not send it in time and blocks a connection."""
    try:
        async with asyncio.timeout(timeout_s):
            return await body
    except TimeoutError:
        message, hint = "The body did not arrive in time.", f"Send it within {timeout_s:.0f} s."
        raise HttpError(408, "body_timeout", message, hint=hint, headers=_CLOSE) from None


async def read_body(scope: Any, receive: Receive, max_bytes: int) -> bytes:
    """The body of a request. If it is a little too large, it is read to its end: a client that writes does not read."""
    length = header(scope, b"content-length")
    if length is not None and length.isdigit() and int(length) > max_bytes + _READ_ON:
        raise _too_large(max_bytes)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise HttpError(400, "incomplete_body", "The request was cut off.")  # no client reads it, but it is counted
        part = message.get("body", b"")
        size += len(part)
        ended = not message.get("more_body")
        if size > max_bytes + _READ_ON or (size > max_bytes and ended):
            raise _too_large(max_bytes)
        if size <= max_bytes:
            parts.append(part)
        if ended:
            return b"".join(parts)


def headers_of(scope: Any) -> dict[str, str]:
    """Headers by their names in lower case. One that occurs twice is joined, and so is no signature."""
    headers: dict[str, str] = {}
    for key, value in scope["headers"]:
        text, key = value.decode("latin-1"), key.decode("latin-1").lower()
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


def check_content_type(scope: Any) -> None:
    given = (header(scope, b"content-type") or "").partition(";")[0].strip().lower()
    if given != _JSON and not (given.startswith("application/") and given.endswith("+json")):
        hint = f"Send Content-Type: {_JSON}."
        raise HttpError(415, "unsupported_media_type", "The body must be JSON.", value=given, hint=hint)


def _too_large(max_bytes: int) -> HttpError:
    message = f"The body is larger than {max_bytes} bytes."
    return HttpError(413, "too_large", message, hint="Send less at once.", headers=_CLOSE)


def _digest(request: EndpointRequest) -> str:
    scope = request.scope
    text = b"\n".join([scope["method"].encode(), scope["raw_path"], scope["query_string"], request.body])
    return hashlib.sha256(text).hexdigest()


def _page(
    use_case: UseCase, request: EndpointRequest, arguments: dict[str, Any], items: list[Any], headers: dict[str, str]
) -> dict[str, Any]:
    cursor = next_cursor(use_case, arguments, items)
    if cursor is not None:
        skipped = (*request.path, *(use_case.page or ()))
        kept = {name: value for name, value in arguments.items() if name not in skipped}
        query = urlencode({**kept, "cursor": cursor}, doseq=True)
        headers["Link"] = f'<{request.scope["root_path"]}{request.scope["path"]}?{query}>; rel="next"'
    return {"items": items, "next": cursor}


def _location(template: str, result: Any) -> str:
    """The location, such as `/v1/schedules/{agent}/{name}`; empty parts are left out."""
    parts = [getattr(result, part[1:-1]) if part.startswith("{") else part for part in template.split("/")]
    return "/" + "/".join(quote(str(part), safe="") for part in parts if part)
