"""Catch-up: which missed slots run. Arithmetic on the trigger; slots are not walked one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from matins.engine.quiet_hours import QuietHours, last_change_at, quiet_until
from matins.engine.when.durations import DAY_MS
from matins.engine.when.triggers import Trigger
from matins.model.schedule import ScheduleDefinition
from matins.model.trigger import Interval, Once

MAX_GRACE_MS = 7_200_000
MIN_GRACE_MS = 1_000
"""The engine's own delay, which does not make a slot late, however small its grace is."""
MAX_RECORDS = 1_000
"""With more missed slots than this in one window, one record covers the range."""
MAX_RANGES = 200
"""Quiet hours divide a range into parts. The newest parts, up to this many, have a record each; one record marks all
older parts as missed, and no catch-up run comes from them."""


class SlotRange(NamedTuple):
    """Slots that one record covers: the last, the first, and their number."""

    slot: int
    first: int
    slots: int


class SlotGroup(NamedTuple):
    """Neighbouring slots of a window: all inside one quiet time, or all between two."""

    slot_range: SlotRange
    until: int | None
    """The end of the quiet time; None outside quiet times."""


class CatchUpPlan(NamedTuple):
    """The records for the slots from the cursor up to now, and the next cursor."""

    missed: list[SlotRange]
    late: list[SlotRange]
    """Runs for missed slots, oldest first."""
    on_time: int | None
    """The slot that is due now, within its grace."""
    next_slot: int | None
    window_used: int
    """The used part of the window's `catch_up_limit`; 0 when a slot was on time."""
    skipped: tuple[SlotGroup, ...] = ()
    """Missed slots in quiet hours that skip. No run makes up for them."""


def plan_catch_up(
    definition: ScheduleDefinition,
    trigger: Trigger,
    cursor: int,
    now: int,
    window_used: int = 0,
    quiet: QuietHours | None = None,
    last_at: int | None = None,
) -> CatchUpPlan:
    """The plan for all slots up to `now`, or up to `last_at`, if later slots have their records. `cursor` is the first
    slot without a record, at or before `now` and before the schedule's end. Slots in `quiet` hours are skipped."""
    until = now if last_at is None else last_at
    until = until if definition.ends_at is None else min(until, definition.ends_at)
    following = _after(trigger, cursor, now)
    last = cursor if following is None or following > until else trigger.prev_ms(until + 1) or cursor
    next_slot = following if last == cursor else trigger.next_ms(last)
    on_time = last if now - last <= grace_of(definition, last, next_slot) else None
    gone = last if on_time is None else trigger.prev_ms(last) if last > cursor else None
    if gone is None:
        return CatchUpPlan([], [], on_time, next_slot, 0)
    count = 1 if gone == cursor else trigger.count(cursor, gone + 1)
    window = SlotRange(gone, cursor, count)
    late, used = _late(definition, trigger, window, window_used, quiet)
    used = used if on_time is None else 0
    if late and definition.catch_up == "run_once":
        # The run that is due now also covers the window.
        late = late if on_time is None else [SlotRange(on_time, cursor, count + 1)]
        return CatchUpPlan([], late, None, next_slot, used)
    missed, skipped = _not_run(trigger, window, late, quiet)
    return CatchUpPlan(missed, late, on_time, next_slot, used, skipped)


def _after(trigger: Trigger, slot: int, now: int) -> int | None:
    """The next slot. An interval counts from its last run, so it misses one slot at most."""
    when = trigger.definition.when
    if isinstance(when, Interval) and when.anchor != "grid":
        following = slot + when.every_ms
        return following if following > now else now + when.every_ms
    return trigger.next_ms(slot)


def grace_of(definition: ScheduleDefinition, slot: int, next_slot: int | None) -> int:
    """How late a slot may start and still be on time. Jitter does not count as late."""
    when = definition.trigger.when
    period = when.every_ms if isinstance(when, Interval) else 0 if next_slot is None else next_slot - slot
    if definition.grace_ms is not None:
        return max(definition.grace_ms, MIN_GRACE_MS) + int(period * definition.jitter / 100)
    if isinstance(when, Once) or next_slot is None:
        return DAY_MS
    return min(period // 2, MAX_GRACE_MS)


def _late(
    definition: ScheduleDefinition, trigger: Trigger, window: SlotRange, used: int, quiet: QuietHours | None
) -> tuple[list[SlotRange], int]:
    """The runs that the policy allows for a missed window, oldest first, and how much of the limit is used."""
    if definition.catch_up == "skip":
        return [], used
    groups = islice(_groups(trigger, window, quiet), _max_groups(window.slots))
    awake = (group.slot_range for group in groups if group.until is None)
    if definition.catch_up == "run_once":
        return ([] if next(awake, None) is None else [window]), used
    slots = list(islice(_newest_first(trigger, awake), max(0, definition.catch_up_limit - used)))
    return [SlotRange(slot, slot, 1) for slot in reversed(slots)], used + len(slots)


def _not_run(
    trigger: Trigger, window: SlotRange, late: list[SlotRange], quiet: QuietHours | None
) -> tuple[list[SlotRange], tuple[SlotGroup, ...]]:
    """Records of missed and of skipped slots, oldest first: one per slot, or one per group if there are many."""
    limit = _max_groups(window.slots - len(late))
    records = _one_each if limit is None else _one
    end = late[0].first if late else window.slot + 1
    missed: list[SlotRange] = []
    skipped: list[SlotGroup] = []
    oldest = window.slot + 1
    for slot_range, until in islice(_groups(trigger, window, quiet), limit):
        oldest = slot_range.first
        if until is not None:
            skipped += (SlotGroup(record, until) for record in records(trigger, slot_range))
        elif oldest < end:
            missed += records(trigger, _before(trigger, slot_range, end))
    if oldest > window.first:
        missed.append(_before(trigger, window, oldest))
    return missed[::-1], tuple(reversed(skipped))


def _max_groups(slots: int) -> int | None:
    return None if slots <= MAX_RECORDS else MAX_RANGES


def _groups(trigger: Trigger, window: SlotRange, quiet: QuietHours | None) -> Iterator[SlotGroup]:
    """The quiet and other groups of a window, the newest first. Each group is one step, however many slots it has."""
    if quiet is None:
        yield SlotGroup(window, None)
        return
    last: int | None = window.slot
    while last is not None and last >= window.first:
        since = last_change_at(quiet, last)
        first = window.first if since <= window.first else trigger.next_ms(since - 1)
        assert first is not None
        yield SlotGroup(_between(trigger, first, last), quiet_until(quiet, last))
        last = trigger.prev_ms(first)


def _one_each(trigger: Trigger, slot_range: SlotRange) -> list[SlotRange]:
    return [SlotRange(slot, slot, 1) for slot in _newest_first(trigger, [slot_range])]


def _one(trigger: Trigger, slot_range: SlotRange) -> list[SlotRange]:
    return [slot_range]


def _newest_first(trigger: Trigger, groups: Iterable[SlotRange]) -> Iterator[int]:
    for group in groups:
        slot: int | None = group.slot
        while slot is not None and slot >= group.first:
            yield slot
            slot = trigger.prev_ms(slot)


def _before(trigger: Trigger, slot_range: SlotRange, end: int) -> SlotRange:
    """The slots of the range before `end`, which is after the first slot."""
    if end > slot_range.slot:
        return slot_range
    last = trigger.prev_ms(end)
    return _between(trigger, slot_range.first, slot_range.first if last is None else last)


def _between(trigger: Trigger, first: int, last: int) -> SlotRange:
    return SlotRange(last, first, 1 if first == last else trigger.count(first, last + 1))
