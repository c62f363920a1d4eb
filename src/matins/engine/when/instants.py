"""From wall times to instants: what a set of wall times means in a zone whose clocks change.

| wall time | fixed times | times that follow the clock (a starred minute or hour) |
| --- | --- | --- |
| exists once | that instant | that instant |
| in a gap | `after`: the first instant after the jump, once for all; `skip`: none; `shift`: at the old offset | none |
| exists twice | `first`: the first instant; `both`: both | both |

Fires are a set of instants: two wall times that meet in one instant fire once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from matins.engine.when.durations import DAY_MS
from matins.engine.when.walltimes import WallSet
from matins.engine.when.zones import MAX_MS, MIN_MS, Stretch, Zone
from matins.model.trigger import DstGap, DstOverlap

Effect = Literal["moved", "skipped", "shifted", "first_only", "repeated", "not_reached"]
FireEffect = Literal["moved", "shifted", "first", "second"]


@dataclass(frozen=True, slots=True)
class DstChange:
    """What a change of the clocks does to wall times that a trigger names."""

    effect: Effect
    walls: tuple[int, ...]
    """The first few wall times that it does this to."""
    count: int
    """How many there are."""
    at_ms: int
    """The instant at which the clocks change."""
    jump_ms: int
    """How far they go; negative is back."""
    fires_ms: int | None = None
    """The instant at which a moved time fires."""


class Instants:
    """The instants that a set of wall times stands for in a zone."""

    def __init__(self, walls: WallSet, zone: Zone, *, fixed: bool, gap: DstGap, overlap: DstOverlap) -> None:
        self.walls = walls
        self.zone = zone
        self.fixed = fixed
        self._gap: DstGap = gap if fixed else "skip"
        self._once_only = fixed and overlap == "first"
        # Between two changes of the clocks a step is one addition: (from, to, offset) of the last such stretch.
        self._calm = zone.recent

    def next(self, after: int) -> int | None:
        """The first instant after `after`."""
        start, end, offset = self._calm
        if start <= after < end:
            wall = self.walls.next(after + offset)
            if wall is not None:
                at = wall - offset
                if at < end:
                    return at
                if after < end - DAY_MS:  # far enough from an overlap that could bring earlier walls back
                    landed = self._land(wall, at)
                    if landed is not None:
                        return landed
        return self._seek(after)

    def _land(self, wall: int, near: int) -> int | None:
        """The instant of a wall time that lies in another stretch, unless a change of the clocks touches it."""
        if near >= MAX_MS:
            return None
        stretch = self.zone.stretch_at(near)
        at = wall - stretch.offset
        if not stretch.calm[0] <= at < stretch.calm[1]:
            return None
        self._calm = stretch.calm
        return at

    def prev(self, before: int) -> int | None:
        """The last instant before `before`."""
        if before <= MIN_MS:
            return None
        before = min(before, MAX_MS)
        index = self.zone.stretch_index(before - 1)
        adjacent = True
        while (stretch := self.zone.stretch(index)) is not None:
            at = self._last_in(stretch, before)
            if at is not None:
                return at if at >= MIN_MS else None
            index = self._index_before(stretch, index, adjacent)
            adjacent = False
        return None

    def count(self, start: int, end: int) -> int:
        """How many instants lie in [start, end)."""
        start, end = max(start, MIN_MS), min(end, MAX_MS)
        if end <= start:
            return 0
        first, last = self.zone.stretch_index(start), self.zone.stretch_index(end - 1)
        return sum(self._count_in(self._stretch(index), start, end) for index in range(first, last + 1))

    def dst_changes(self, start: int, end: int) -> Iterator[DstChange]:
        """What the clock changes in [start, end) do to this set."""
        start, end = max(start, MIN_MS), min(end, MAX_MS)
        if end <= start:
            return
        for index in range(self.zone.stretch_index(start), self.zone.stretch_index(end - 1) + 1):
            stretch = self._stretch(index)
            if start <= stretch.start and stretch.before != stretch.offset:
                yield from self._dst_changes_at(stretch)

    def effect(self, at: int) -> FireEffect | None:
        """What a change of the clocks did to the fire at this instant."""
        stretch = self.zone.stretch_at(at)
        if at in self._swallowed(stretch):
            return "moved" if self._gap == "after" else "shifted"
        twins = self.zone.instants_of(at + stretch.offset)
        if len(twins) < 2:
            return None
        return "first" if at == twins[0] else "second"

    def _seek(self, after: int) -> int | None:
        """The first instant after `after`, wherever the clocks change in between."""
        if after >= MAX_MS:
            return None
        after = max(after, MIN_MS)
        index = self.zone.stretch_index(after)
        calm = self.zone.stretch_at(after).calm
        if calm is not self._calm and calm[0] <= after < calm[1]:
            self._calm = self.zone.recent = calm
            return self.next(after)
        adjacent = True
        while (stretch := self.zone.stretch(index)) is not None:
            at = self._first_in(stretch, after)
            if at is not None:
                self._calm = self.zone.recent = stretch.calm
                return at if at < MAX_MS else None
            index = self._index_after(stretch, index, after, adjacent)
            adjacent = False
        return None

    def _index_after(self, stretch: Stretch, index: int, after: int, adjacent: bool) -> int:
        """Where to look next: the neighbour first, since its wall times may reach back; then where the walls lead."""
        if adjacent:
            return index + 1
        wall = self.walls.next(max(stretch.start, after) + stretch.offset)
        if wall is None or wall - stretch.offset >= MAX_MS:
            return -1
        return max(index + 1, self.zone.stretch_index(wall - stretch.offset - 2 * DAY_MS))

    def _index_before(self, stretch: Stretch, index: int, adjacent: bool) -> int:
        if adjacent or index == 0:
            return index - 1
        wall = self.walls.prev(stretch.start + max(stretch.offset, stretch.before))
        if wall is None:
            return -1
        return min(index - 1, self.zone.stretch_index(wall - stretch.offset + 2 * DAY_MS))

    def _first_in(self, stretch: Stretch, after: int) -> int | None:
        """The first instant of a stretch after `after`."""
        moved = self._first_swallowed(stretch, after)
        if moved == stretch.start:
            return moved
        floor = max(self._first_wall(stretch), after + 1 + stretch.offset)
        wall = self.walls.next(floor - 1)
        at = wall - stretch.offset if wall is not None and wall - stretch.offset < stretch.end else None
        return at if moved is None or (at is not None and at < moved) else moved

    def _last_in(self, stretch: Stretch, before: int) -> int | None:
        """The last instant of a stretch before `before`."""
        moved = self._last_swallowed(stretch, before)
        wall = self.walls.prev(min(before, stretch.end, MAX_MS) + stretch.offset)
        at = wall - stretch.offset if wall is not None and wall >= self._first_wall(stretch) else None
        return at if moved is None or (at is not None and at > moved) else moved

    def _count_in(self, stretch: Stretch, start: int, end: int) -> int:
        floor = max(self._first_wall(stretch), start + stretch.offset)
        plain = self.walls.count(floor, min(end, stretch.end) + stretch.offset)
        return plain + sum(not self._fires_plainly(at, stretch) for at in self._swallowed(stretch) if start <= at < end)

    def _first_wall(self, stretch: Stretch) -> int:
        """From here on the stretch's wall times count; those before it were had in the stretch before."""
        return stretch.start + (max(stretch.offset, stretch.before) if self._once_only else stretch.offset)

    def _first_swallowed(self, stretch: Stretch, after: int) -> int | None:
        """The first instant after `after` that stands for wall times swallowed at the beginning of a stretch."""
        return next((at for at in self._swallowed(stretch) if at > after), None)

    def _last_swallowed(self, stretch: Stretch, before: int) -> int | None:
        return max((at for at in self._swallowed(stretch) if at < before), default=None)

    def _swallowed(self, stretch: Stretch) -> Iterator[int]:
        """The instants that stand for the wall times in the gap before a stretch, in order."""
        if self._gap == "skip" or stretch.offset <= stretch.before:
            return
        for wall in self._walls_between(stretch.start + stretch.before, stretch.start + stretch.offset):
            if self._gap == "after":
                yield stretch.start
                return
            yield wall - stretch.before

    def _fires_plainly(self, at: int, stretch: Stretch) -> bool:
        return self.walls.next(at + stretch.offset - 1) == at + stretch.offset

    def _walls_between(self, start: int, end: int) -> Iterator[int]:
        wall = self.walls.next(start - 1)
        while wall is not None and wall < end:
            yield wall
            wall = self.walls.next(wall)

    def _dst_changes_at(self, stretch: Stretch) -> Iterator[DstChange]:
        jump = stretch.offset - stretch.before
        low, high = sorted((stretch.start + stretch.before, stretch.start + stretch.offset))
        count = self.walls.count(low, high)
        if count:
            walls = tuple(wall for wall, _ in zip(self._walls_between(low, high), range(3), strict=False))
            effect = self._gap_effect() if jump > 0 else self._overlap_effect()
            fires = next(self._swallowed(stretch), None) if jump > 0 else None
            yield DstChange(effect, walls, count, stretch.start, jump, fires)

    def _gap_effect(self) -> Effect:
        if not self.fixed:
            return "not_reached"
        return {"after": "moved", "skip": "skipped", "shift": "shifted"}[self._gap]  # type: ignore[return-value]

    def _overlap_effect(self) -> Effect:
        return "first_only" if self._once_only else "repeated"

    def _stretch(self, index: int) -> Stretch:
        stretch = self.zone.stretch(index)
        assert stretch is not None, index
        return stretch
