"""`codebase_review`: an agent checks the code, and writes what it finds as tasks.

The job is its prompt: the agent runs the project's own checks in its folder, and its answer is the result of the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from matins.jobs import JobType, Setting, Text
from matins.jobs.focus import focused


@dataclass(frozen=True)
class CodebaseReview:
    description: Annotated[
        str | None, Setting(Text(10_000, lines=True), "What to look at in particular.", "The parser")
    ] = None


def review_prompt(inputs: CodebaseReview) -> str:
    return focused(
        "Review the code in this folder.\n"
        "1. Run its type checker and its tests, with the commands that the project itself uses.\n"
        "2. Find TODO and FIXME comments that have become due.\n"
        "3. For each problem that is worth a change, add a task to TASKS.yaml in this folder: a title, a body that "
        "says where and why, and a priority (high, medium or low). Do not add a task that is there already.\n"
        "Change nothing else. Report the problems, the worst first.",
        inputs.description,
    )


CODEBASE_REVIEW = JobType(
    "codebase_review", "Check types and tests, find TODOs, and write tasks.", CodebaseReview, prompt=review_prompt
)
