"""`/mcp` in the API's server: authentication, one request in, one response out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import orjson
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from matins.mcp import json_rpc
from matins.mcp.json_rpc import Json, ProtocolError, Request
from matins.mcp.principal_calls import PrincipalCalls
from matins.mcp.tool_server import ASKING, HEADER, Ask, Session, Sessions, ToolServer, toolsets
from matins.surfaces.http.endpoint import EndpointContext, headers_of, in_time, read_body
from matins.surfaces.http.parts import DaemonPart, Scheduler
from matins.surfaces.http.problem_json import problem
from matins.surfaces.http.router import Route
from matins.surfaces.http.stream import Stream

PATH = "/mcp"
_MAX_BYTES = 1 << 20


class McpApp(DaemonPart):
    """The endpoints, by toolset. `url` is where people find the page."""

    def __init__(self, url: str) -> None:
        self._url = url

    def routes(self, context: EndpointContext, stream: Stream) -> list[Route]:
        sessions = Sessions()
        paths = [(PATH, ""), *((f"{PATH}/{name}", name) for name in ("run", *toolsets()))]
        return [Route("POST", path, _Endpoint(context, self._url, toolset, sessions)) for path, toolset in paths]


def mcp_app(scheduler: Scheduler, public_url: str | None) -> McpApp:
    return McpApp((public_url or scheduler.url or "").rstrip("/"))


class _Endpoint:
    def __init__(self, context: EndpointContext, url: str, toolset: str, sessions: Sessions) -> None:
        self._context = context
        self._url = url
        self._toolset = toolset
        self._sessions = sessions
        self._server = ToolServer(self._in_thread)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            principal = await self._in_thread(self._context.authenticator.principal_of, scope)
            body = await in_time(read_body(scope, receive, _MAX_BYTES), self._context.body_timeout_s)
            calls = PrincipalCalls(self._context.caller, principal, self._url)
            response = await self._answer(body, headers_of(scope), calls)
        except Exception as error:
            response = problem(error, scope)
        await response(scope, receive, send)

    async def _answer(self, body: bytes, headers: dict[str, str], calls: PrincipalCalls) -> Response:
        """Errors have a status of their own in the 2026-07-28 revision; before it, 200 as every other answer."""
        number, is_modern = None, True
        session = self._sessions.find(headers.get(HEADER), calls.principal)
        if session is not None and (response := json_rpc.response_of(body)) is not None:
            session.answer(response)
            return Response(status_code=202)
        try:
            message = json_rpc.read(body)
            number = message.get("id")
            request = json_rpc.request_of(message, headers)
            is_modern = request.is_modern
            asks = request.method == "tools/call" and request.params.get("name") == ASKING
            if session is not None and asks and not request.is_modern and request.id is not None:
                return self._stream(session, message, request, calls)
            answer = await self._server.answer(message, request, calls, self._toolset)
        except ProtocolError as error:
            return _json(json_rpc.error_response(number, error), error.status if is_modern else 200)
        if answer is None:
            return Response(status_code=202)
        forms = request.method == "initialize" and json_rpc.shows_forms(request.params.get("capabilities"))
        return _json(answer, 200, {HEADER: self._sessions.begin(calls.principal)} if forms else None)

    def _stream(self, session: Session, message: Json, request: Request, calls: PrincipalCalls) -> Response:
        async def answer(ask: Ask) -> Json:
            try:
                found = await self._server.answer(message, request, calls, self._toolset, ask)
            except ProtocolError as error:
                return json_rpc.error_response(request.id, error)
            assert found is not None
            return found

        return StreamingResponse(session.stream(answer), media_type="text/event-stream")

    async def _in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._context.pool, function, *arguments)


def _json(answer: Json, status: int, headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps(answer), status, headers, media_type="application/json")
