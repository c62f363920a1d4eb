"""From wall times to instants: the meaning of wall times in a zone with clock changes.

| wall time | fixed times | times that follow the clock (a starred minute or hour) |
| --- | --- | --- |
| exists once | that instant | that instant |
| in a gap | `after`: the first instant after the jump, once for all; `skip`: none; `shift`: at the old offset | none |
| exists twice | `first`: the first instant; `both`: both | both |

Fires are a set of instants: two wall times at the same instant fire once.

The sources of a trigger's instants. Each computes next, prev and count by arithmetic, not slot by slot.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from matins.engine.when.durations import DAY_MS
from matins.engine.when.walltimes import WallSet
from matins.engine.when.zones import MAX_MS, MIN_MS, OffsetPeriod, Zone
from matins.model.trigger import DstGap, DstOverlap

DstEffect = Literal["moved", "skipped", "shifted", "first_only", "repeated", "not_reached"]
FireEffect = Literal["moved", "shifted", "first", "second"]
_GAP_EFFECTS: dict[DstGap, DstEffect] = {"after": "moved", "skip": "skipped", "shift": "shifted"}


@dataclass(frozen=True, slots=True)
class DstChange:
    """The effect of a clock change on the wall times of a trigger."""

    effect: DstEffect
    walls: tuple[int, ...]
    """The first few affected wall times."""
    count: int
    """The number of affected wall times."""
    at_ms: int
    """The instant of the clock change."""
    jump_ms: int
    """The size of the change; negative is back."""
    fires_ms: int | None = None
    """The instant at which a moved time fires."""


class Instants:
    """The instants of a set of wall times in a zone."""

    def __init__(self, walls: WallSet, zone: Zone, *, fixed: bool, gap: DstGap, overlap: DstOverlap) -> None:
        self.walls = walls
        self.zone = zone
        self.fixed = fixed
        self._gap: DstGap = gap if fixed else "skip"
        self._once_only = fixed and overlap == "first"
        # Between two clock changes a step is one addition: (from, to, offset) of the last such period.
        self._unaffected = zone.recent

    def next(self, after: int) -> int | None:
        start, end, offset = self._unaffected
        if start <= after < end:
            wall = self.walls.next(after + offset)
            if wall is not None:
                at = wall - offset
                if at < end:
                    return at
                if after < end - DAY_MS:  # an overlap nearby could bring earlier walls back
                    at_wall = self._resolve(wall, at)
                    if at_wall is not None:
                        return at_wall
        return self._seek(after)

    def _resolve(self, wall: int, near: int) -> int | None:
        """The instant of a wall time in another offset period; None if a clock change affects it."""
        if near >= MAX_MS:
            return None
        period = self.zone.period_at(near)
        at = wall - period.offset
        if not period.unaffected[0] <= at < period.unaffected[1]:
            return None
        self._unaffected = period.unaffected
        return at

    def prev(self, before: int) -> int | None:
        if before <= MIN_MS:
            return None
        before = min(before, MAX_MS)
        index = self.zone.period_index(before - 1)
        adjacent = True
        while (period := self.zone.period(index)) is not None:
            at = self._last_in(period, before)
            if at is not None:
                return at if at >= MIN_MS else None
            index = self._index_before(period, index, adjacent)
            adjacent = False
        return None

    def count(self, start: int, end: int) -> int:
        start, end = max(start, MIN_MS), min(end, MAX_MS)
        if end <= start:
            return 0
        first, last = self.zone.period_index(start), self.zone.period_index(end - 1)
        return sum(self._count_in(self._period(index), start, end) for index in range(first, last + 1))

    def dst_changes(self, start: int, end: int) -> Iterator[DstChange]:
        start, end = max(start, MIN_MS), min(end, MAX_MS)
        if end <= start:
            return
        for index in range(self.zone.period_index(start), self.zone.period_index(end - 1) + 1):
            period = self._period(index)
            if start <= period.start and period.before != period.offset:
                yield from self._dst_changes_at(period)

    def effect(self, at: int) -> FireEffect | None:
        period = self.zone.period_at(at)
        if at in self._from_gap(period):
            return "moved" if self._gap == "after" else "shifted"
        twins = self.zone.instants_of(at + period.offset)
        if len(twins) < 2:
            return None
        return "first" if at == twins[0] else "second"

    def _seek(self, after: int) -> int | None:
        """The first instant after `after`, across clock changes."""
        if after >= MAX_MS:
            return None
        after = max(after, MIN_MS)
        index = self.zone.period_index(after)
        unaffected = self.zone.period_at(after).unaffected
        if unaffected is not self._unaffected and unaffected[0] <= after < unaffected[1]:
            self._unaffected = self.zone.recent = unaffected
            return self.next(after)
        adjacent = True
        while (period := self.zone.period(index)) is not None:
            at = self._first_in(period, after)
            if at is not None:
                self._unaffected = self.zone.recent = period.unaffected
                return at if at < MAX_MS else None
            index = self._index_after(period, index, after, adjacent)
            adjacent = False
        return None

    def _index_after(self, period: OffsetPeriod, index: int, after: int, adjacent: bool) -> int:
        """The next period to search: the neighbour, whose wall times may reach back, then that of the next wall."""
        if adjacent:
            return index + 1
        wall = self.walls.next(max(period.start, after) + period.offset)
        if wall is None or wall - period.offset >= MAX_MS:
            return -1
        return max(index + 1, self.zone.period_index(wall - period.offset - 2 * DAY_MS))

    def _index_before(self, period: OffsetPeriod, index: int, adjacent: bool) -> int:
        if adjacent or index == 0:
            return index - 1
        wall = self.walls.prev(period.start + max(period.offset, period.before))
        if wall is None:
            return -1
        return min(index - 1, self.zone.period_index(wall - period.offset + 2 * DAY_MS))

    def _first_in(self, period: OffsetPeriod, after: int) -> int | None:
        """The first instant of a period after `after`."""
        moved = next((at for at in self._from_gap(period) if at > after), None)
        if moved == period.start:
            return moved
        floor = max(self._first_wall(period), after + 1 + period.offset)
        wall = self.walls.next(floor - 1)
        at = wall - period.offset if wall is not None and wall - period.offset < period.end else None
        return at if moved is None or (at is not None and at < moved) else moved

    def _last_in(self, period: OffsetPeriod, before: int) -> int | None:
        """The last instant of a period before `before`."""
        moved = max((at for at in self._from_gap(period) if at < before), default=None)
        wall = self.walls.prev(min(before, period.end, MAX_MS) + period.offset)
        at = wall - period.offset if wall is not None and wall >= self._first_wall(period) else None
        return at if moved is None or (at is not None and at > moved) else moved

    def _count_in(self, period: OffsetPeriod, start: int, end: int) -> int:
        floor = max(self._first_wall(period), start + period.offset)
        plain = self.walls.count(floor, min(end, period.end) + period.offset)
        moved = [at + period.offset for at in self._from_gap(period) if start <= at < end]
        return plain + sum(self.walls.next(wall - 1) != wall for wall in moved)  # others are among the plain ones

    def _first_wall(self, period: OffsetPeriod) -> int:
        """The first wall time that counts in this period. Earlier ones already fired in the period before."""
        return period.start + (max(period.offset, period.before) if self._once_only else period.offset)

    def _from_gap(self, period: OffsetPeriod) -> Iterator[int]:
        """The instants for the wall times in the gap before a period, in order."""
        if self._gap == "skip" or period.offset <= period.before:
            return
        for wall in self._walls_between(period.start + period.before, period.start + period.offset):
            if self._gap == "after":
                yield period.start
                return
            yield wall - period.before

    def _walls_between(self, start: int, end: int) -> Iterator[int]:
        wall = self.walls.next(start - 1)
        while wall is not None and wall < end:
            yield wall
            wall = self.walls.next(wall)

    def _dst_changes_at(self, period: OffsetPeriod) -> Iterator[DstChange]:
        jump = period.offset - period.before
        low, high = sorted((period.start + period.before, period.start + period.offset))
        count = self.walls.count(low, high)
        if count:
            walls = tuple(wall for wall, _ in zip(self._walls_between(low, high), range(3), strict=False))
            effect: DstEffect = "first_only" if self._once_only else "repeated"
            fires = None
            if jump > 0:
                effect = _GAP_EFFECTS[self._gap] if self.fixed else "not_reached"
                fires = next(self._from_gap(period), None)
            yield DstChange(effect, walls, count, period.start, jump, fires)

    def _period(self, index: int) -> OffsetPeriod:
        period = self.zone.period(index)
        assert period is not None, index
        return period


class Source(Protocol):
    @property
    def fixed(self) -> bool:
        """Whether an instant is a fixed wall time. False for instants that follow elapsed time."""
        ...

    def next(self, after: int, /) -> int | None:
        """The first instant after `after`."""
        ...

    def prev(self, before: int, /) -> int | None:
        """The last instant before `before`."""
        ...

    def count(self, start: int, end: int, /) -> int:
        """The number of instants in [start, end)."""
        ...

    def dst_changes(self, start: int, end: int, /) -> Iterator[DstChange]:
        """The effects of clock changes in [start, end)."""
        ...

    def effect(self, at: int, /) -> FireEffect | None:
        """The effect of a clock change on the fire at this instant."""
        ...


class _WithoutDst:
    """Elapsed time, which clock changes do not affect."""

    fixed = False

    def dst_changes(self, start: int, end: int, /) -> Iterator[DstChange]:
        return iter(())

    def effect(self, at: int, /) -> FireEffect | None:
        return None


class NoInstant(_WithoutDst):
    def next(self, after: int, /) -> None:
        return None

    def prev(self, before: int, /) -> None:
        return None

    def count(self, start: int, end: int, /) -> int:
        return 0


class OneInstant(_WithoutDst):
    def __init__(self, at: int) -> None:
        self._at = at

    def next(self, after: int, /) -> int | None:
        return self._at if after < self._at else None

    def prev(self, before: int, /) -> int | None:
        return self._at if before > self._at else None

    def count(self, start: int, end: int, /) -> int:
        return int(start <= self._at < end)


class Grid(_WithoutDst):
    """Every `step`, through `origin`. It has no beginning: the clock may have been ahead when `origin` was noted."""

    def __init__(self, origin: int, step: int) -> None:
        self._origin = origin
        self._step = step

    def next(self, after: int, /) -> int | None:
        at = after + self._step - (after - self._origin) % self._step
        return at if at < MAX_MS else None

    def prev(self, before: int, /) -> int | None:
        at = before - 1 - (before - 1 - self._origin) % self._step
        return at if at >= MIN_MS else None

    def count(self, start: int, end: int, /) -> int:
        return max(0, (end - 1 - self._origin) // self._step - (start - 1 - self._origin) // self._step)


class Elapsed(_WithoutDst):
    """`step` after the given instant. The interval's past is in the records of runs, not in the trigger."""

    def __init__(self, step: int) -> None:
        self._step = step

    def next(self, after: int, /) -> int | None:
        at = after + self._step
        return at if at < MAX_MS else None

    def prev(self, before: int, /) -> int | None:
        at = before - self._step
        return at if at >= MIN_MS else None

    def count(self, start: int, end: int, /) -> int:
        return max(0, (end - 1 - start) // self._step)


class Without:
    """A source without the instants of some spans, which are sorted, each from its start to before its end."""

    def __init__(self, source: Source, spans: list[tuple[int, int]]) -> None:
        self._source = source
        self._spans = spans
        self._starts = [start for start, _ in spans]

    def _span_of(self, at: int) -> tuple[int, int] | None:
        index = bisect_right(self._starts, at) - 1
        return self._spans[index] if index >= 0 and at < self._spans[index][1] else None

    def next(self, after: int, /) -> int | None:
        at = self._source.next(after)
        while at is not None and (span := self._span_of(at)) is not None:
            at = self._source.next(span[1] - 1)
        return at

    def prev(self, before: int, /) -> int | None:
        at = self._source.prev(before)
        while at is not None and (span := self._span_of(at)) is not None:
            at = self._source.prev(span[0])
        return at

    def count(self, start: int, end: int, /) -> int:
        inside = ((max(start, first), min(end, last)) for first, last in self._spans)
        return self._source.count(start, end) - sum(self._source.count(a, b) for a, b in inside if a < b)

    def dst_changes(self, start: int, end: int, /) -> Iterator[DstChange]:
        return (change for change in self._source.dst_changes(start, end) if self._span_of(change.at_ms) is None)

    def effect(self, at: int, /) -> FireEffect | None:
        return self._source.effect(at)

    @property
    def fixed(self) -> bool:
        return self._source.fixed


class Bounded:
    """A source from `first` to `last`, both included."""

    def __init__(self, source: Source, first: int, last: int | None) -> None:
        self._source = source
        self._first = first
        self._last = MAX_MS if last is None else last

    def next(self, after: int, /) -> int | None:
        at = self._source.next(max(after, self._first - 1))
        return at if at is not None and at <= self._last else None

    def prev(self, before: int, /) -> int | None:
        at = self._source.prev(min(before, self._last + 1))
        return at if at is not None and at >= self._first else None

    def count(self, start: int, end: int, /) -> int:
        return self._source.count(max(start, self._first), min(end, self._last + 1))

    def dst_changes(self, start: int, end: int, /) -> Iterator[DstChange]:
        return self._source.dst_changes(max(start, self._first), min(end, self._last + 1))

    def effect(self, at: int, /) -> FireEffect | None:
        return self._source.effect(at)

    @property
    def fixed(self) -> bool:
        return self._source.fixed
