"""`improvement_loop`: an agent looks for improvements, and makes the best of them.

The job is its prompt: the agent works in its folder, with its own tools, and its answer is the result of the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from matins.jobs import Int, JobType, Setting, Text


@dataclass(frozen=True)
class ImprovementLoop:
    max_improvement_tasks: Annotated[
        int, Setting(Int(1, 20), "Maximum number of improvements.", 3, name="maxImprovementTasks")
    ] = 3
    focus_area: Annotated[str | None, Setting(Text(2_000), "Area to improve.", "test coverage", name="focusArea")] = (
        None
    )


def improvement_prompt(inputs: ImprovementLoop) -> str:
    where = f" in this area: {inputs.focus_area}" if inputs.focus_area else ""
    return (
        f"Improve the project in this folder{where}.\n"
        "1. Look at its tests, its open tasks in TASKS.yaml and its history, and list possible improvements.\n"
        f"2. Choose the best, at most {inputs.max_improvement_tasks}. Prefer small changes whose use is certain.\n"
        "3. Make each on a branch of its own, with a test that fails without it. Run all tests before you commit.\n"
        "Leave the main branch as it is. Report each improvement with its branch, and what you decided against."
    )


IMPROVEMENT_LOOP = JobType(
    "improvement_loop", "Find improvements and make the best of them.", ImprovementLoop, prompt=improvement_prompt,
    services=("improvement_loop",),
)  # fmt: skip
