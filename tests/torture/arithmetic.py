"""The slots of the schedules that are tortured, reckoned without Matins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

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


def beat_of(trigger: Mapping[str, Any]) -> Beat | None:
    """Of a trigger as it is stored. None for slots that follow from the ends of runs, or that never come."""
    if trigger["kind"] == "cron":
        return None if trigger["expression"] == _NEVER_REACHED else Beat(_PERIODS[trigger["expression"]])
    assert trigger["kind"] == "interval", trigger
    origin = round(datetime.fromisoformat(trigger["origin"]).timestamp() * 1_000)
    return Beat(trigger["every_ms"], origin) if trigger["anchor"] == "grid" else None
