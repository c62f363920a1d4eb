"""`work_task`: an agent implements a change in a worktree of its own, on a branch that becomes a pull request."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from matins.errors import InvalidInput
from matins.executors.registry import SERVICES, NoService
from matins.jobs import JobType, Setting, Text
from matins.jobs.git_work import NOTHING, WORKTREE, Branch
from matins.jobs.github import ServerSettings, check_repo, github
from matins.model.job import Brief, ErrandPlace
from matins.texts.beneath import Refused
from matins.texts.untrusted_folder import open_folder

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
