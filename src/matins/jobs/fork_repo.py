"""`fork_repo`: repositories are forked into the account of the token."""

from __future__ import annotations

from matins.jobs import JobContext, JobType
from matins.jobs.github import Repositories, github


def fork_repository(context: JobContext) -> list[str]:
    inputs: Repositories = context.inputs
    with github(inputs) as api:  # GitHub answers with the fork that exists, so a retry may repeat it
        return [api.call("POST", f"/repos/{repo}/forks", {})["full_name"] for repo in inputs.repos]


FORK_REPO = JobType("fork_repo", "Fork GitHub repositories.", Repositories, fork_repository, services=("github",))
