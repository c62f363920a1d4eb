"""Missions whose tasks are done by a function: what each agent was asked, and which of them fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from matins import JobContext
from matins.seeds.polpo import ScheduleEntry, Task, create_mission, create_schedule, subscribe
from matins.testing import Sandbox, iso

TASKS: list[Task] = [
    {"title": "Build release artifacts", "assignTo": "build-agent"},
    {"title": "Deploy to production", "assignTo": "devops-agent", "dependsOn": ["Build release artifacts"]},
]


class Polpo(Sandbox):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.asked: list[tuple[str, str | None]] = []
        """The agents and what they were asked, as it happened."""
        self.failing: set[str] = set()
        """The agents whose tasks fail."""
        self.meanwhile: Callable[[], object] = lambda: None
        """Called in each task."""
        self.told: list[tuple[str, dict[str, Any]]] = []
        subscribe(self, lambda name, payload: self.told.append((name, payload)))
        self.job("scheduled-task")(self._task)
        for agent in ("test-agent", "report-agent", "build-agent", "devops-agent"):
            self.agents.set(agent, runner="demo")

    def _task(self, run: JobContext) -> None:
        self.asked.append((run.agent, self.runs.snapshot(run.id).prompt))
        self.meanwhile()
        if run.agent in self.failing:
            raise RuntimeError(f"{run.agent} failed")

    def mission(self, name: str, expression: str, tasks: Sequence[Task] = TASKS, **options: Any) -> ScheduleEntry:
        """A mission with a schedule."""
        create_mission(self, name, tasks)
        return create_schedule(self, name, expression, **options)

    def hear(self) -> list[tuple[str, dict[str, Any]]]:
        """What was told since the last look."""
        self.outbox.run_once(self.clock.now_ms())
        told, self.told = self.told, []
        return told

    def tasks_of(self, name: str) -> dict[str, str]:
        """The status of each task in the newest run."""
        last = self.missions.get(name).last_run
        assert last is not None
        return {step.title: step.status for step in last.steps}

    def days_of(self, name: str) -> list[str]:
        return [str(iso(run.slot))[:10] for run in self.assert_ran(name)]
