"""Each run to the executor that takes its kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matins.runtime.work import Ended, Executor, Work

Route = tuple[Callable[[Work], bool], Executor]


class Executors:
    """Several executors as one; the first whose rule holds takes a run, and the last takes what is left."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes
        self._parts = [part for _, part in routes]

    def start(self) -> None:
        for part in self._parts:
            part.start()

    def stop(self) -> None:
        for part in self._parts:
            part.stop()

    def submit(self, batch: list[Work]) -> None:
        for part, works in self._sorted(batch):
            part.submit(works)

    def adopt(self, works: list[Work]) -> None:
        for part, some in self._sorted(works):
            part.adopt(some)

    def adoptable(self, work: Work) -> bool:
        return self._part(work).adoptable(work)

    def drain(self) -> list[Ended]:
        return [ended for part in self._parts for ended in part.drain()]

    def room(self) -> int:
        """Of the one that has most: what another has no place for it gives back."""
        return max(part.room() for part in self._parts)

    def running(self) -> int:
        return sum(part.running() for part in self._parts)

    def busy(self) -> bool:
        return any(part.busy() for part in self._parts)

    def withdraw(self, *, everything: bool = False) -> list[Work]:
        return [work for part in self._parts for work in part.withdraw(everything=everything)]

    def overdue(self) -> list[Work]:
        return [work for part in self._parts for work in part.overdue()]

    def cancel(self, run_ids: set[int]) -> None:
        for part in self._parts:
            part.cancel(run_ids)

    def interrupt(self) -> int:
        return sum(part.interrupt() for part in self._parts)

    def _part(self, work: Work) -> Executor:
        return next((part for takes, part in self._routes if takes(work)), self._parts[-1])

    def _sorted(self, works: list[Work]) -> list[tuple[Executor, list[Work]]]:
        sorted_out: dict[int, tuple[Executor, list[Work]]] = {}
        for work in works:
            part = self._part(work)
            sorted_out.setdefault(id(part), (part, []))[1].append(work)
        return list(sorted_out.values())
