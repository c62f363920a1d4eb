"""What becomes of slots that nobody was there for. Arithmetic on the trigger, never a walk over the slots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from matins.engine.quiet_hours import QuietHours, quiet_until, unchanged_since
from matins.engine.when.durations import DAY_MS
from matins.engine.when.triggers import Trigger
from matins.model.schedule import ScheduleDefinition
from matins.model.trigger import Interval, Once

LONGEST_GRACE_MS = 7_200_000
MOST_RECORDS = 1_000
"""Above this many missed slots in one window there is one record for the range."""
MOST_RANGES = 200
"""Where quiet hours divide a range, so many of its parts have a record each, the newest; one is for all that is older,
as missed, and nobody looks there for a slot to make up for."""


class Covered(NamedTuple):
    """Slots that one record stands for: the last of them, the first, and how many."""

    slot: int
    first: int
    slots: int


class Part(NamedTuple):
    """Slots of a window that lie together: between two quiet times, or in one."""

    covered: Covered
    until: int | None
    """When that quiet time ends; None where it is not quiet."""


class Decision(NamedTuple):
    """What to record for the slots from the cursor up to now, and where the cursor goes."""

    missed: list[Covered]
    late: list[Covered]
    """Runs that make up for missed slots, oldest first."""
    on_time: int | None
    """The slot that is due now and within its grace."""
    next_slot: int | None
    window_used: int
    """How many of the window's `catch_up_limit` runs are used up; 0 when a slot was on time."""
    skipped: tuple[Part, ...] = ()
    """Missed slots that nobody makes up for: they would have been skipped."""


def decide(
    definition: ScheduleDefinition,
    trigger: Trigger,
    cursor: int,
    now: int,
    window_used: int = 0,
    quiet: QuietHours | None = None,
) -> Decision:
    """`cursor` is the first slot without a record, at or before `now` and before the schedule's end; in `quiet` hours
    slots are skipped."""
    until = now if definition.ends_at is None else min(now, definition.ends_at)
    following = _after(trigger, cursor, now)
    last = cursor if following is None or following > until else trigger.prev_ms(until + 1) or cursor
    next_slot = following if last == cursor else trigger.next_ms(last)
    on_time = last if now - last <= grace_of(definition, last, next_slot) else None
    gone = last if on_time is None else trigger.prev_ms(last) if last > cursor else None
    if gone is None:
        return Decision([], [], on_time, next_slot, 0)
    count = 1 if gone == cursor else trigger.count(cursor, gone + 1)
    window = Covered(gone, cursor, count)
    late, used = _late(definition, trigger, window, window_used, quiet)
    used = used if on_time is None else 0
    if late and definition.catch_up == "run_once":
        # The run that is due now makes up for the window too.
        late = late if on_time is None else [Covered(on_time, cursor, count + 1)]
        return Decision([], late, None, next_slot, used)
    missed, skipped = _left(trigger, window, late, quiet)
    return Decision(missed, late, on_time, next_slot, used, skipped)


def _after(trigger: Trigger, slot: int, now: int) -> int | None:
    """The slot after one. An interval counts from its last run: what it missed meanwhile is not a row of slots."""
    when = trigger.definition.when
    if isinstance(when, Interval) and when.anchor != "grid":
        following = slot + when.every_ms
        return following if following > now else now + when.every_ms
    return trigger.next_ms(slot)


def grace_of(definition: ScheduleDefinition, slot: int, next_slot: int | None) -> int:
    """How late a slot may start and still be on time. What its jitter adds is not late."""
    when = definition.trigger.when
    period = when.every_ms if isinstance(when, Interval) else 0 if next_slot is None else next_slot - slot
    if definition.grace_ms is not None:
        return definition.grace_ms + int(period * definition.jitter / 100)
    if isinstance(when, Once) or next_slot is None:
        return DAY_MS
    return min(period // 2, LONGEST_GRACE_MS)


def _late(
    definition: ScheduleDefinition, trigger: Trigger, window: Covered, used: int, quiet: QuietHours | None
) -> tuple[list[Covered], int]:
    """The runs that the policy grants a missed window, oldest first, and how much of the limit they use."""
    if definition.catch_up == "skip":
        return [], used
    parts = islice(_parts(trigger, window, quiet), _most_parts(window.slots))
    awake = (part.covered for part in parts if part.until is None)
    if definition.catch_up == "run_once":
        return ([] if next(awake, None) is None else [window]), used
    slots = list(islice(_newest_first(trigger, awake), max(0, definition.catch_up_limit - used)))
    return [Covered(slot, slot, 1) for slot in reversed(slots)], used + len(slots)


def _left(
    trigger: Trigger, window: Covered, late: list[Covered], quiet: QuietHours | None
) -> tuple[list[Covered], tuple[Part, ...]]:
    """Records for what does not run, oldest first: missed, and skipped. One for each slot, unless they are many."""
    most = _most_parts(window.slots - len(late))
    records = _one_each if most is None else _one
    end = late[0].first if late else window.slot + 1
    missed: list[Covered] = []
    skipped: list[Part] = []
    oldest = window.slot + 1
    for covered, until in islice(_parts(trigger, window, quiet), most):
        oldest = covered.first
        if until is not None:
            skipped += (Part(record, until) for record in records(trigger, covered))
        elif oldest < end:
            missed += records(trigger, _before(trigger, covered, end))
    if oldest > window.first:
        missed.append(_before(trigger, window, oldest))
    return missed[::-1], tuple(reversed(skipped))


def _most_parts(slots: int) -> int | None:
    return None if slots <= MOST_RECORDS else MOST_RANGES


def _parts(trigger: Trigger, window: Covered, quiet: QuietHours | None) -> Iterator[Part]:
    """A window by what was quiet and what was not, the newest first: a leap each, however many slots it has."""
    if quiet is None:
        yield Part(window, None)
        return
    last: int | None = window.slot
    while last is not None and last >= window.first:
        since = unchanged_since(quiet, last)
        first = window.first if since <= window.first else trigger.next_ms(since - 1)
        assert first is not None
        yield Part(_between(trigger, first, last), quiet_until(quiet, last))
        last = trigger.prev_ms(first)


def _one_each(trigger: Trigger, covered: Covered) -> list[Covered]:
    return [Covered(slot, slot, 1) for slot in _newest_first(trigger, [covered])]


def _one(trigger: Trigger, covered: Covered) -> list[Covered]:
    return [covered]


def _newest_first(trigger: Trigger, parts: Iterable[Covered]) -> Iterator[int]:
    for part in parts:
        slot: int | None = part.slot
        while slot is not None and slot >= part.first:
            yield slot
            slot = trigger.prev_ms(slot)


def _before(trigger: Trigger, covered: Covered, end: int) -> Covered:
    """Of these slots, those before an instant that comes after the first."""
    if end > covered.slot:
        return covered
    last = trigger.prev_ms(end)
    return _between(trigger, covered.first, covered.first if last is None else last)


def _between(trigger: Trigger, first: int, last: int) -> Covered:
    return Covered(last, first, 1 if first == last else trigger.count(first, last + 1))
