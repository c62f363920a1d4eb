"""Routes each run to the executor of its kind: agents or jobs."""

from __future__ import annotations

from collections.abc import Callable

from matins.runtime.attempt import Attempt, AttemptEnd, Executor, Mark


class ExecutorRouter:
    """Two executors as one."""

    def __init__(self, agents: Executor, jobs: Executor, replaced: Callable[[str], bool] = lambda name: False) -> None:
        self._agents = agents
        self._jobs = jobs
        self._replaced = replaced
        """Whether this program has a function for a job that wakes agents elsewhere."""
        self._parts = (agents, jobs)

    def start(self) -> None:
        for part in self._parts:
            part.start()

    def stop(self) -> None:
        for part in self._parts:
            part.stop()

    def submit(self, batch: list[Attempt]) -> None:
        for part, attempts in self._sorted(batch):
            part.submit(attempts)

    def adopt(self, attempts: list[Attempt]) -> None:
        for part, some in self._sorted(attempts):
            part.adopt(some)

    def adoptable(self, attempt: Attempt) -> bool:
        return self._part(attempt).adoptable(attempt)

    def drain(self) -> list[AttemptEnd]:
        return [ended for part in self._parts for ended in part.drain()]

    def capacity(self, *, for_agents: bool = False) -> int:
        return (self._agents if for_agents else self._jobs).capacity()

    def offers(self) -> frozenset[str]:
        return self._agents.offers() | self._jobs.offers()

    def running(self) -> int:
        return sum(part.running() for part in self._parts)

    def marks(self) -> set[Mark]:
        return {mark for part in self._parts for mark in part.marks()}

    def busy(self) -> bool:
        return any(part.busy() for part in self._parts)

    def withdraw(self, *, everything: bool = False) -> list[Attempt]:
        return [attempt for part in self._parts for attempt in part.withdraw(everything=everything)]

    def overdue(self) -> list[Attempt]:
        return [attempt for part in self._parts for attempt in part.overdue()]

    def cancel(self, run_ids: set[int]) -> None:
        for part in self._parts:
            part.cancel(run_ids)

    def interrupt(self) -> int:
        return sum(part.interrupt() for part in self._parts)

    def _is_for_agent(self, attempt: Attempt) -> bool:
        return attempt.compiled.wakes_agent and not self._replaced(attempt.compiled.definition.job)

    def _part(self, attempt: Attempt) -> Executor:
        return self._agents if self._is_for_agent(attempt) else self._jobs

    def _sorted(self, attempts: list[Attempt]) -> list[tuple[Executor, list[Attempt]]]:
        for_agents = [attempt for attempt in attempts if self._is_for_agent(attempt)]
        for_jobs = attempts if not for_agents else [one for one in attempts if not self._is_for_agent(one)]
        return [(part, some) for part, some in ((self._agents, for_agents), (self._jobs, for_jobs)) if some]
