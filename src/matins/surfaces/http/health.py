"""Health of the engine, and metrics for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from matins.api.results import Stats
from matins.api.use_case import USE_CASES, Caller
from matins.errors import MatinsError
from matins.model.access import OWNER
from matins.model.clock import Clock

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
            stats = self._caller.call(OWNER, USE_CASES["system.stats"], {})
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
        newest = self._caller.call(OWNER, USE_CASES["events.list"], {"limit": 1})
        self._at = int(newest[-1].id) if newest else 0

    def text(self) -> str:
        self._count()
        stats = self._caller.call(OWNER, USE_CASES["system.stats"], {})
        parts = [
            _family("matins_schedules", "gauge", "Schedules by state", _schedules(stats)),
            _family("matins_runs", "gauge", "Live runs by state", _runs(stats)),
            _single("matins_planner_lag_seconds", "Age of the oldest unplanned slot", stats.planner_lag_ms / 1000),
            _single("matins_engine_running", "Whether an engine is running", int(stats.running)),
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
        for _ in range(_MAX_PAGES):
            page = self._caller.call(OWNER, USE_CASES["events.list"], {"after": self._at, "limit": _PAGE})
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
