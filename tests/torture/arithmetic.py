"""The slots of the schedules that are tortured, reckoned without Matins."""

from __future__ import annotations

from dataclasses import dataclass

from matins.model.schedule import ScheduleDefinition
from matins.model.trigger import Cron, Interval

_PERIODS = {"* * * * * *": 1_000, "*/2 * * * * *": 2_000, "* * * * *": 60_000}
_NEVER_REACHED = "0 0 1 1 *"


@dataclass(frozen=True)
class Beat:
    """Instants of one distance, of which `phase` is one."""

    period: int
    phase: int = 0

    def next_ms(self, after: int) -> int:
        return after + self.period - (after - self.phase) % self.period

    def count(self, since: int, before: int) -> int:
        """How many there are from `since` on and before `before`."""
        first = self.next_ms(since - 1)
        return max(0, (before - 1 - first) // self.period + 1)


def beat_of(definition: ScheduleDefinition) -> Beat | None:
    """None for slots that follow from the ends of runs, or that never come."""
    when = definition.trigger.when
    if isinstance(when, Cron):
        return None if when.expression == _NEVER_REACHED else Beat(_PERIODS[when.expression])
    assert isinstance(when, Interval), when
    return Beat(when.every_ms, when.origin_ms) if when.anchor == "grid" else None
