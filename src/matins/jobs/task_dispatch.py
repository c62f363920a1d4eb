"""`task-dispatch`: a task of TASKS.yaml is selected, claimed and given to the agent; its outcome is written back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from matins.engine.prompts import DEFAULT_PROMPT
from matins.jobs import JobType, Setting, Text
from matins.model.policies import WorkSourceDefinition


@dataclass(frozen=True)
class TaskDispatch:
    path: Annotated[str, Setting(Text(4_096), "Path of the tasks.", "TASKS.yaml")] = "TASKS.yaml"


def work_source(inputs: TaskDispatch) -> WorkSourceDefinition:
    return WorkSourceDefinition("task-dispatch", "tasks", path=inputs.path)


TASK_DISPATCH = JobType(
    "task-dispatch",
    "Claim a task of TASKS.yaml and give it to the agent.",
    TaskDispatch,
    prompt=lambda inputs: DEFAULT_PROMPT,
    work_source=work_source,
    destructive=False,
)
