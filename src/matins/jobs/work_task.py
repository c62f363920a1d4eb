"""`work_task`: an agent implements a change on a branch, and opens a pull request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from matins.jobs import JobType, Setting, Text


@dataclass(frozen=True)
class WorkTask:
    description: Annotated[
        str, Setting(Text(20_000, lines=True), "The change to make.", "Add a dark theme", required=True)
    ]


def prompt(inputs: WorkTask) -> str:
    return (
        "Do this task in the git repository of this folder:\n\n"
        f"{inputs.description}\n\n"
        "1. Make a branch for it with `git worktree add`, in a folder beside the repository, from the default branch. "
        "Work only there.\n"
        "2. Implement the task, with tests. Run all tests of the project.\n"
        "3. Commit, push the branch and open a pull request (`gh pr create --fill`). Then remove the worktree.\n"
        "Do not merge. Report the branch and the address of the pull request; if you could not finish, say why."
    )


JOB = JobType(
    "work_task", "Implement a change on a branch, and open a pull request.", WorkTask, prompt=prompt,
    services=("work_tasks",),
)  # fmt: skip
