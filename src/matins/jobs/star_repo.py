"""`star_repo`: the owner of the token stars repositories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from matins.jobs import JobContext, JobType
from matins.jobs.github import REPOS, Server, github


@dataclass(frozen=True, kw_only=True)
class StarRepo(Server):
    repos: Annotated[tuple[str, ...], REPOS]


def run(context: JobContext) -> str:
    inputs: StarRepo = context.inputs
    with github(inputs) as api:
        for repo in inputs.repos:  # starring again changes nothing, so a retry may repeat it
            api.call("PUT", f"/user/starred/{repo}")
    return f"Starred {', '.join(inputs.repos)}"


JOB = JobType("star_repo", "Star GitHub repositories.", StarRepo, run, destructive=False, services=("github",))
