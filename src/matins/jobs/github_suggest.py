"""`github_suggest`: an agent analyses repositories and suggests improvements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from matins.jobs import Flag, JobType, Setting
from matins.jobs.github import REPOS


@dataclass(frozen=True, kw_only=True)
class GithubSuggest:
    repos: Annotated[tuple[str, ...], REPOS]
    auto_create_pr: Annotated[bool, Setting(Flag(), "Whether to open pull requests.", True, name="autoCreatePr")] = (
        False
    )


def prompt(inputs: GithubSuggest) -> str:
    end = (
        "Make the best improvement of each on a branch, and open a pull request for it."
        if inputs.auto_create_pr
        else "Do not change anything and do not open pull requests."
    )
    return (
        f"Analyse these GitHub repositories: {', '.join(inputs.repos)}.\n"
        "For each, read its code, its open issues and its documentation, and suggest up to five improvements: what, "
        "where and why, the most useful first.\n" + end
    )


JOB = JobType("github_suggest", "Analyse repositories and suggest improvements.", GithubSuggest, prompt=prompt)
