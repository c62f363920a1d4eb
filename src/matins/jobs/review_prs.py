"""`review_prs`: an agent reads open pull requests, and Matins posts what it writes as reviews."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from matins.errors import InvalidInput, NotFound
from matins.jobs import Int, JobType, Setting
from matins.jobs.github import Repositories, github
from matins.model.job import Brief, ErrandPlace
from matins.work.github_api import GitHub

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
