"""New data of a time zone: which slot takes the place of the next one of a schedule."""

from __future__ import annotations

from matins.engine.when.triggers import Trigger
from matins.engine.when.zones import Zone


def moved_slot(before: Trigger | None, after: Trigger, slot: int, since: int) -> int | None:
    """The next slot by the new data. `slot` is the next one by the old data; None if those are unknown. All up to
    `since`, and all before `slot`, have had their turn.

    A fixed time that has had its turn does not come again because its instant is later now, and an instant that has a
    record gets no second one because other times are at it now.
    """
    past = slot - 1 if before is None else before.prev_ms(slot)
    if past is None:
        return after.next_ms(since)
    if before is not None and after.fixed:
        since = max(since, _same_wall(past, before.zone, after.zone))
    return after.next_ms(max(since, past))


def _same_wall(at: int, before: Zone, after: Zone) -> int:
    """The instant of the same wall time by the new data."""
    wall = before.wall_of(at)
    return at if after.wall_of(at) == wall else after.resolve(wall)
