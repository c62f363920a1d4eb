"""`github_suggest`: an agent analyses repositories, in clones that are made for it, and suggests improvements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from matins.errors import InvalidInput
from matins.jobs import Flag, JobType, Setting
from matins.jobs.git_work import CLONES, Branch
from matins.jobs.github import Repositories, github
from matins.model.job import Brief, ErrandPlace
from matins.work.github_api import GitHub

TITLE = "Suggested improvement"
_MAX_ISSUES = 50
_MAX_BODY_OF_ISSUE = 60_000


@dataclass(frozen=True, kw_only=True)
class GithubSuggest(Repositories):
    auto_create_pr: Annotated[bool, Setting(Flag(), "Whether to open pull requests.", True, name="autoCreatePr")] = (
        False
    )


def suggestion_prompt(inputs: GithubSuggest) -> str:
    end = (
        "Make the best improvement of each in its folder. Do not push: when you have ended, your changes are committed "
        "and pushed, and a pull request with your answer as its description is opened."
        if inputs.auto_create_pr
        else "Do not change anything and do not open pull requests."
    )
    return (
        f"Analyse these GitHub repositories: {', '.join(inputs.repos)}.\n"
        "This folder holds a clone of each, as OWNER/NAME; their open issues are below. Read code and documentation, "
        "and suggest up to five improvements for each: what, where and why, the most useful first.\n" + end
    )


class SuggestErrand:
    def __init__(self, inputs: GithubSuggest, place: ErrandPlace) -> None:
        self._inputs = inputs
        self._place = place
        self._branch = Branch.of(place)
        self.folder = self._branch.folder

    def begin(self) -> Brief:
        with github(self._inputs) as api:
            known = {repo: api.call("GET", f"/repos/{repo}") for repo in self._inputs.repos}
            material = "\n\n".join(_issues(api, repo, about) for repo, about in known.items())
        pairs = [word for repo, about in known.items() for word in (repo, about["clone_url"])]
        push = "yes" if self._inputs.auto_create_pr else "no"
        command = self._branch.command(CLONES, self._place.agent, push, TITLE, str(len(known)), *pairs)
        return Brief(material, command)

    def finish(self, answer: str) -> dict[str, Any]:
        pushed = self._branch.outcome()
        if pushed is None:
            raise InvalidInput(f"The branches {self._branch.name} were not pushed.", hint="See the log of the run.")
        with github(self._inputs) as api:
            repos = [repo for repo in self._inputs.repos if repo in pushed and self._inputs.auto_create_pr]
            return {"pull_requests": [self._open(api, repo, answer) for repo in repos]}

    def _open(self, api: GitHub, repo: str, answer: str) -> str:
        base = api.call("GET", f"/repos/{repo}")["default_branch"]
        return api.open_pull_request(repo, self._branch.name, base, TITLE, answer.strip()[:_MAX_BODY_OF_ISSUE])


def _issues(api: GitHub, repo: str, about: dict[str, Any]) -> str:
    asked = {"state": "open", "sort": "updated", "direction": "desc", "per_page": str(_MAX_ISSUES), "page": "1"}
    issues = api.call("GET", f"/repos/{repo}/issues", params=asked)
    lines = [f"#{issue['number']} {issue['title']}" for issue in issues if "pull_request" not in issue]
    return "\n".join([f"## {repo}: {about.get('description') or 'no description'}", *(lines or ["No open issues."])])


GITHUB_SUGGEST = JobType(
    "github_suggest", "Analyse repositories and suggest improvements.", GithubSuggest, prompt=suggestion_prompt,
    errand=SuggestErrand, services=("github",),
)  # fmt: skip
