"""Each run to the executor of its kind: agents, or jobs."""

from __future__ import annotations

from matins.runtime.work import Ended, Executor, Work


class Executors:
    """Two as one."""

    def __init__(self, agents: Executor, jobs: Executor) -> None:
        self._agents = agents
        self._jobs = jobs
        self._parts = (agents, jobs)

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

    def room(self, *, talks: bool = False) -> int:
        return (self._agents if talks else self._jobs).room()

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
        return self._agents if work.known.talks else self._jobs

    def _sorted(self, works: list[Work]) -> list[tuple[Executor, list[Work]]]:
        told = [work for work in works if work.known.talks]
        others = works if not told else [work for work in works if not work.known.talks]
        return [(part, some) for part, some in ((self._agents, told), (self._jobs, others)) if some]
