"""Routes besides the use cases: health, metrics and OpenAPI."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Executor
from functools import partial
from typing import Any

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from matins.api.results import Stats
from matins.api.use_case import USE_CASES, Caller
from matins.errors import MatinsError
from matins.model.access import OWNER
from matins.model.clock import Clock
from matins.service.permissions import check_right
from matins.surfaces.http.authentication import Authenticator, header
from matins.surfaces.http.openapi import openapi
from matins.surfaces.http.problem_json import HttpError, problem
from matins.surfaces.http.router import Route, Unknown

MAX_LAG_MS = 30_000
_PAGE = 1_000
_MAX_PAGES = 100
_STALE_MS = 1_000


class Health:
    """Checks the health. `max_lag_ms`: how long a slot may be due and unplanned."""

    def __init__(self, caller: Caller, clock: Clock, max_lag_ms: int = MAX_LAG_MS) -> None:
        self._caller = caller
        self._clock = clock
        self._max_lag_ms = max_lag_ms
        self._checked_at: int | None = None
        self._problems: list[str] = []

    def problems(self) -> list[str]:
        """The problems of the server; empty when it is ready. Checked at most once a second."""
        now = self._clock.boot_ms()
        if self._checked_at is None or now - self._checked_at >= _STALE_MS:
            self._checked_at, self._problems = now, self._check()
        return self._problems

    def _check(self) -> list[str]:
        try:
            stats = self._caller.invoke(OWNER, USE_CASES["system.stats"], {})
        except MatinsError as error:
            return [f"The store does not answer: {error.code}."]
        found: list[str] = []
        if not stats.running:
            found.append("No engine is running on this store.")
        if stats.planner_lag_ms > self._max_lag_ms:
            found.append(f"The planner is {stats.planner_lag_ms} ms behind.")
        return found


class Metrics:
    """Metrics. Counters come from the events in the store, and start with this process."""

    def __init__(self, caller: Caller, responses: Mapping[tuple[str, str, int], int]) -> None:
        self._caller = caller
        self._responses = responses
        self._at: int | None = None
        self._events: Counter[str] = Counter()

    def start(self) -> None:
        newest = self._caller.invoke(OWNER, USE_CASES["events.list"], {"limit": 1})
        self._at = int(newest[-1].id) if newest else 0

    def text(self) -> str:
        self._count()
        stats = self._caller.invoke(OWNER, USE_CASES["system.stats"], {})
        parts = [
            _family("matins_schedules", "gauge", "Schedules by state", _schedules(stats)),
            _family("matins_runs", "gauge", "Live runs by state", _runs(stats)),
            _single("matins_planner_lag_seconds", "Age of the oldest unplanned slot", stats.planner_lag_ms / 1000),
            _single("matins_engine_running", "Whether an engine is running", int(stats.running)),
            _single("matins_runs_without_node", "Ready runs that no live node can run", stats.runs_without_node),
            _single("matins_waiting_approvals", "Pending approvals", stats.waiting_approvals),
            _single("matins_failures_last_day", "Runs that failed within 24 hours", stats.recent_failures),
            _single("matins_spend_today_dollars", "Spent since midnight", stats.spend_today.replace("$", "")),
            _single("matins_tokens_today", "Tokens used since midnight", stats.tokens_today),
            _family("matins_throttled", "gauge", "Providers whose rate limit is reached", _throttles(stats)),
            _family("matins_fires_total", "counter", "Attempts that started", [({}, self._events["run.started"])]),
            _family("matins_failures_total", "counter", "Runs that failed", [({}, self._events["run.failed"])]),
            _family("matins_events_total", "counter", "Events by type", _events(self._events)),
            _family(
                "matins_http_requests_total", "counter", "Requests by route and status", _requests(self._responses)
            ),
        ]
        return "".join(parts)

    def _count(self) -> None:
        if self._at is None:
            self.start()
        for _ in range(_MAX_PAGES):
            page = self._caller.invoke(OWNER, USE_CASES["events.list"], {"after": self._at, "limit": _PAGE})
            if page:
                self._at = int(page[-1].id)
                self._events.update(event.type for event in page)
            if len(page) < _PAGE:
                return


Sample = tuple[Mapping[str, str], Any]


def _schedules(stats: Stats) -> list[Sample]:
    return [({"state": state}, getattr(stats, f"{state}_schedules")) for state in ("active", "paused", "pending")]


def _runs(stats: Stats) -> list[Sample]:
    fields = {"running": "running_executions", "ready": "ready_runs", "waiting": "waiting_runs"}
    return [({"state": state}, getattr(stats, field)) for state, field in fields.items()]


def _throttles(stats: Stats) -> list[Sample]:
    return [({"provider": throttle.provider}, 1) for throttle in stats.throttles]


def _events(counted: Mapping[str, int]) -> list[Sample]:
    return [({"type": kind}, count) for kind, count in sorted(counted.items())]


def _requests(responses: Mapping[tuple[str, str, int], int]) -> list[Sample]:
    return [
        ({"route": route, "method": method, "status": str(status)}, count)
        for (route, method, status), count in sorted(responses.items())
    ]


def _single(name: str, text: str, value: Any) -> str:
    return _family(name, "gauge", text, [({}, value)])


def _family(name: str, kind: str, text: str, samples: Iterable[Sample]) -> str:
    lines = [f"# HELP {name} {text}.", f"# TYPE {name} {kind}"]
    for labels, value in samples:
        pairs = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        lines.append(f"{name}{{{pairs}}} {value}" if pairs else f"{name} {value}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
Handler = Callable[[Scope, Receive], Awaitable[Response]]


def for_people(scope: Scope) -> bool:
    """Whether a browser asks for a page."""
    return "text/html" in (header(scope, b"accept") or "")


class ServerRoutes:
    def __init__(
        self,
        authenticator: Authenticator,
        pool: Executor,
        health: Health,
        metrics: Metrics,
        unknown_page: Unknown | None = None,
    ) -> None:
        """`unknown_page` responds to a browser that asks for an address that no route has."""
        self._authenticator = authenticator
        self._pool = pool
        self._health = health
        self._metrics = metrics
        self._unknown_page = unknown_page

    def routes(self) -> list[Route]:
        handlers: dict[tuple[str, str], Handler] = {
            ("GET", "/livez"): self._livez,
            ("GET", "/readyz"): self._readyz,
            ("GET", "/metrics"): self._get_metrics,
            ("GET", "/openapi.json"): self._openapi,
        }
        return [Route(method, path, partial(_respond, handler)) for (method, path), handler in handlers.items()]

    async def unknown(self, error: HttpError, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to an unknown path or method. Without authentication, the response does not show which."""
        if self._unknown_page is not None and scope["method"] == "GET" and for_people(scope):
            return await self._unknown_page(error, scope, receive, send)
        found: Exception = error
        try:
            await self._in_thread(self._authenticator.principal_of, scope)
        except Exception as refusal:
            found = refusal
        return await problem(found, scope)(scope, receive, send)

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
        servers = {"servers": [{"url": scope["root_path"]}]} if scope["root_path"] else {}
        return Response(orjson.dumps({**openapi(), **servers}), media_type="application/json")

    def _check_reader(self, scope: Scope) -> None:
        """Raise unless the principal may read anything."""
        check_right(self._authenticator.principal_of(scope), USE_CASES["system.stats"])

    async def _in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)


async def _respond(handler: Handler, scope: Scope, receive: Receive, send: Send) -> None:
    try:
        response = await handler(scope, receive)
    except Exception as error:
        response = problem(error, scope)
    await response(scope, receive, send)
