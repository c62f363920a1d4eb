"""Which past slots a backfill runs: by the newest record of each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from matins.engine.when.triggers import Trigger
from matins.model.rows import SlotRun
from matins.model.run import BackfillChoice, RunState

MAX_RUNS = 1_000
"""Runs that a backfill makes unless its limit is higher."""
FAILURES_IN_A_ROW = 5
"""Failures after which a backfill pauses, where the schedule does not say another number."""
_MISSING = frozenset(
    [RunState.MISSED, RunState.SKIPPED, RunState.BLOCKED, RunState.OVER_BUDGET, RunState.EXPIRED]
)  # fmt: skip
_FAILED = _MISSING | {RunState.FAILED, RunState.INTERRUPTED, RunState.UNKNOWN, RunState.CANCELLED}
_ALL = _FAILED | {RunState.SUCCEEDED, RunState.DENIED}
_CHOSEN = {"missing": _MISSING, "failed": _FAILED, "all": _ALL}


def is_chosen(choice: BackfillChoice, record: SlotRun | None) -> bool:
    """Whether a slot with this newest record is run. One that is live never is."""
    return record is None or RunState(record.state) in _CHOSEN[choice]


class SlotRecords:
    """The newest record of each slot."""

    def __init__(self, rows: Sequence[SlotRun]) -> None:
        self._single = {row.first: row for row in rows if row.first == row.last}  # in the order of their ids
        self._ranges = sorted((row for row in rows if row.first < row.last), key=lambda row: row.first)
        self._firsts = [row.first for row in self._ranges]

    def newest(self, slot: int) -> SlotRun | None:
        found, at = self._single.get(slot), bisect_right(self._firsts, slot) - 1
        covering = self._ranges[at] if at >= 0 and self._ranges[at].last >= slot else None
        return max((row for row in (found, covering) if row is not None), key=lambda row: row.id, default=None)


def slots_of(trigger: Trigger, first: int, last: int, *, newest_first: bool = False) -> Iterator[int]:
    """The slots from one to another, both included."""
    slot = trigger.prev_ms(last + 1) if newest_first else trigger.next_ms(first - 1)
    while slot is not None and first <= slot <= last:
        yield slot
        slot = trigger.prev_ms(slot) if newest_first else trigger.next_ms(slot)


class Window(NamedTuple):
    """The next slots of a backfill that are looked at."""

    slots: list[int]
    is_last: bool
    """Whether no slot follows them."""


def window(trigger: Trigger, first: int, last: int, seen: int | None, *, newest_first: bool, size: int) -> Window:
    """The slots after the last one that was looked at."""
    if seen is not None:
        first, last = (first, seen - 1) if newest_first else (seen + 1, last)
    slots: list[int] = []
    for slot in slots_of(trigger, first, last, newest_first=newest_first):
        if len(slots) == size:
            return Window(slots, False)
        slots.append(slot)
    return Window(slots, True)
