"""Makes the executors, and sends each attempt to its own.

Routes each run to the executor of its kind: agents or jobs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from matins.engine.policies import Policies
from matins.executors.agent_checks import MAX_AGENTS, RunnersHere
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
    import asyncio

    from matins.executors.agents import AgentExecutor


OUTSIDE_KINDS = "matins.outside"


class ExecutorRouter:
    """The executor of jobs; that of agents, which is made with the first run for one; and that of runs in engines
    elsewhere, where there are connections."""

    def __init__(
        self,
        make_agents: Callable[[], Executor],
        runners: RunnersHere,
        jobs: Executor,
        replaced: Callable[[str], bool] = lambda name: False,
        make_outside: Callable[[], Executor] | None = None,
    ) -> None:
        self._make_agents = make_agents
        self._runners = runners
        self._agents: Executor | None = None
        self._jobs = jobs
        self._replaced = replaced
        """Whether this program has a function for a job that wakes agents elsewhere."""
        self._parts: tuple[Executor, ...] = (jobs,)
        self._make_outside = make_outside
        self._outside: Executor | None = None
        self._making = threading.Lock()

    def start(self) -> None:
        self._jobs.start()

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
        if not for_agents:
            return self._jobs.capacity()
        return MAX_AGENTS if self._agents is None else self._agents.capacity()

    def offers(self) -> frozenset[str]:
        own = (self._agents or self._runners).offers() | self._jobs.offers()
        return own if self._outside is None else own | self._outside.offers()

    def running(self) -> int:
        return sum([part.running() for part in self._parts])

    def marks(self) -> set[Mark]:
        return {mark for part in self._parts for mark in part.marks()}

    def busy(self) -> bool:
        return self._jobs.busy() or (self._agents is not None and self._agents.busy())

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
        return sum([part.interrupt() for part in self._parts])

    def accept(self) -> None:
        for part in self._parts:
            part.accept()

    def _is_for_agent(self, attempt: Attempt) -> bool:
        return attempt.compiled.wakes_agent and not self._replaced(attempt.compiled.shared.definition.job)

    def _part(self, attempt: Attempt) -> Executor:
        if self._outside is not None and self._outside.follows(attempt.compiled):
            return self._outside
        return self._for_agents() if self._is_for_agent(attempt) else self._jobs

    def _for_agents(self) -> Executor:
        with self._making:
            if self._agents is None:
                self._agents = self._make_agents()
                self._agents.start()
                self._parts = (self._agents, *self._parts)
            return self._agents

    def _sorted(self, attempts: list[Attempt]) -> list[tuple[Executor, list[Attempt]]]:
        if self._outside is not None:
            return [(self._part(attempt), [attempt]) for attempt in attempts]
        for_agents = [attempt for attempt in attempts if self._is_for_agent(attempt)]
        if not for_agents:
            return [(self._jobs, attempts)] if attempts else []
        for_jobs = [one for one in attempts if not self._is_for_agent(one)]
        return [(part, some) for part, some in ((self._for_agents(), for_agents), (self._jobs, for_jobs)) if some]


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
        here = RunnersHere(runners(), self.clock)
        return ExecutorRouter(
            lambda: self._agents(wake, url, here), here, jobs, self.jobs.replaces, lambda: self._outside(wake)
        )

    def _outside(self, wake: Callable[[], None]) -> Executor:
        from matins.executors.orders import OrderWriter
        from matins.executors.outside import OutsideExecutor  # only engines with connections have one

        writer = OrderWriter(self.store, self.loader, self.clock, self.jobs, self.workdir or str(Path.cwd()))
        return OutsideExecutor(writer, self.clock, wake)

    def _agents(self, wake: Callable[[], None], url: str | None, here: RunnersHere) -> AgentExecutor:
        from matins.executors.agents import AgentExecutor  # only engines that start agents have one

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
            here=here,
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
