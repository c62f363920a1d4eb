"""The HTTP application: an endpoint for each use case, and the routes of the server itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor

from starlette.types import ASGIApp, Receive, Scope, Send

from matins.api.use_case import USE_CASES, Caller
from matins.records.http_server import HttpServer
from matins.service.idempotency import IdempotencyStore
from matins.service.inbound import InboundReceiver
from matins.service.sessions import SessionVerifier
from matins.service.tokens import TokenVerifier
from matins.surfaces.http.authentication import Authenticator
from matins.surfaces.http.endpoint import Endpoint, EndpointContext
from matins.surfaces.http.health import Health, Metrics
from matins.surfaces.http.host_check import HostCheck, SecureTransport
from matins.surfaces.http.inbound import PATH, InboundEndpoints
from matins.surfaces.http.parts import DaemonPart
from matins.surfaces.http.router import Route, Router
from matins.surfaces.http.server_routes import ServerRoutes
from matins.surfaces.http.stream import HEARTBEAT_S, Stream
from matins.surfaces.http.turns import Turns

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
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._pool = pool
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
        await send({"type": "lifespan.shutdown.complete"})


def build_app(
    caller: Caller,
    tokens: TokenVerifier,
    idempotency: IdempotencyStore,
    *,
    hosts: Collection[str],
    origins: Collection[str],
    health: Health,
    sessions: SessionVerifier,
    inbound: InboundReceiver | None = None,
    settings: HttpServer | None = None,
    parts: Sequence[DaemonPart] = (),
    threads: int = THREADS,
    heartbeat_s: float = HEARTBEAT_S,
) -> HttpApp:
    """The application. `hosts` and `origins` are exact: "127.0.0.1:7411", "http://127.0.0.1:7411". `inbound` receives
    deliveries here; None when they have a listener of their own. `parts` are served beside the API."""
    pool = ThreadPoolExecutor(threads, "matins-http")
    authenticator = Authenticator(tokens, sessions)
    settings = settings or HttpServer()
    stream = Stream(caller, authenticator, pool, settings.max_streams_per_token, heartbeat_s=heartbeat_s)
    responses: Counter[tuple[str, str, int]] = Counter()
    metrics = Metrics(caller, responses)
    turns = Turns(needed=not tokens.reads_wait)
    body_timeout_s = settings.body_timeout_ms / 1000
    context = EndpointContext(caller, authenticator, idempotency, pool, stream.feed.wake, body_timeout_s, turns)
    unknown_page = next((found for part in parts if (found := part.unknown_page()) is not None), None)
    server_routes = ServerRoutes(authenticator, pool, health, metrics, sessions, unknown_page)
    routes = [Route("GET", "/v1/events/stream", stream), *server_routes.routes()]
    routes += [Route(use_case.method, use_case.path, Endpoint(use_case, context)) for use_case in USE_CASES.values()]
    routes += [route for part in parts for route in part.routes(context, stream)]
    if inbound is not None:
        routes.append(Route("POST", PATH, InboundEndpoints(inbound, pool)))
        routes += [route for part in parts for route in part.inbound_routes(pool)]
    router = Router(routes, server_routes.unknown)
    check = HostCheck(router, hosts, origins, responses, SecureTransport(settings))
    return HttpApp(check, routes, stream, metrics, pool)
