"""What stands beside the use cases: health, figures, the description of the API, and a browser's way in and out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Any
from urllib.parse import parse_qs

import orjson
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from matins.model.principal import Principal
from matins.surfaces.door import Caller, answer
from matins.surfaces.http.health import Health, Metrics
from matins.surfaces.http.identity import Identity, session_of
from matins.surfaces.http.logins import COOKIE, SESSION_MS, Logins
from matins.surfaces.http.problems import Refused, problem

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
_WELCOME = b'<!doctype html><title>Matins</title><p>You are in. <a href="/v1/whoami">Go on</a>'

Answer = Callable[[Scope], Awaitable[Response]]


class Endpoint:
    """An ASGI application that answers without a body to read."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._answer(scope)
        except Exception as error:
            response = problem(error, scope["path"])
        await response(scope, receive, send)


class Desk:
    def __init__(
        self,
        app: FastAPI,
        caller: Caller,
        identity: Identity,
        pool: Executor,
        health: Health,
        metrics: Metrics,
        logins: Logins,
    ) -> None:
        self._app = app
        self._caller = caller
        self._identity = identity
        self._pool = pool
        self._health = health
        self._metrics = metrics
        self._logins = logins
        self.answers: dict[str, Answer] = {
            "/livez": self._livez,
            "/readyz": self._readyz,
            "/metrics": self._figures,
            "/openapi.json": self._openapi,
            "/login": self._login,
            "/logout": self._logout,
        }

    async def nowhere(self, request: Request, error: Exception) -> Response:
        """No such path, or not this method; who has no token does not learn which."""
        assert isinstance(error, HTTPException)
        path = request.scope["path"]
        try:
            await self._in_thread(self._identity.of, request.scope)
        except Exception as refusal:
            return problem(refusal, path)
        allowed = sorted({m for route in self._app.routes for m in _methods(route, path)})
        if not allowed:
            return problem(
                Refused(404, "no_such_path", "There is nothing at this path", hint="see /openapi.json"), path
            )
        hint = f"one of: {', '.join(allowed)}"
        headers = {"Allow": ", ".join(allowed)}
        return problem(Refused(405, "no_such_method", "Not by this method", hint=hint, headers=headers), path)

    async def _livez(self, scope: Scope) -> Response:
        return Response(b"alive\n", media_type="text/plain")

    async def _readyz(self, scope: Scope) -> Response:
        troubles = await self._in_thread(self._health.troubles)
        body = orjson.dumps({"ready": not troubles, "troubles": troubles})
        return Response(body, 503 if troubles else 200, media_type="application/json")

    async def _figures(self, scope: Scope) -> Response:
        await self._who(scope)
        return Response(await self._in_thread(self._metrics.text), media_type=_PROMETHEUS)

    async def _openapi(self, scope: Scope) -> Response:
        await self._who(scope)
        return Response(orjson.dumps(self._app.openapi()), media_type="application/json")

    async def _login(self, scope: Scope) -> Response:
        codes = parse_qs(scope["query_string"].decode("ascii", "replace")).get("code", [])
        session = self._logins.open(codes[0]) if len(codes) == 1 else None
        if session is None:
            hint = "each is good once and for ten minutes; `matins up` prints a new one"
            raise Refused(403, "login_refused", "This link opens nothing", field="code", hint=hint)
        return Response(_WELCOME, 200, {"Set-Cookie": _cookie(scope, session, SESSION_MS // 1000)}, "text/html")

    async def _logout(self, scope: Scope) -> Response:
        await self._who(scope)
        if session := session_of(scope):
            self._logins.close(session)
        return Response(b"", 204, {"Set-Cookie": _cookie(scope, "", 0)})

    async def _who(self, scope: Scope) -> Principal:
        """Anybody who may look at something."""

        def known() -> Principal:
            principal = self._identity.of(scope)
            answer(self._caller, principal, "whoami", {})
            return principal

        return await self._in_thread(known)

    async def _in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)


def _methods(route: Any, path: str) -> set[str]:
    return route.methods if route.path_regex.match(path) else set()


def _cookie(scope: Scope, session: str, lasts_s: int) -> str:
    secure = "; Secure" if scope["scheme"] == "https" else ""
    return f"{COOKIE}={session}; Path=/; HttpOnly; SameSite=Strict; Max-Age={lasts_s}{secure}"
