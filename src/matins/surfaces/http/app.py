"""The application; hosts that are allowed.

The HTTP application: an endpoint for each use case, and the routes of the server itself.

The outermost layer: allowed hosts and origins, the headers of all responses, compression. Plain ASGI for speed.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import signal
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote, urlsplit

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from matins.api.use_case import USE_CASES, Caller
from matins.model.access import Principal
from matins.records.file_settings import HttpServer
from matins.service.calls import InboundReceiver
from matins.service.idempotency import IdempotencyStore
from matins.service.sign_in import SessionVerifier, SignIn
from matins.service.tokens import TokenVerifier
from matins.surfaces.http.authentication import Authenticator, header
from matins.surfaces.http.connections import Turns, proxy_test
from matins.surfaces.http.endpoint import Endpoint, EndpointContext
from matins.surfaces.http.inbound import inbound_routes
from matins.surfaces.http.parts import DaemonPart, Scheduler
from matins.surfaces.http.problem_json import HttpError, problem
from matins.surfaces.http.router import Route, Router
from matins.surfaces.http.server_routes import Health, Metrics, ServerRoutes
from matins.surfaces.http.sign_in import SignInRoutes
from matins.surfaces.http.stream import HEARTBEAT_S, Stream

_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; form-action 'self'; frame-ancestors 'none'"),
    (b"referrer-policy", b"same-origin"),  # with "no-referrer", a browser would send our own forms with Origin: null
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"vary", b"Accept-Encoding"),
]
_HSTS = (b"strict-transport-security", b"max-age=31536000")
_FORWARDED = b"x-forwarded-proto"
_ENCODING = b"accept-encoding"
_GZIP = re.compile(rb"\bgzip\b(?! ?; ?q=0\.?0*(?:,|$))")
_PACKED = (b"text/html", b"application/json")
_PACKED_FROM = 1024
"""Bytes. A smaller response takes one packet either way."""
_LEVEL, _GZIP_FORMAT = 1, 31
"""The fastest level: a page takes a third of the time of the next useful one, for a seventh more bytes."""
_SECRETS = re.compile(rb"(?:^|&)(?:token|access_token|api_key|apikey|authorization|bearer)=", re.IGNORECASE)


class SecureTransport:
    """Whether a request reached us over https: by the word of a trusted proxy, or at the public URL."""

    def __init__(self, settings: HttpServer) -> None:
        self._is_proxy = proxy_test(settings)
        public = urlsplit(settings.public_url or "")
        self._host = public.netloc.lower() if public.scheme == "https" else None

    def __call__(self, scope: Any) -> bool:
        if scope["client"] and self._is_proxy(scope["client"][0]) and (said := header(scope, _FORWARDED)):
            return said.rpartition(",")[2].strip().lower() == "https"  # the last one is the trusted proxy's own
        return self._host is not None and (header(scope, b"host") or "").lower() == self._host


class HostCheck:
    """Checks Host and Origin. `hosts` are the exact allowed hosts, or None where another program decides that;
    `origins` are those of Matins' own pages. `responses` counts by route, method and status."""

    def __init__(
        self,
        app: ASGIApp,
        hosts: Collection[str] | None,
        origins: Collection[str],
        responses: Counter[tuple[str, str, int]],
        is_secure: Callable[[Any], bool],
    ) -> None:
        self._app = app
        self._hosts = None if hosts is None else frozenset(host.lower() for host in hosts)
        self._origins = frozenset(origins)
        self._responses = responses
        self._is_secure = is_secure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # An encoded slash belongs to a name: routes match the raw path below the root, and decode its parts.
        scope["path"] = scope["raw_path"].decode("latin-1").removeprefix(scope["root_path"]) or "/"

        # Secrets are in responses to POST, once, and never packed beside text of a request, by whose length a stranger
        # could guess them (BREACH). A page has no token of its own: a header and a strict cookie keep other sites out.
        send = packed(send) if scope["method"] == "GET" and accepts_gzip(scope) else send

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [*_HEADERS, _HSTS] if scope["scheme"] == "https" else _HEADERS
                given = message.get("headers", ())
                names = {name for name, _ in given}
                message["headers"] = [*given, *(header for header in added if header[0] not in names)]
                route = getattr(scope.get("route"), "path", "other")
                self._responses[route, scope["method"], message["status"]] += 1
            await send(message)

        try:
            scope["scheme"] = "https" if self._is_secure(scope) else scope["scheme"]
            self._check(scope)
        except HttpError as error:
            await problem(error, scope)(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _check(self, scope: Any) -> None:
        host = header(scope, b"host")
        if self._hosts is not None and (host is None or host.lower() not in self._hosts):
            hint = f"Use one of: {', '.join(sorted(self._hosts))}."
            raise HttpError(421, "wrong_host", "This server does not serve that host.", field="Host", hint=hint)
        origin = header(scope, b"origin")
        own = host if self._hosts is None else None  # behind a proxy, the scheme that we see is not the browser's
        if origin is not None and origin not in self._origins and not (own and origin.partition("://")[2] == own):
            message = "This server does not serve pages of other sites."
            raise HttpError(403, "wrong_origin", message, field="Origin", value=origin)
        if _SECRETS.search(scope["query_string"]):
            message = "A token in a URL ends up in logs."
            hint = "Send it as Authorization: Bearer, and revoke this one."
            raise HttpError(400, "token_in_url", message, field="query", hint=hint)


def accepts_gzip(scope: Any) -> bool:
    """Whether the client can read a packed response."""
    return any(key == _ENCODING and _GZIP.search(value) for key, value in scope["headers"])


def packed(send: Send) -> Send:
    """Sends a page or a document packed, if it is whole and long. Streams and files stay as they are. So does the ETag:
    it names the state that an edit expects, and no cache keeps the bytes."""
    start: Message | None = None

    async def send_packed(message: Message) -> None:
        nonlocal start
        if message["type"] == "http.response.start" and any(
            name == b"content-type" and value.startswith(_PACKED) for name, value in message["headers"]
        ):
            start = message  # it is sent with the body, because it has its length
            return
        if start is not None:
            begun, start = start, None
            if not message.get("more_body") and len(message.get("body", b"")) >= _PACKED_FROM:
                message = {**message, "body": zlib.compress(message["body"], _LEVEL, _GZIP_FORMAT)}
                length = (b"content-length", b"%d" % len(message["body"]))
                kept = [header for header in begun["headers"] if header[0] != b"content-length"]
                begun["headers"] = [*kept, length, (b"content-encoding", b"gzip")]
            await send(begun)
        await send(message)

    return send_packed


Who = Callable[[Request], "str | Awaitable[str | None] | None"]
"""Names the person whom a program has signed in: called for each request, in a thread if it is no coroutine."""
_LOOP = "matins.loop"


class Mounted:
    """The application as a part of another one, which serves it below a root of its choice."""

    def __init__(self, app: HttpApp) -> None:
        self._app = app
        self.close = app.close
        app.stream.feed.server_leaves = _uvicorn_leaves

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
            return
        if scope["type"] == "http":
            root = quote(scope.get("root_path", ""), safe="/:@!$&'()*+,;=~")
            raw = scope.get("raw_path") or quote(scope["path"]).encode()  # the protocol leaves it to the server
            own = {"root_path": root, "raw_path": raw.partition(b"?")[0], _LOOP: asyncio.get_running_loop()}
            scope = {**scope, **own}
        await self._app(scope, receive, send)


def _uvicorn_leaves() -> bool:
    """Whether uvicorn runs this process and stops: it first waits for open responses to end, without a limit."""
    return getattr(getattr(signal.getsignal(signal.SIGTERM), "__self__", None), "should_exit", False)


def person_finder(who: Who, find: Callable[[str], Principal | None]) -> Callable[[Any], Principal | None]:
    """Finds the person of a request, outside the event loop."""

    async def awaited(name: Awaitable[str | None]) -> str | None:
        return await name

    def found(scope: Any) -> Principal | None:
        name = who(Request(scope))
        if inspect.isawaitable(name):
            name = asyncio.run_coroutine_threadsafe(awaited(name), scope[_LOOP]).result()
        if name is None:
            return None
        principal = find(name)
        if principal is None:
            message = f'"{name}" is signed in, and is no person of Matins.'
            hint = f"Create one: matins people set {name} --role viewer"
            raise HttpError(403, "unknown_person", message, value=name, hint=hint)
        return principal

    return found


THREADS = 4
"""SQLite executes one statement at a time. More threads would wait for each other, and delay runs."""


class HttpApp:
    """An ASGI application. `wake` makes streams read new events, and `close` ends them: a server waits for its
    connections before it stops. Any thread may call both."""

    def __init__(
        self,
        app: ASGIApp,
        routes: list[Route],
        stream: Stream,
        metrics: Metrics,
        pool: ThreadPoolExecutor,
        sign_in: SignIn,
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._pool = pool
        self._sign_in = sign_in
        self.routes = routes
        self.stream = stream
        self.wake = stream.feed.wake
        self.close = stream.feed.close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._app(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._run(receive, send)

    async def _run(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            self._metrics.start()
        except Exception as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self.close()
        self._pool.shutdown()
        self._sign_in.close()
        await send({"type": "lifespan.shutdown.complete"})


def build_app(
    caller: Caller,
    tokens: TokenVerifier,
    idempotency: IdempotencyStore,
    *,
    hosts: Collection[str] | None,
    origins: Collection[str],
    health: Health,
    sessions: SessionVerifier,
    who: Callable[[Any], Principal | None] | None = None,
    inbound: InboundReceiver | None = None,
    settings: HttpServer | None = None,
    parts: Sequence[DaemonPart] = (),
    threads: int = THREADS,
    heartbeat_s: float = HEARTBEAT_S,
) -> HttpApp:
    """The application. `hosts` and `origins` are exact: "127.0.0.1:7411", "http://127.0.0.1:7411"; without `hosts` any
    is served. `inbound` receives deliveries here; None when they have a listener of their own. `parts` are served
    beside the API."""
    pool = ThreadPoolExecutor(threads, "matins-http")
    authenticator = Authenticator(tokens, sessions, who)
    settings = settings or HttpServer()
    stream = Stream(caller, authenticator, pool, settings.max_streams_per_token, heartbeat_s=heartbeat_s)
    responses: Counter[tuple[str, str, int]] = Counter()
    metrics = Metrics(caller, responses)
    turns = Turns(needed=not tokens.reads_wait)
    body_timeout_s = settings.body_timeout_ms / 1000
    sign_in = SignIn(sessions)
    context = EndpointContext(
        caller, authenticator, idempotency, pool, stream.feed.wake, body_timeout_s, turns, sign_in
    )
    unknown_page = next((found for part in parts if (found := part.unknown_page()) is not None), None)
    server_routes = ServerRoutes(authenticator, pool, health, metrics, unknown_page)
    browsers = SignInRoutes(authenticator, pool, sign_in, proxy_test(settings), unknown_page)
    routes = [Route("GET", "/v1/events/stream", stream), *server_routes.routes(), *browsers.routes()]
    routes += [Route(use_case.method, use_case.path, Endpoint(use_case, context)) for use_case in USE_CASES.values()]
    routes += [route for part in parts for route in part.routes(context, stream)]
    if inbound is not None:
        routes += inbound_routes(inbound, pool)
        routes += [route for part in parts for route in part.inbound_routes(pool)]
    router = Router(routes, server_routes.unknown)
    check = HostCheck(router, hosts, origins, responses, SecureTransport(settings))
    return HttpApp(check, routes, stream, metrics, pool, sign_in)


def scheduler_app(
    scheduler: Scheduler,
    settings: HttpServer,
    parts: Sequence[DaemonPart],
    *,
    hosts: Collection[str] | None = None,
    inbound: bool = True,
    who: Callable[[Any], Principal | None] | None = None,
) -> HttpApp:
    """The application of a scheduler. `hosts` are its own, beside that of the public URL."""
    store, clock, public = scheduler.store, scheduler.clock, urlsplit(settings.public_url or "")
    origins = [f"http://{host}" for host in hosts or ()]
    if public.netloc:
        origins.append(f"{public.scheme}://{public.netloc}")
    app = build_app(
        scheduler,
        TokenVerifier(store, clock),
        IdempotencyStore(store, clock),
        hosts=None if hosts is None else {*hosts, *filter(None, [public.netloc])},
        origins=origins,
        health=Health(scheduler, clock),
        sessions=SessionVerifier(store, clock),
        who=who,
        inbound=InboundReceiver(scheduler, store, clock) if inbound else None,
        settings=settings,
        parts=parts,
    )
    scheduler.subscribe(lambda event: app.wake())
    return app
