"""The job types of GitHub.

`github_suggest`: an agent analyses repositories, in clones that are made for it, and suggests improvements.

`review_prs`: an agent reads open pull requests, and Matins posts what it writes as reviews.

`work_task`: an agent implements a change in a worktree of its own, on a branch that becomes a pull request.

`fork_repo`: repositories are forked into the account of the token.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from matins.errors import InvalidInput, NotFound
from matins.executors.registry import SERVICES, NoService
from matins.executors.worktrees import Branch
from matins.github import GitHub, Repositories, ServerSettings, check_repo, github
from matins.github.git_work import CLONES, NOTHING, WORKTREE
from matins.jobs import Flag, Int, JobContext, JobType, Setting, Text
from matins.model.job import Brief, ErrandPlace
from matins.texts.beneath import Refused
from matins.texts.untrusted_folder import open_folder

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


_DIFF = "application/vnd.github.diff"
_MAX_BODY_OF_PULL = 4_000
_MAX_DIFF = 60_000
_MAX_REVIEW = 60_000
_HEADING = re.compile(r"^## +(\S+)#(\d+)@([0-9a-f]{7,64})[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class ReviewPrs(Repositories):
    max_prs: Annotated[int, Setting(Int(1, 100), "Maximum number of pull requests.", 5, name="maxPrs")] = 5


def review_prompt(inputs: ReviewPrs) -> str:
    return (
        f"Review open pull requests of these GitHub repositories: {', '.join(inputs.repos)}.\n"
        "They are below, each with a heading `## OWNER/NAME#NUMBER@COMMIT`, its description and its changes.\n"
        "Read each change as a whole. Answer with one section for each, under the same heading: errors first, with "
        "file and line; then what could be better. Each section is posted as a comment of a review. "
        "Do not post, approve, close or merge anything yourself."
    )


class Review(NamedTuple):
    repo: str
    number: int
    commit: str
    text: str


class ReviewErrand:
    """A pull request is left out while its newest commit has a review of this account by Matins."""

    folder = None

    def __init__(self, inputs: ReviewPrs, place: ErrandPlace) -> None:
        self._inputs = inputs
        self._mark = f"<!-- matins review {place.key} -->"

    def begin(self) -> Brief | None:
        with github(self._inputs) as api:
            chosen = self._open(api)
            return Brief("\n\n".join(_material(api, repo, pull) for repo, pull in chosen)) if chosen else None

    def finish(self, answer: str) -> dict[str, Any]:
        """Post the sections of the answer. What was posted before a crash is not posted again."""
        with github(self._inputs) as api:
            posted = [f"{review.repo}#{review.number}" for review in self._sections(answer) if self._post(api, review)]
        return {"reviewed": posted}

    def _open(self, api: GitHub) -> list[tuple[str, dict[str, Any]]]:
        me = api.call("GET", "/user")["login"]
        found: list[tuple[str, dict[str, Any]]] = []
        for repo in self._inputs.repos:
            asked = {"state": "open", "sort": "created", "direction": "asc"}
            for pull in api.pages(f"/repos/{repo}/pulls", asked):
                if len(found) == self._inputs.max_prs:
                    return found
                if not pull.get("draft") and not _is_reviewed(api, repo, pull, me):
                    found.append((repo, pull))
        return found

    def _sections(self, answer: str) -> list[Review]:
        """The sections about repositories of this job, the first for each pull request."""
        headings = list(_HEADING.finditer(answer))
        ends = [*(heading.start() for heading in headings[1:]), len(answer)]
        found: dict[tuple[str, int], Review] = {}
        for heading, end in zip(headings, ends, strict=False):
            repo, number, text = heading[1], int(heading[2]), answer[heading.end() : end].strip()
            if repo in self._inputs.repos and text:
                found.setdefault((repo, number), Review(repo, number, heading[3], text))
        return list(found.values())[: self._inputs.max_prs]

    def _post(self, api: GitHub, review: Review) -> bool:
        path = f"/repos/{review.repo}/pulls/{review.number}"
        pull = api.find(path)
        if pull is None or pull["state"] != "open":
            return False
        if not any(str(known["body"]).startswith(self._mark) for known in api.pages(f"{path}/reviews")):
            body = f"{self._mark}\n{review.text}"[:_MAX_REVIEW]
            api.call("POST", f"{path}/reviews", {"event": "COMMENT", "body": body, "commit_id": review.commit})
        return True


def _is_reviewed(api: GitHub, repo: str, pull: dict[str, Any], me: str) -> bool:
    return any(
        review["commit_id"] == pull["head"]["sha"]
        and review["user"]["login"] == me
        and str(review["body"]).startswith("<!-- matins review ")
        for review in api.pages(f"/repos/{repo}/pulls/{pull['number']}/reviews")
    )


def _material(api: GitHub, repo: str, pull: dict[str, Any]) -> str:
    try:
        diff = api.call("GET", f"/repos/{repo}/pulls/{pull['number']}", accept=_DIFF)
    except NotFound:
        raise
    except InvalidInput:  # very large changes are not shown
        diff = "(GitHub does not show its changes: they are too large.)"
    return (
        f"## {repo}#{pull['number']}@{pull['head']['sha']}\n{pull['title']}\n\n"
        f"{_shortened(pull.get('body') or '', _MAX_BODY_OF_PULL)}\n\n{_shortened(diff, _MAX_DIFF)}"
    )


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}\n[… {len(text) - length:,} characters are left out …]"


REVIEW_PRS = JobType(
    "review_prs", "Review open pull requests and post comments.", ReviewPrs, prompt=review_prompt, errand=ReviewErrand,
    destructive=False, services=("github",),
)  # fmt: skip


UNAVAILABLE = SERVICES["work_tasks"]
_MAX_TITLE = 72
_MAX_BODY = 60_000
_MAX_CONFIG_BYTES = 64_000
_REPO = re.compile(r"([A-Za-z0-9-]+/[A-Za-z0-9._-]+?)(?:\.git)?/?")


@dataclass(frozen=True, kw_only=True)
class WorkTask(ServerSettings):
    description: Annotated[
        str, Setting(Text(20_000, lines=True), "The change to make.", "Add a dark theme", required=True)
    ]
    repo: Annotated[
        str | None, Setting(Text(200), "Repository on GitHub; default: that of origin.", "octo-org/garden")
    ] = None
    base: Annotated[str | None, Setting(Text(200), "Branch to start from; default: the main one.", "main")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.repo is not None:
            check_repo(self.repo, "repo")


def work_prompt(inputs: WorkTask) -> str:
    return (
        "Do this task in the git repository of this folder:\n\n"
        f"{inputs.description}\n\n"
        "The folder is a worktree on a branch of its own. Implement the task there, with tests, and run all tests of "
        "the project. Do not push, merge or change branches: when you have ended, your changes are committed and "
        "pushed, and a pull request with your answer as its description is opened.\n"
        "Answer with a description of the change; if you could not finish, say why."
    )


class WorkTaskErrand:
    def __init__(self, inputs: WorkTask, place: ErrandPlace) -> None:
        self._inputs = inputs
        self._place = place
        self._branch = Branch.of(place)
        self.folder = self._branch.folder

    def begin(self) -> Brief:
        repo = self._repo()
        with github(self._inputs) as api:
            base = self._base(api, repo)
        command = self._branch.command(WORKTREE, self._place.agent, base, self._title())
        return Brief(command=command)

    def finish(self, answer: str) -> dict[str, Any]:
        repo, pushed = self._repo(), self._branch.outcome()
        if pushed is None:
            raise InvalidInput(f"The branch {self._branch.name} was not pushed.", hint="See the log of the run.")
        done: dict[str, Any] = {"work_task_id": self._place.key, "repo": repo, "branch": self._branch.name}
        if pushed == [NOTHING]:
            return {**done, "branch": None, "pull_request": None}
        with github(self._inputs) as api:
            body = (answer.strip() or self._inputs.description)[:_MAX_BODY]
            base = self._base(api, repo)
            return {**done, "pull_request": api.open_pull_request(repo, self._branch.name, base, self._title(), body)}

    def _base(self, api: Any, repo: str) -> str:
        return self._inputs.base or api.call("GET", f"/repos/{repo}")["default_branch"]

    def _title(self) -> str:
        first = self._inputs.description.strip().splitlines()[0]
        return first if len(first) <= _MAX_TITLE else f"{first[: _MAX_TITLE - 1].rstrip()}…"

    def _repo(self) -> str:
        return self._inputs.repo or repo_of(self._place.folder)


def repo_of(folder: str) -> str:
    """The repository on GitHub of a folder, by the address of its origin. The file is read, and nothing of it runs."""
    try:
        with open_folder(folder) as place:
            config = place.read_whole(".git/config", _MAX_CONFIG_BYTES)
    except Refused as error:
        message = f"{UNAVAILABLE}: .git/config of {folder} cannot be used: {error.reason}."
        raise NoService(message, value=folder, field="workdir", hint="Set the input repo.") from None
    except OSError:
        raise NoService(
            f"{UNAVAILABLE}: {folder} is no git repository.", value=folder, field="workdir", hint="Set the workdir."
        ) from None
    url = _origin(config.decode(errors="replace"))
    named = _REPO.fullmatch("/".join(re.split("[/:]", url.removesuffix("/"))[-2:]))
    if named is None:
        raise NoService(f"{UNAVAILABLE}: {folder} has no origin on GitHub.", field="repo", hint="Set the input repo.")
    return named[1]


def _origin(config: str) -> str:
    """The address of the origin in git's settings of a folder; empty when there is none."""
    section = ""
    for line in map(str.strip, config.splitlines()):
        name, _, value = line.partition("=")
        if line.startswith("["):
            section = line.partition("]")[0]
        elif section == '[remote "origin"' and name.strip().lower() == "url":
            return value.strip().strip('"')
    return ""


WORK_TASK = JobType(
    "work_task", "Implement a change on a branch, and open a pull request.", WorkTask, prompt=work_prompt,
    errand=WorkTaskErrand, services=("work_tasks",),
)  # fmt: skip


def fork_repository(context: JobContext) -> list[str]:
    inputs: Repositories = context.inputs
    with github(inputs) as api:  # GitHub answers with the fork that exists, so a retry may repeat it
        return [api.call("POST", f"/repos/{repo}/forks", {})["full_name"] for repo in inputs.repos]


FORK_REPO = JobType("fork_repo", "Fork GitHub repositories.", Repositories, fork_repository, services=("github",))


def star_repository(context: JobContext) -> str:
    inputs: Repositories = context.inputs
    with github(inputs) as api:
        for repo in inputs.repos:  # starring again changes nothing, so a retry may repeat it
            api.call("PUT", f"/user/starred/{repo}")
    return f"Starred {', '.join(inputs.repos)}"


STAR_REPO = JobType(
    "star_repo", "Star GitHub repositories.", Repositories, star_repository, destructive=False, services=("github",)
)
