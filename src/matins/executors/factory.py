"""Makes the executors, and sends each attempt to its own.

Routes each run to the executor of its kind: agents or jobs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from matins.engine.policies import Policies
from matins.executors.check_executor import CheckExecutor, Guard, OnBlocked
from matins.executors.commands import AgentCommands, Commands
from matins.executors.isolation import Isolation, Places
from matins.executors.processes.supervisor import SharedSupervisor
from matins.executors.python import PythonExecutor
from matins.executors.registry import JobRegistry, runners
from matins.model.clock import Clock
from matins.plugins import registered
from matins.runtime.attempt import Attempt, AttemptEnd, Executor, Mark
from matins.runtime.catalog import CompiledSchedule
from matins.runtime.run_context import ContextLoader
from matins.store import Store

if TYPE_CHECKING:
    from matins.executors.agents import AgentExecutor


OUTSIDE_KINDS = "matins.outside"


class ExecutorRouter:
    """Several executors as one: agents, jobs, and, where there are connections, engines elsewhere."""

    def __init__(
        self,
        agents: Executor,
        jobs: Executor,
        replaced: Callable[[str], bool] = lambda name: False,
        make_outside: Callable[[], Executor] | None = None,
    ) -> None:
        self._agents = agents
        self._jobs = jobs
        self._replaced = replaced
        """Whether this program has a function for a job that wakes agents elsewhere."""
        self._parts = (agents, jobs)
        self._make_outside = make_outside
        self._outside: Executor | None = None

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

    def use(self, policies: Policies) -> None:
        if self._outside is None and self._make_outside is not None:
            if policies.records.keys().isdisjoint(registered(OUTSIDE_KINDS)):
                return
            self._outside = self._make_outside()
            self._parts += (self._outside,)
        if self._outside is not None:
            self._outside.use(policies)

    def follows(self, item: CompiledSchedule) -> bool:
        return self._outside is not None and self._outside.follows(item)

    def drain(self) -> list[AttemptEnd]:
        return [ended for part in self._parts for ended in part.drain()]

    def capacity(self, *, for_agents: bool = False) -> int:
        return (self._agents if for_agents else self._jobs).capacity()

    def offers(self) -> frozenset[str]:
        own = self._agents.offers() | self._jobs.offers()
        return own if self._outside is None else own | self._outside.offers()

    def running(self) -> int:
        outside = 0 if self._outside is None else self._outside.running()
        return self._agents.running() + self._jobs.running() + outside

    def marks(self) -> set[Mark]:
        return {mark for part in self._parts for mark in part.marks()}

    def busy(self) -> bool:
        return self._agents.busy() or self._jobs.busy()

    def withdraw(self, *, everything: bool = False) -> list[Attempt]:
        return [attempt for part in self._parts for attempt in part.withdraw(everything=everything)]

    def overdue(self) -> list[Attempt]:
        return [attempt for part in self._parts for attempt in part.overdue()]

    def cancel(self, run_ids: set[int]) -> None:
        for part in self._parts:
            part.cancel(run_ids)

    def renew(self, marks: set[Mark], since: int) -> None:
        for part in self._parts:
            part.renew(marks, since)

    def interrupt(self) -> int:
        return sum(part.interrupt() for part in self._parts)

    def _is_for_agent(self, attempt: Attempt) -> bool:
        return attempt.compiled.wakes_agent and not self._replaced(attempt.compiled.shared.definition.job)

    def _part(self, attempt: Attempt) -> Executor:
        if self._outside is not None and self._outside.follows(attempt.compiled):
            return self._outside
        return self._agents if self._is_for_agent(attempt) else self._jobs

    def _sorted(self, attempts: list[Attempt]) -> list[tuple[Executor, list[Attempt]]]:
        if self._outside is not None:
            return [(self._part(attempt), [attempt]) for attempt in attempts]
        for_agents = [attempt for attempt in attempts if self._is_for_agent(attempt)]
        for_jobs = attempts if not for_agents else [one for one in attempts if not self._is_for_agent(one)]
        return [(part, some) for part, some in ((self._agents, for_agents), (self._jobs, for_jobs)) if some]


C = TypeVar("C", bound=CheckExecutor)
P = TypeVar("P", bound=PythonExecutor)


@dataclass(frozen=True)
class ExecutorFactory:
    store: Store
    api: Any
    """What jobs call: `Matins` itself."""
    jobs: JobRegistry
    clock: Clock
    loader: ContextLoader
    supervisor: SharedSupervisor
    places: Callable[[], Places]
    workdir: str | None
    guard: Guard | None
    on_blocked: OnBlocked | None

    def python(
        self,
        kind: type[P],
        wake: Callable[[], None],
        threads: int,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> P:
        return kind(
            self.jobs,
            self.clock,
            wake,
            self.loader,
            threads=threads,
            api=self.api,
            workdir=self.workdir,
            loop=loop,
        )

    def router(
        self, wake: Callable[[], None], threads: int, url: str | None, loop: asyncio.AbstractEventLoop | None
    ) -> ExecutorRouter:
        """The executor of all runs. `url`: the API for agents; `loop`: the program's own, for async jobs."""
        jobs = self.python(PythonExecutor, wake, threads, loop)
        return ExecutorRouter(self._agents(wake, url), jobs, self.jobs.replaces, lambda: self._outside(wake))

    def _outside(self, wake: Callable[[], None]) -> Executor:
        from matins.executors.orders import OrderWriter
        from matins.executors.outside import OutsideExecutor  # only engines with connections have one

        writer = OrderWriter(self.store, self.loader, self.clock, self.jobs, self.workdir or str(Path.cwd()))
        return OutsideExecutor(writer, self.clock, wake)

    def _agents(self, wake: Callable[[], None], url: str | None) -> AgentExecutor:
        from matins.executors.agents import AgentExecutor  # only engines have one

        return AgentExecutor(
            runners(),
            self.supervisor,
            self.clock,
            wake,
            self.loader,
            workdir=self.workdir or str(Path.cwd()),
            places=self.places,
            url=url,
            jobs=self.jobs,
        )

    def commands(self) -> AgentCommands:
        """For pre-checks and hooks."""
        isolation = Isolation(self.places, lambda: self.supervisor().probe())
        return AgentCommands(Commands(self.supervisor), isolation, self.workdir)

    def checks(self, kind: type[C], wake: Callable[[], None]) -> C:
        return kind(
            self.clock,
            wake,
            self.commands(),
            guard=self.guard,
            on_blocked=self.on_blocked,
            workdir=self.workdir,
            jobs=self.jobs,
        )
