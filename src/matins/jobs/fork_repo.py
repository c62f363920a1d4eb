"""`fork_repo`: repositories are forked into the account of the token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from matins.jobs import JobContext, JobType
from matins.jobs.github import REPOS, Server, github


@dataclass(frozen=True, kw_only=True)
class ForkRepo(Server):
    repos: Annotated[tuple[str, ...], REPOS]


def run(context: JobContext) -> list[str]:
    inputs: ForkRepo = context.inputs
    with github(inputs) as api:  # GitHub answers with the fork that exists, so a retry may repeat it
        return [api.call("POST", f"/repos/{repo}/forks", {})["full_name"] for repo in inputs.repos]


JOB = JobType("fork_repo", "Fork GitHub repositories.", ForkRepo, run, services=("github",))
