"""The HTTP API, put together: a route for each use case, and what stands beside them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

from matins._version import __version__
from matins.service.requests import Requests
from matins.surfaces.door import Caller
from matins.surfaces.http.answers import Office, UseCase
from matins.surfaces.http.beside import Desk, Endpoint
from matins.surfaces.http.described import BESIDE, SECURITY, described_routes
from matins.surfaces.http.gate import Gate
from matins.surfaces.http.health import Health, Metrics
from matins.surfaces.http.identity import Identity, Keys
from matins.surfaces.http.logins import Logins
from matins.surfaces.http.stream import HEARTBEAT_S, Stream

THREADS = 4
"""SQLite answers one at a time anyway; more of them would only wait for each other, and delay what fires."""
_ABOUT = "Wakes AI agents on time: schedules, runs, approvals and what governs them."


class _Route(APIRoute):
    """FastAPI describes it; what answers is an ASGI application of ours, without the layers in between."""

    def __init__(self, path: str, application: ASGIApp, **options: Any) -> None:
        super().__init__(path, _described_only, response_model=None, **options)
        self.app = application
        self._start, self._end = path.partition("{")[0], path.rpartition("}")[2]

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """What cannot be meant is seen at a glance: every request passes by many routes."""
        path: str = scope["path"]
        if not (path.startswith(self._start) and path.endswith(self._end)):
            return Match.NONE, {}
        return super().matches(scope)


class _Straight:
    """To the application of the route that is meant; what means none goes the long way, and is told what is wrong."""

    def __init__(self, app: ASGIApp, routes: Callable[[], Iterable[BaseRoute]]) -> None:
        self._app = app
        self._by_method: dict[str, list[_Route]] = {}
        for route in routes():
            if isinstance(route, _Route):
                for method in route.methods or ():
                    self._by_method.setdefault(method, []).append(route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        for route in self._by_method.get(scope["method"], ()) if scope["type"] == "http" else ():
            match, found = route.matches(scope)
            if match is Match.FULL:
                scope.update(found)
                scope["route"] = route
                return await route.app(scope, receive, send)
        return await self._app(scope, receive, send)


def _described_only() -> None:
    """Stands for the application."""


def build_app(
    caller: Caller,
    keys: Keys,
    requests: Requests,
    *,
    hosts: Collection[str],
    origins: Collection[str],
    health: Health,
    logins: Logins,
    threads: int = THREADS,
    heartbeat_s: float = HEARTBEAT_S,
) -> FastAPI:
    """`hosts` and `origins` are exact: "127.0.0.1:7411", "http://127.0.0.1:7411".

    From any thread, `app.state.wake()` has streams look for events at once, and `app.state.close()` ends them: a server
    that stops waits for its connections."""
    pool = ThreadPoolExecutor(threads, "matins-http")
    identity = Identity(keys, logins)
    stream = Stream(caller, identity, pool, heartbeat_s=heartbeat_s)
    answered: Counter[tuple[str, str, int]] = Counter()
    metrics = Metrics(caller, answered)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncGenerator[None]:
        metrics.start()
        yield
        stream.feed.close()
        pool.shutdown()

    app = FastAPI(title="Matins", version=__version__, description=_ABOUT, openapi_url=None, lifespan=life,
                  redirect_slashes=False)  # fmt: skip
    desk = Desk(app, caller, identity, pool, health, metrics, logins)
    _add_routes(app, Office(caller, identity, requests, pool, stream.feed.wake, threading.Lock()), desk, stream)
    app.add_middleware(_Straight, routes=lambda: app.router.routes)
    app.add_middleware(Gate, hosts=hosts, origins=origins, answered=answered)
    app.add_exception_handler(HTTPException, desk.nowhere)
    app.state.wake, app.state.close = stream.feed.wake, stream.feed.close
    return app


def _add_routes(app: FastAPI, office: Office, desk: Desk, stream: Stream) -> None:
    beside: dict[str, ASGIApp] = {"/v1/events/stream": stream}
    beside |= {path: Endpoint(answer) for path, answer in desk.answers.items()}
    for (method, path), told in BESIDE.items():
        app.router.routes.append(_Route(path, beside[path], methods=[method], **told))
    routes, schemas = described_routes()
    for route, inputs, told in routes:
        use_case = UseCase(route, inputs, office)
        app.router.routes.append(_Route(route.path, use_case, methods=[route.method], **told))
    _describe(app, schemas)


def _describe(app: FastAPI, schemas: dict[str, Any]) -> None:
    made = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = made()
            components = document.setdefault("components", {})
            components["schemas"] = schemas
            components["securitySchemes"] = SECURITY
            document["security"] = [{name: []} for name in SECURITY]
        return made()

    app.openapi = openapi  # type: ignore[method-assign]
