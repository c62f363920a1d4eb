"""The endpoint of a use case: read the request, call, respond."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast
from urllib.parse import quote, urlencode

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from matins.api import codec
from matins.api.paging import next_cursor
from matins.api.results import Schedule
from matins.api.use_case import USE_CASES, Caller, UseCase
from matins.errors import MatinsError, NotFound
from matins.model.access import OWNER, Principal
from matins.records import record_kinds
from matins.service.idempotency import IDEMPOTENCY_KEY, IdempotencyStore, StoredResponse
from matins.service.permissions import check_right
from matins.surfaces.http import etags
from matins.surfaces.http.arguments import read_request
from matins.surfaces.http.authentication import Authenticator, header
from matins.surfaces.http.connections import ARRIVED
from matins.surfaces.http.problem_json import HttpError, problem
from matins.surfaces.http.turns import Turns

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
            return problem(error, scope["path"])
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
            return problem(error, request.scope["path"])
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
            response = problem(error, request.scope["path"])
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
            revision = etags.expected_revision(scope, lambda: self._current(principal, arguments).rev)
            arguments[use_case.revision] = revision
        if not self._conditional:
            return self._response(request, arguments, self._result(principal, arguments))
        check = etags.check_edit if use_case.method == "PATCH" else etags.check_replace
        with self._context.changing:  # one request at a time reads and changes
            check(scope, lambda: self._current_tag(arguments))
            return self._response(request, arguments, self._result(principal, arguments))

    def _result(self, principal: Principal, arguments: Mapping[str, Any]) -> Any:
        return self._context.caller.call(principal, self.use_case, arguments)

    def _current(self, principal: Principal, arguments: Mapping[str, Any]) -> Any:
        """The present result of the reading use case."""
        if self._reader is None:
            message, hint = "This path supports no conditions.", "Omit If-Match and If-None-Match."
            raise HttpError(400, "condition_not_supported", message, hint=hint)
        named = {name: arguments[name] for name in self._reader.parameters if arguments.get(name) is not None}
        return self._context.caller.call(principal, self._reader, named)

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
            raise _nothing_to_delete(use_case, request.path)
        if use_case.status == 204:
            return EndpointResponse(204, b"", {})
        headers: dict[str, str] = {}
        if isinstance(result, list):
            body = codec.encode(_page(use_case, request, arguments, cast("list[Any]", result), headers))
        else:
            body = codec.encode(result)
        if use_case.method == "GET":
            tag = headers["ETag"] = self._tag(result, body)
            if etags.is_unchanged(request.scope, tag):
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
            return etags.etag(body, str(result.rev))
        if not self._state or isinstance(result, list):
            return etags.etag(body)
        document = codec.to_document(result)
        for name in self._state:
            del document[name]
        return etags.etag(body, etags.digest(msgspec.json.encode(document)))

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


def _nothing_to_delete(use_case: UseCase, path: Mapping[str, str]) -> NotFound:
    what = " ".join(path.values()) or use_case.noun
    field = next(iter(path), None)
    return NotFound(f'There is no "{what}".', value=what, field=field, hint="It may be deleted already.")


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
