"""`star_repo`: the owner of the token stars repositories."""

from __future__ import annotations

from matins.jobs import JobContext, JobType
from matins.jobs.github import Repositories, github


def star_repository(context: JobContext) -> str:
    inputs: Repositories = context.inputs
    with github(inputs) as api:
        for repo in inputs.repos:  # starring again changes nothing, so a retry may repeat it
            api.call("PUT", f"/user/starred/{repo}")
    return f"Starred {', '.join(inputs.repos)}"


STAR_REPO = JobType(
    "star_repo", "Star GitHub repositories.", Repositories, star_repository, destructive=False, services=("github",)
)
