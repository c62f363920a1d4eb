"""Makes the executors of one engine, with what they share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from matins.executors.agent_commands import AgentCommands
from matins.executors.agents import AgentExecutor
from matins.executors.check_executor import CheckExecutor, Guard, OnBlocked
from matins.executors.commands import Commands
from matins.executors.isolation import Isolation, Places
from matins.executors.processes.shared import SharedSupervisor
from matins.executors.python import PythonExecutor
from matins.executors.registry import JobRegistry, runners
from matins.executors.routing import ExecutorRouter
from matins.model.clock import Clock
from matins.runtime.run_context import ContextLoader

C = TypeVar("C", bound=CheckExecutor)
P = TypeVar("P", bound=PythonExecutor)


@dataclass(frozen=True)
class ExecutorFactory:
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
        return ExecutorRouter(self._agents(wake, url), jobs, self.jobs.replaces)

    def _agents(self, wake: Callable[[], None], url: str | None) -> AgentExecutor:
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
