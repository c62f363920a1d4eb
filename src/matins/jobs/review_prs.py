"""`review_prs`: an agent reviews open pull requests and posts its comments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from matins.jobs import Int, JobType, Setting
from matins.jobs.github import REPOS


@dataclass(frozen=True, kw_only=True)
class ReviewPrs:
    repos: Annotated[tuple[str, ...], REPOS]
    max_prs: Annotated[int, Setting(Int(1, 100), "Maximum number of pull requests.", 5, name="maxPrs")] = 5


def prompt(inputs: ReviewPrs) -> str:
    return (
        f"Review open pull requests of these GitHub repositories: {', '.join(inputs.repos)}.\n"
        f"Take at most {inputs.max_prs}, the oldest first, and leave out drafts and those that you reviewed at their "
        "present commit.\n"
        "Read each change as a whole, with the code around it. Post one review for each with `gh pr review --comment`: "
        "errors first, with file and line. Do not approve, close or merge anything.\n"
        "Report the pull requests that you reviewed, with what you found."
    )


JOB = JobType("review_prs", "Review open pull requests and post comments.", ReviewPrs, prompt=prompt, destructive=False)
