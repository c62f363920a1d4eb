"""What becomes of slots that nobody was there for. Arithmetic on the trigger, never a walk over the slots."""

from __future__ import annotations

from typing import NamedTuple

from matins.engine.when.triggers import Trigger
from matins.model.schedule import ScheduleDefinition
from matins.model.trigger import Interval, Once

DAY_MS = 86_400_000
LONGEST_GRACE_MS = 7_200_000
MOST_RECORDS = 1_000
"""Above this many missed slots in one window there is one record for the range."""


class Covered(NamedTuple):
    """Slots that one record stands for: the last of them, the first, and how many."""

    slot: int
    first: int
    slots: int


class Decision(NamedTuple):
    """What to record for the slots from the cursor up to now, and where the cursor goes."""

    missed: list[Covered]
    late: list[Covered]
    """Runs that make up for missed slots, oldest first."""
    on_time: int | None
    """The slot that is due now and within its grace."""
    next_slot: int | None
    window_used: int
    """How many of the window's `cap` runs are used up; 0 when a slot was on time."""


def decide(definition: ScheduleDefinition, trigger: Trigger, cursor: int, now: int, window_used: int = 0) -> Decision:
    """`cursor` is the first slot without a record, at or before `now` and before the schedule's end."""
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
    late, used = _late(definition, trigger, window, window_used)
    if late and definition.catch_up == "run_once" and on_time is not None:
        # The run that is due now makes up for the window too.
        return Decision([], [Covered(on_time, cursor, count + 1)], None, next_slot, 0)
    missed = _missed(trigger, cursor, late[0].first if late else gone + 1)
    return Decision(missed, late, on_time, next_slot, 0 if on_time is not None else used)


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


def _late(definition: ScheduleDefinition, trigger: Trigger, window: Covered, used: int) -> tuple[list[Covered], int]:
    """The runs that the policy grants a missed window, oldest first, and how much of the cap they use."""
    if definition.catch_up == "run_once":
        return [window], used
    if definition.catch_up == "skip":
        return [], used
    slots: list[int] = []
    slot: int | None = window.slot
    while slot is not None and slot >= window.first and len(slots) + used < definition.cap:
        slots.append(slot)
        slot = trigger.prev_ms(slot)
    return [Covered(s, s, 1) for s in reversed(slots)], used + len(slots)


def _missed(trigger: Trigger, first: int, end: int) -> list[Covered]:
    """Records for the slots from `first` up to `end`: one each, or one for all when they are many."""
    count = 1 if end == first + 1 else trigger.count(first, end)
    if end <= first or count == 0:
        return []
    if count > MOST_RECORDS:
        last = trigger.prev_ms(end)
        return [Covered(last if last is not None else first, first, count)]
    slots = [first]
    while len(slots) < count and (following := trigger.next_ms(slots[-1])) is not None:
        slots.append(following)
    return [Covered(slot, slot, 1) for slot in slots]
