"""Routes besides the use cases: health, metrics, OpenAPI, and login and logout of browsers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from functools import partial
from html import escape
from typing import Any
from urllib.parse import parse_qs

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from matins.api.use_case import USE_CASES
from matins.service.permissions import check_right
from matins.service.sessions import SessionVerifier
from matins.surfaces.http.authentication import COOKIE, Authenticator, header, session_of
from matins.surfaces.http.endpoint import in_time, read_body
from matins.surfaces.http.health import Health, Metrics
from matins.surfaces.http.openapi import openapi
from matins.surfaces.http.problem_json import HttpError, problem
from matins.surfaces.http.router import Route, Unknown

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
_BUTTON = (
    '<!doctype html><title>Matins</title><form method="post" action="{root}/login">'
    '<input type="hidden" name="code" value="{code}"><button>Log in to Matins</button></form>'
)
"""A link that logs in by itself would be used up by the preview of a chat or a mail program."""
_CODE = re.compile(r"[A-Za-z0-9_-]{43}")
_MAX_FORM_BYTES = 1_000
_FORM_TIMEOUT_S = 10.0

Handler = Callable[[Scope, Receive], Awaitable[Response]]


class ServerRoutes:
    def __init__(
        self,
        authenticator: Authenticator,
        pool: Executor,
        health: Health,
        metrics: Metrics,
        sessions: SessionVerifier,
        unknown_page: Unknown | None = None,
    ) -> None:
        """`unknown_page` responds to a browser that asks for an address that no route has."""
        self._authenticator = authenticator
        self._pool = pool
        self._health = health
        self._metrics = metrics
        self._sessions = sessions
        self._unknown_page = unknown_page

    def routes(self) -> list[Route]:
        handlers: dict[tuple[str, str], Handler] = {
            ("GET", "/livez"): self._livez,
            ("GET", "/readyz"): self._readyz,
            ("GET", "/metrics"): self._get_metrics,
            ("GET", "/openapi.json"): self._openapi,
            ("GET", "/login"): self._show_button,
            ("POST", "/login"): self._login,
            ("POST", "/logout"): self._logout,
        }
        return [Route(method, path, partial(_respond, handler)) for (method, path), handler in handlers.items()]

    async def unknown(self, error: HttpError, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to an unknown path or method. Without authentication, the response does not show which."""
        if self._unknown_page is not None and scope["method"] == "GET" and self._for_people(scope):
            return await self._unknown_page(error, scope, receive, send)
        found: Exception = error
        try:
            await self._in_thread(self._authenticator.principal_of, scope)
        except Exception as refusal:
            found = refusal
        return await problem(found, scope["path"])(scope, receive, send)

    async def _livez(self, scope: Scope, receive: Receive) -> Response:
        return Response(b"alive\n", media_type="text/plain")

    async def _readyz(self, scope: Scope, receive: Receive) -> Response:
        problems = await self._in_thread(self._health.problems)
        body = orjson.dumps({"ready": not problems, "problems": problems})
        return Response(body, 503 if problems else 200, media_type="application/json")

    async def _get_metrics(self, scope: Scope, receive: Receive) -> Response:
        await self._in_thread(self._check_reader, scope)
        return Response(await self._in_thread(self._metrics.text), media_type=_PROMETHEUS)

    async def _openapi(self, scope: Scope, receive: Receive) -> Response:
        await self._in_thread(self._check_reader, scope)
        return Response(orjson.dumps(openapi()), media_type="application/json")

    async def _show_button(self, scope: Scope, receive: Receive) -> Response:
        page = _BUTTON.format(root=escape(scope["root_path"]), code=login_code(scope["query_string"]))
        return Response(page, 200, media_type="text/html")

    async def _login(self, scope: Scope, receive: Receive) -> Response:
        try:
            body = await in_time(read_body(scope, receive, _MAX_FORM_BYTES), _FORM_TIMEOUT_S)
            session = await self._in_thread(self._sessions.open, login_code(body))
            if session is None:
                raise _login_refused()
        except HttpError:
            if self._for_people(scope):
                return Response(
                    b"", 303, {"Location": f"{scope['root_path']}/login"}
                )  # the page says why, and how to get a new link
            raise
        cookie = _cookie(scope, session.secret, session.lifetime_s)
        return Response(b"", 303, {"Set-Cookie": cookie, "Location": f"{scope['root_path']}/"})

    async def _logout(self, scope: Scope, receive: Receive) -> Response:
        await self._in_thread(self._authenticator.principal_of, scope)
        if session := session_of(scope):
            await self._in_thread(self._sessions.close, session)
        return Response(b"", 204, {"Set-Cookie": _cookie(scope, "", 0)})

    def _for_people(self, scope: Scope) -> bool:
        """Whether a browser asks, and there are pages for it."""
        return self._unknown_page is not None and "text/html" in (header(scope, b"accept") or "")

    def _check_reader(self, scope: Scope) -> None:
        """Raise unless the principal may read anything."""
        check_right(self._authenticator.principal_of(scope), USE_CASES["system.stats"])

    async def _in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)


async def _respond(handler: Handler, scope: Scope, receive: Receive, send: Send) -> None:
    try:
        response = await handler(scope, receive)
    except Exception as error:
        response = problem(error, scope["path"])
    await response(scope, receive, send)


def login_code(form: bytes) -> str:
    """The code of a login link, in a query or a form."""
    codes = parse_qs(form.decode("ascii", "replace")).get("code", [])
    if len(codes) != 1 or not _CODE.fullmatch(codes[0]):
        raise _login_refused()
    return codes[0]


def _login_refused() -> HttpError:
    message = "The login link is invalid, used or expired."
    hint = "Open a new link: matins login prints one. It is valid once, for ten minutes."
    return HttpError(403, "login_refused", message, field="code", hint=hint)


def _cookie(scope: Scope, session: str, lifetime_s: int) -> str:
    secure = "; Secure" if scope["scheme"] == "https" else ""
    path = scope["root_path"] or "/"
    return f"{COOKIE}={session}; Path={path}; HttpOnly; SameSite=Strict; Max-Age={lifetime_s}{secure}"
