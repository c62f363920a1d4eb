"""Whether it lives, whether it keeps up, and its figures for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from matins.errors import MatinsError
from matins.model.principal import OWNER
from matins.ports import Clock
from matins.surfaces.door import Caller, answer

MOST_LAG_MS = 30_000
_PAGE = 1_000
_MOST_PAGES = 100
_STALE_MS = 1_000


class Health:
    """`most_lag_ms`: how long a slot may be due and unplanned before others should be asked instead."""

    def __init__(self, caller: Caller, clock: Clock, most_lag_ms: int = MOST_LAG_MS) -> None:
        self._caller = caller
        self._clock = clock
        self._most_lag_ms = most_lag_ms
        self._looked_at: int | None = None
        self._troubles: list[str] = []

    def troubles(self) -> list[str]:
        """Why it is not ready, in words; nothing when it is. Looked up once a second at the most."""
        now = self._clock.boot_ms()
        if self._looked_at is None or now - self._looked_at >= _STALE_MS:
            self._looked_at, self._troubles = now, self._look()
        return self._troubles

    def _look(self) -> list[str]:
        try:
            stats = answer(self._caller, OWNER, "stats", {})
        except MatinsError as error:
            return [f"the store does not answer: {error.code}"]
        found: list[str] = []
        if not stats["running"]:
            found.append("no engine runs on this store")
        if stats["planner_lag_ms"] > self._most_lag_ms:
            found.append(f"the planner is {stats['planner_lag_ms']} ms behind")
        return found


class Metrics:
    """Counters come from the events in the store, as far as they have been read; they begin with this process."""

    def __init__(self, caller: Caller, answered: Mapping[tuple[str, str, int], int]) -> None:
        self._caller = caller
        self._answered = answered
        self._at: int | None = None
        self._events: Counter[str] = Counter()

    def start(self) -> None:
        newest = answer(self._caller, OWNER, "events", {"limit": 1})
        self._at = int(newest[-1]["id"]) if newest else 0

    def text(self) -> str:
        self._count()
        stats = answer(self._caller, OWNER, "stats", {})
        parts = [
            _family("matins_schedules", "gauge", "Schedules by state", _schedules(stats)),
            _family("matins_runs", "gauge", "Runs that are not over, by state", _runs(stats)),
            _single(
                "matins_planner_lag_seconds", "How long the longest waiting slot is due", stats["planner_lag_ms"] / 1000
            ),
            _single("matins_engine_running", "Whether an engine is there", int(stats["running"])),
            _single("matins_waiting_approvals", "Questions to people", stats["waiting_approvals"]),
            _single("matins_failures_last_day", "Runs that failed within 24 hours", stats["recent_failures"]),
            _single("matins_spend_today_dollars", "Spent since midnight", stats["spend_today"].replace("$", "")),
            _single("matins_tokens_today", "Tokens used since midnight", stats["tokens_today"]),
            _family("matins_throttled", "gauge", "Providers that serve nobody for now", _throttles(stats)),
            _family("matins_fires_total", "counter", "Attempts that began", [({}, self._events["run.started"])]),
            _family("matins_failures_total", "counter", "Runs that failed", [({}, self._events["run.failed"])]),
            _family("matins_events_total", "counter", "Events by type", _events(self._events)),
            _family("matins_http_requests_total", "counter", "Requests by route and status", _requests(self._answered)),
        ]
        return "".join(parts)

    def _count(self) -> None:
        for _ in range(_MOST_PAGES):
            page = answer(self._caller, OWNER, "events", {"after": self._at, "limit": _PAGE})
            if page:
                self._at = int(page[-1]["id"])
                self._events.update(event["type"] for event in page)
            if len(page) < _PAGE:
                return


Sample = tuple[Mapping[str, str], Any]


def _schedules(stats: Mapping[str, Any]) -> list[Sample]:
    return [({"state": state}, stats[f"{state}_schedules"]) for state in ("active", "paused", "pending")]


def _runs(stats: Mapping[str, Any]) -> list[Sample]:
    words = {"running": "running_executions", "ready": "ready_runs", "parked": "parked_runs"}
    return [({"state": state}, stats[field]) for state, field in words.items()]


def _throttles(stats: Mapping[str, Any]) -> list[Sample]:
    return [({"provider": throttle["provider"]}, 1) for throttle in stats["throttles"]]


def _events(counted: Mapping[str, int]) -> list[Sample]:
    return [({"type": kind}, count) for kind, count in sorted(counted.items())]


def _requests(answered: Mapping[tuple[str, str, int], int]) -> list[Sample]:
    return [
        ({"route": route, "method": method, "status": str(status)}, count)
        for (route, method, status), count in sorted(answered.items())
    ]


def _single(name: str, says: str, value: Any) -> str:
    return _family(name, "gauge", says, [({}, value)])


def _family(name: str, kind: str, says: str, samples: Iterable[Sample]) -> str:
    lines = [f"# HELP {name} {says}.", f"# TYPE {name} {kind}"]
    for labels, value in samples:
        told = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        lines.append(f"{name}{{{told}}} {value}" if told else f"{name} {value}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
