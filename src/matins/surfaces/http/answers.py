"""One request to one use case: read, ask, answer."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from typing import Any, NamedTuple, cast
from urllib.parse import quote, unquote, urlencode

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from matins.errors import MatinsError, NotFound
from matins.model.principal import OWNER, Principal
from matins.service import RIGHTS
from matins.service.requests import Kept, Requests
from matins.service.rights import check
from matins.surfaces.door import Caller, answer
from matins.surfaces.http import conditions
from matins.surfaces.http.arguments import Inputs
from matins.surfaces.http.identity import Identity, header
from matins.surfaces.http.problems import Refused, problem
from matins.surfaces.pages import next_cursor
from matins.surfaces.routes import Route

MOST_BYTES = 1 << 20
MOST_BYTES_OF_MANY = 64 << 20
_READ_ON = 4 << 20
_SECRETS = {"create_token": "token", "add_webhook": "secret"}
"""Shown once, to whoever asked: never kept with the answer."""
_JSON = "application/json"
BODY_S = 60.0
_GOOD_BYE = {"Connection": "close"}
"""The rest of a body would be read as the next request."""


class Office(NamedTuple):
    """What every answer needs."""

    caller: Caller
    identity: Identity
    requests: Requests
    pool: Executor
    wrote: Callable[[], None]
    """Called when something may have happened."""
    putting: threading.Lock
    """One for all routes: what one puts, another edits."""


class Asked(NamedTuple):
    scope: Any
    path: dict[str, str]
    body: bytes


class Told(NamedTuple):
    status: int
    body: bytes
    headers: dict[str, str]


class UseCase:
    """An ASGI application for one route."""

    def __init__(self, route: Route, inputs: Inputs, office: Office) -> None:
        self.inputs = inputs
        self.route = route
        self._office = office
        self._most = MOST_BYTES_OF_MANY if route.use_case == "add_many" else MOST_BYTES

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._respond(scope, receive)
        await response(scope, receive, send)
        if self.route.method != "GET":
            self._office.wrote()

    async def _respond(self, scope: Any, receive: Receive) -> Response:
        loop = asyncio.get_running_loop()
        try:
            if self._most > MOST_BYTES:  # so much is only taken in from those who may
                await loop.run_in_executor(self._office.pool, self._who, scope)
            body = await _in_time(read_body(scope, receive, self._most)) if self.route.has_body else b""
        except (Refused, MatinsError) as refused:
            return problem(refused, scope["path"])
        path = {name: unquote(value) for name, value in scope["path_params"].items()}
        return await loop.run_in_executor(self._office.pool, self._answer, Asked(scope, path, body))

    def _answer(self, asked: Asked) -> Response:
        """In a thread of the pool, from the token to the bytes."""
        try:
            principal = self._who(asked.scope)
            key = header(asked.scope, b"idempotency-key") if self.route.method == "POST" else None
            told = self._ask(principal, asked, None) if key is None else self._once(principal, asked, key)
        except Exception as error:
            return problem(error, asked.scope["path"])
        return Response(told.body, told.status, told.headers, _JSON if told.body else None)

    def _who(self, scope: Any) -> Principal:
        """Whoever may not is told so before anything is looked up or kept: old answers are not for everybody either."""
        principal = self._office.identity.of(scope)
        check(principal, RIGHTS[self.route.use_case], self.route.use_case)
        return principal

    def _once(self, principal: Principal, asked: Asked, key: str) -> Told:
        """The same key and request: the same answer, also when the first one is still on its way back."""
        requests = self._office.requests
        kept = requests.begin(principal, key, _digest(asked))
        if kept is not None:
            headers = {"Idempotency-Replayed": "true", "Content-Type": "application/json"}
            if kept.status >= 400:
                headers["Content-Type"] = "application/problem+json"
            return Told(kept.status, kept.answer.encode(), headers)
        try:
            told = self._ask(principal, asked, key)
        except (MatinsError, Refused) as error:
            said = problem(error, asked.scope["path"])
            if said.status_code >= 500:
                requests.forget(principal, key)
            else:
                requests.answer(principal, key, Kept(said.status_code, bytes(said.body).decode()))
            raise
        except BaseException:
            requests.forget(principal, key)
            raise
        requests.answer(principal, key, Kept(told.status, self._without_secret(told.body)))
        return told

    def _ask(self, principal: Principal, asked: Asked, key: str | None) -> Told:
        route = self.route
        if asked.body:
            check_content_type(asked.scope)
        arguments = self.inputs.read(asked.path, asked.scope["query_string"], asked.body)
        if route.use_case == "run" and key is not None:  # so that not even a crash in between starts it twice
            arguments.setdefault("key", key)
        if route.use_case == "edit":
            name, agent = arguments["name"], arguments.get("agent")
            arguments["if_rev"] = conditions.revision(asked.scope, lambda: self._look(principal, name, agent)["rev"])
        if route.use_case not in _READERS and route.method != "PUT":
            return self._told(asked, arguments, self._call(principal, arguments))
        check = conditions.check_edited if route.method == "PATCH" else conditions.check_current
        with self._office.putting:  # looked at and changed by one request at a time
            check(asked.scope, lambda: self._current(asked.path))
            told = self._told(asked, arguments, self._call(principal, arguments))
            tag = self._current(asked.path) if route.use_case in _READERS else None
        return told if tag is None else told._replace(headers={**told.headers, "ETag": tag})

    def _call(self, principal: Principal, arguments: Mapping[str, Any]) -> Any:
        return answer(self._office.caller, principal, self.route.use_case, arguments)

    def _look(self, principal: Principal, name: str, agent: str | None) -> Any:
        return answer(self._office.caller, principal, "look", {"name": name, "agent": agent})

    def _current(self, path: Mapping[str, str]) -> str | None:
        """The tag of what a PUT would replace; a tag alone tells nobody what that is."""
        found = _there(self._office.caller, OWNER, self.route.use_case, path)
        return None if found is None else conditions.etag(orjson.dumps(found), found, by_revision=False)

    def _told(self, asked: Asked, arguments: dict[str, Any], document: Any) -> Told:
        route = self.route
        if route.method == "DELETE":
            if document is False:
                what = ", ".join(asked.path.values())
                raise NotFound(f'There is no "{what}"', value=what, field=next(iter(asked.path)), hint="it may be gone")
            return Told(204, b"", {})
        if route.status == 204:
            return Told(204, b"", {})
        headers: dict[str, str] = {}
        if isinstance(document, list):
            document = _page(route.use_case, asked, arguments, cast("list[Any]", document), headers)
        body = orjson.dumps(document)
        if route.method == "GET":
            headers["ETag"] = conditions.etag(body, document, by_revision=route.use_case == "look")
            if conditions.unchanged(asked.scope, headers["ETag"]):
                return Told(304, b"", headers)
        elif route.use_case in ("add", "edit"):
            headers["ETag"] = f'"{document["rev"]}"'
        if route.status == 201:
            headers.update(_location(route.use_case, document))
        return Told(route.status, body, headers)

    def _without_secret(self, body: bytes) -> str:
        field = _SECRETS.get(self.route.use_case)
        return body.decode() if field is None else orjson.dumps({**orjson.loads(body), field: None}).decode()


async def _in_time(body: Awaitable[bytes]) -> bytes:
    """Whoever sends it drop by drop holds a connection that others need."""
    try:
        async with asyncio.timeout(BODY_S):
            return await body
    except TimeoutError:
        hint = f"send it within {BODY_S:.0f} s"
        raise Refused(408, "too_slow", "The body did not come", hint=hint, headers=_GOOD_BYE) from None


async def read_body(scope: Any, receive: Receive, most: int) -> bytes:
    """What is a little too large is read to its end all the same: whoever still writes does not hear an answer."""
    length = header(scope, b"content-length")
    if length is not None and length.isdigit() and int(length) > most + _READ_ON:
        raise _too_large(most)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "cut_off", "The request was cut off")  # nobody reads it, but it is counted
        part = message.get("body", b"")
        size += len(part)
        ended = not message.get("more_body")
        if size > most + _READ_ON or (size > most and ended):
            raise _too_large(most)
        if size <= most:
            parts.append(part)
        if ended:
            return b"".join(parts)


def check_content_type(scope: Any) -> None:
    said = (header(scope, b"content-type") or "").partition(";")[0].strip().lower()
    if said != _JSON and not (said.startswith("application/") and said.endswith("+json")):
        raise Refused(415, "unsupported_media_type", "The body must be JSON", value=said, hint=f"Content-Type: {_JSON}")


def _too_large(most: int) -> Refused:
    detail = f"The body is larger than {most} bytes"
    return Refused(413, "too_large", detail, hint="send less at once", headers=_GOOD_BYE)


def _digest(asked: Asked) -> str:
    scope = asked.scope
    said = b"\n".join([scope["method"].encode(), scope["raw_path"], scope["query_string"], asked.body])
    return hashlib.sha256(said).hexdigest()


def _page(
    use_case: str, asked: Asked, arguments: dict[str, Any], items: list[Any], headers: dict[str, str]
) -> dict[str, Any]:
    cursor = next_cursor(use_case, arguments, items)
    if cursor is not None:
        kept = {
            name: value
            for name, value in arguments.items()
            if name not in asked.path and name not in ("after", "before")
        }
        query = urlencode({**kept, "cursor": cursor}, doseq=True)
        headers["Link"] = f'<{asked.scope["path"]}?{query}>; rel="next"'
    return {"items": items, "next": cursor}


def _location(use_case: str, document: Any) -> dict[str, str]:
    if use_case == "add":
        name = "/".join(quote(part, safe="") for part in (document["agent"], document["name"]) if part)
        return {"Location": f"/v1/schedules/{name}"}
    return {"Location": f"/v1/runs/{document['id']}"} if use_case == "run" else {}


def _there(caller: Caller, principal: Principal, use_case: str, path: Mapping[str, str]) -> Any:
    """The document of what a PUT of this path would replace; None where there is nothing."""
    if use_case not in _READERS:
        raise Refused(400, "no_condition", "No condition can be checked here", hint="leave If-Match out")
    reader, field = _READERS[use_case]
    if field is None:
        try:
            found = answer(caller, principal, reader, path)
        except NotFound:
            return None
        return {"items": cast("list[Any]", found), "next": None} if isinstance(found, list) else found
    (name,) = path.values()
    for item in answer(caller, principal, reader, {}):
        if item[field] == name:
            return {part: value for part, value in item.items() if part not in _NOT_SAID}
    return None


_READERS: dict[str, tuple[str, str | None]] = {
    "set_agent": ("get_agent", None),
    "edit_agent": ("get_agent", None),
    "set_agent_rules": ("agent_rules", None),
    "set_work_source": ("work_sources", "name"),
    "set_quiet_hours": ("quiet_hours", "name"),
    "set_budget": ("budgets", "name"),
    "set_price": ("prices", "model"),
    "set_hook": ("hooks", "event"),
    "limit": ("limits", "scope"),
    "throttle": ("throttles", "provider"),
    "set_allowed_hosts": ("allowed_hosts", None),
}
"""By which use case one sees what a PUT or a PATCH changes, and by which field it is found."""
_NOT_SAID = frozenset({"purses", "taken"})
"""What changes by itself."""
