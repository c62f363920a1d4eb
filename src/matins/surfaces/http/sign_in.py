"""The routes by which browsers sign in and out: a link, a password, a provider. The page asks, and shows errors."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable
from concurrent.futures import Executor
from html import escape
from typing import Any
from urllib.parse import parse_qs, parse_qsl

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from matins.errors import MatinsError
from matins.service.sign_in import OpenedSession, SignIn
from matins.surfaces.http.authentication import COOKIE, Authenticator, cookie_of, header
from matins.surfaces.http.endpoint import in_time, read_body
from matins.surfaces.http.problem_json import HttpError, problem, status_of
from matins.surfaces.http.router import Route, Unknown
from matins.surfaces.http.server_routes import for_people

_BUTTON = (
    '<!doctype html><title>Matins</title><form method="post" action="{root}/login">'
    '<input type="hidden" name="code" value="{code}"><button>Log in to Matins</button></form>'
)
"""A link that logs in by itself would be used up by the preview of a chat or a mail program."""
_CODE = re.compile(r"[A-Za-z0-9_-]{43}")
_MAX_FORM_BYTES = 4_000
_FORM_TIMEOUT_S = 10.0
_ASKED, _PROVIDER = "matins_asked", "matins_provider"
_ASKED_S = 600
_CALLBACK = "/login/provider/callback"
Form = dict[str, str]


class SignInRoutes:
    def __init__(
        self,
        authenticator: Authenticator,
        pool: Executor,
        sign_in: SignIn,
        is_proxy: Callable[[str], bool],
        page: Unknown | None = None,
    ) -> None:
        """`page` shows an error of a sign-in to a browser."""
        self._authenticator = authenticator
        self._pool = pool
        self._sign_in = sign_in
        self._is_proxy = is_proxy
        self._page = page

    def routes(self) -> list[Route]:
        handlers: dict[tuple[str, str], Callable[[Scope, Form], Response]] = {
            ("GET", "/login"): self.button,
            ("POST", "/login"): self.open_link,
            ("POST", "/login/email"): self.email,
            ("POST", "/login/password"): self.password,
            ("GET", "/login/provider"): self.provider,
            ("GET", _CALLBACK): self.callback,
            ("POST", "/logout"): self.log_out,
        }
        return [Route(method, path, self.handled(handler)) for (method, path), handler in handlers.items()]

    def handled(self, handler: Callable[[Scope, Form], Response]) -> Any:
        async def application(scope: Scope, receive: Receive, send: Send) -> None:
            try:
                if scope["method"] == "GET":
                    query = parse_qsl(scope["query_string"].decode("latin-1"), errors="replace", max_num_fields=20)
                    form = dict(reversed(query))  # the first value of a name counts
                else:
                    form = form_of(await in_time(read_body(scope, receive, _MAX_FORM_BYTES), _FORM_TIMEOUT_S))
                response = await asyncio.get_running_loop().run_in_executor(self._pool, handler, scope, form)
            except MatinsError as error:
                hint = None if error.hint is None else str(error.hint)
                field: str | None = getattr(error, "field", None)
                found = HttpError(status_of(error), error.code, error.message, field=field, hint=hint)
                return await self.refused(found, scope, receive, send)
            except HttpError as error:
                return await self.refused(error, scope, receive, send)
            except Exception as error:
                response = problem(error, scope)
            return await response(scope, receive, send)

        return application

    async def refused(self, error: HttpError, scope: Scope, receive: Receive, send: Send) -> None:
        if self._page is not None and for_people(scope):
            return await self._page(error, scope, receive, send)
        return await problem(error, scope)(scope, receive, send)

    # -- handlers; they run in a thread

    def button(self, scope: Scope, form: Form) -> Response:
        page = _BUTTON.format(root=escape(scope["root_path"]), code=login_code(form))
        return Response(page, 200, media_type="text/html")

    def open_link(self, scope: Scope, form: Form) -> Response:
        sessions, asked = self._sign_in.sessions, cookie_of(scope, _ASKED)
        session = sessions.open(login_code(form), asked, form.get("password", ""))
        if session is None:
            raise login_refused()
        return self.signed_in(scope, session)

    def email(self, scope: Scope, form: Form) -> Response:
        browser = secrets.token_urlsafe(32)
        self._sign_in.mail(form.get("email", ""), browser, base_of(scope), self.peer(scope))
        cookie = cookie_text(scope, _ASKED, browser, _ASKED_S, path="/login")
        if not for_people(scope):
            return Response(orjson.dumps({"asked": True}), 202, {"Set-Cookie": cookie}, "application/json")
        return Response(b"", 303, {"Set-Cookie": cookie, "Location": f"{scope['root_path']}/login?asked=1"})

    def password(self, scope: Scope, form: Form) -> Response:
        session = self._sign_in.password(form.get("name", ""), form.get("password", ""), self.peer(scope))
        return self.signed_in(scope, session)

    def provider(self, scope: Scope, form: Form) -> Response:
        address, secret = self._sign_in.begin(f"{base_of(scope)}{_CALLBACK}")
        # The provider sends the browser back from another site, so this cookie is not strict.
        cookie = cookie_text(scope, _PROVIDER, secret, _ASKED_S, path="/login", same_site="Lax")
        return Response(b"", 303, {"Set-Cookie": cookie, "Location": address})

    def callback(self, scope: Scope, form: Form) -> Response:
        secret = cookie_of(scope, _PROVIDER)
        session = self._sign_in.finish(form, secret, f"{base_of(scope)}{_CALLBACK}")
        response = self.signed_in(scope, session)
        used = cookie_text(scope, _PROVIDER, "", 0, path="/login", same_site="Lax")
        response.raw_headers.insert(0, (b"set-cookie", used.encode()))
        return response

    def log_out(self, scope: Scope, form: Form) -> Response:
        self._authenticator.principal_of(scope)
        if session := cookie_of(scope, COOKIE):
            self._sign_in.sessions.close(session)
        return Response(b"", 204, {"Set-Cookie": cookie_text(scope, COOKIE, "", 0)})

    def signed_in(self, scope: Scope, session: OpenedSession) -> Response:
        """The session that this browser had ends: it signed in again."""
        if before := cookie_of(scope, COOKIE):
            self._sign_in.sessions.close(before)
        cookie = cookie_text(scope, COOKIE, session.secret, session.lifetime_s)
        return Response(b"", 303, {"Set-Cookie": cookie, "Location": f"{scope['root_path']}/"})

    def peer(self, scope: Scope) -> str | None:
        """The address of the browser: by a trusted proxy, the last one that it names."""
        host: str | None = scope["client"][0] if scope["client"] else None
        if host is not None and self._is_proxy(host):
            named = header(scope, b"x-forwarded-for")
            return None if named is None else named.rpartition(",")[2].strip()
        return host


def base_of(scope: Scope) -> str:
    """The address of the page, as the browser asked for it: its host is one of ours."""
    return f"{scope['scheme']}://{header(scope, b'host')}{scope['root_path']}"


def form_of(body: bytes) -> Form:
    return {name: values[0] for name, values in parse_qs(body.decode("ascii", "replace"), max_num_fields=20).items()}


def login_code(form: Form) -> str:
    """The code of a login link, in a query or a form."""
    code = form.get("code", "")
    if not _CODE.fullmatch(code):
        raise login_refused()
    return code


def login_refused() -> HttpError:
    message = "The login link is invalid, used or expired."
    hint = "Ask for a new one, or print one: matins login. It is valid once, for ten minutes."
    return HttpError(403, "login_refused", message, field="code", hint=hint)


def cookie_text(
    scope: Scope, name: str, value: str, lifetime_s: int, *, path: str = "", same_site: str = "Strict"
) -> str:
    secure = "; Secure" if scope["scheme"] == "https" else ""
    path = f"{scope['root_path']}{path}" or "/"
    return f"{name}={value}; Path={path}; HttpOnly; SameSite={same_site}; Max-Age={lifetime_s}{secure}"
