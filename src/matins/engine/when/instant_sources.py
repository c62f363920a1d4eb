"""The sources of a trigger's instants. Each computes next, prev and count by arithmetic, not slot by slot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from matins.engine.when.instants import DstChange, FireEffect
from matins.engine.when.zones import MAX_MS, MIN_MS


class Source(Protocol):
    @property
    def fixed(self) -> bool:
        """Whether an instant stands for a wall time of its own, and does not follow the clock as it passes."""
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
