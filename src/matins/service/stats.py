"""The figures of the whole: what runs, what waits, what it costs."""

from __future__ import annotations

from dataclasses import dataclass

from matins.engine.money import format_money
from matins.engine.when.zones import load_zone
from matins.model.policy import Throttle
from matins.model.principal import Principal
from matins.runtime.catalog import GLOBAL
from matins.runtime.engine import Settings
from matins.service.base import UseCases
from matins.service.rights import needs

_DAY_MS = 86_400_000
LEASE_MS = Settings().lease_ms
"""What other processes may have said instead is not known here."""


@dataclass(frozen=True, slots=True)
class Stats:
    running: bool
    """Whether an engine is there; one that was killed is not, on PostgreSQL once its lease is over."""
    active_schedules: int
    paused_schedules: int
    pending_schedules: int
    """Proposed by agents, and not approved yet."""
    running_executions: int
    max_concurrent: int | None
    """How many may run at once; None where nobody has set a limit."""
    recent_failures: int
    """Runs that failed within the last 24 hours."""
    planner_lag_ms: int
    """How long the longest waiting slot is due already."""
    ready_runs: int
    parked_runs: int
    """Runs that wait for a time, a verdict, a person, or their turn."""
    waiting_approvals: int
    oldest_approval: int | None
    """When the oldest question was asked."""
    spend_today: str
    tokens_today: int
    throttles: tuple[Throttle, ...]


class Figures(UseCases):
    @needs("read")
    def stats(self, principal: Principal) -> Stats:
        """How it stands. Today is the owner's: the machine's own time zone."""
        now, engines = self._clock.now_ms(), self._store.engines(LEASE_MS)
        with self._store.reading() as transaction:
            active, paused, pending, started, ready, parked, asked, oldest, due = transaction.figures()
            sizes = {scope: size for scope, size, _ in transaction.scopes()}
            spent = transaction.spend_since(_midnight(now, self._clock.local_zone()))
            return Stats(
                running=engines > 0,
                active_schedules=active or 0,
                paused_schedules=paused or 0,
                pending_schedules=pending or 0,
                running_executions=started or 0,
                max_concurrent=sizes.get(GLOBAL),
                recent_failures=transaction.recent_failures(now - _DAY_MS),
                planner_lag_ms=0 if due is None else max(0, now - due),
                ready_runs=ready or 0,
                parked_runs=parked or 0,
                waiting_approvals=asked or 0,
                oldest_approval=oldest,
                spend_today=format_money(sum(money for _, _, money, _ in spent)),
                tokens_today=sum(tokens for _, _, _, tokens in spent),
                throttles=tuple(throttle for throttle in transaction.throttles() if throttle.resets_at > now),
            )


def _midnight(now: int, zone_name: str) -> int:
    """When this day began on the clocks of a zone."""
    zone = load_zone(zone_name)
    wall = zone.wall_of(now)
    return zone.resolve(wall - wall % _DAY_MS)
