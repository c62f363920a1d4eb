"""The few calls of GitHub's REST API that claiming an issue takes, and what its refusals mean."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from matins.engine.when.triggers import EPOCH
from matins.errors import InvalidInput, MatinsError, NotFound, ProviderLimited
from matins.work.base import SourceDefinition, SourceUnavailable

if TYPE_CHECKING:
    from githubkit import GitHub
    from githubkit.exception import RequestError, RequestFailed

_VERSION = {"X-GitHub-Api-Version": "2022-11-28"}
_PAGE = 100
_MOST_PAGES = 10
_TIMEOUT_S = 15
# Strangers may comment on public issues; what they write there must not count as a claim.
_TRUSTED = ("OWNER", "MEMBER", "COLLABORATOR")
_GONE = (404, 410)


class Issue(NamedTuple):
    number: int
    title: str
    body: str
    url: str
    labels: tuple[str, ...]
    created: str
    is_open: bool
    is_pull_request: bool


class Comment(NamedTuple):
    id: int
    body: str
    trusted: bool


@contextmanager
def calling(definition: SourceDefinition, now: int) -> Iterator[Api]:
    """Calls under one connection. Without cache and retries: an old answer would be a wrong one."""
    github_class = _githubkit()
    token = read_token(definition.token)
    with github_class(
        token, base_url=definition.base_url, timeout=_TIMEOUT_S, user_agent="matins", http_cache=False, auto_retry=False
    ) as github:
        yield Api(github, definition, now)


def _githubkit() -> type[GitHub[Any]]:
    try:
        from githubkit import GitHub
    except ImportError as error:
        message = f"Work from GitHub needs githubkit, which cannot be loaded: {error}"
        raise InvalidInput(message, value="github", field="kind", hint='pip install "matins[github]"') from error
    return GitHub


def read_token(reference: str, environment: Mapping[str, str] = os.environ) -> str:
    """What the reference stands for; it is never part of an error."""
    kind, _, where = reference.partition(":")
    try:
        token = environment[where] if kind == "env" else Path(where).expanduser().read_text(encoding="utf-8")
    except (KeyError, OSError, UnicodeDecodeError):
        token = ""
    token = token.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        hint = f"export {where}=…" if kind == "env" else "check the path, and who may read it"
        raise InvalidInput(f"token refers to {reference}, where no token is", value=reference, field="token", hint=hint)
    return token


class Api:
    def __init__(self, github: GitHub[Any], definition: SourceDefinition, now: int) -> None:
        self._github = github
        self._repo = f"/repos/{definition.repo}"
        self._definition = definition
        self._now = now

    def ready_issues(self) -> list[Issue]:
        """The oldest thousand that are open and have the labels, the oldest first."""
        labels = ",".join(self._definition.labels)
        asked = {"state": "open", "labels": labels, "sort": "created", "direction": "asc"}
        return self._pages("/issues", asked, _issue)

    def issue(self, number: str) -> Issue:
        return self._understood(_issue, self._call("GET", f"/issues/{number}"))

    def comments(self, number: str) -> list[Comment]:
        return sorted(self._pages(f"/issues/{number}/comments", {}, _comment))

    def comment(self, number: str, body: str) -> int:
        answer = self._call("POST", f"/issues/{number}/comments", {"body": body})
        return self._understood(_comment, answer).id

    def withdraw_comment(self, comment_id: int) -> None:
        self._call("DELETE", f"/issues/comments/{comment_id}", missing_ok=True)

    def add_label(self, number: str, label: str) -> None:
        self._call("POST", f"/issues/{number}/labels", {"labels": [label]})

    def remove_label(self, number: str, label: str) -> None:
        self._call("DELETE", f"/issues/{number}/labels/{quote(label, safe='')}", missing_ok=True)

    def close(self, number: str) -> None:
        self._call("PATCH", f"/issues/{number}", {"state": "closed", "state_reason": "completed"})

    def _pages[T](self, path: str, asked: Mapping[str, str], read: Callable[[Any], T]) -> list[T]:
        found: list[T] = []
        for page in range(1, _MOST_PAGES + 1):
            answer = self._call("GET", path, asked={**asked, "per_page": str(_PAGE), "page": str(page)})
            if not isinstance(answer, list):
                raise self._strange()
            found += [self._understood(read, one) for one in answer]
            if len(answer) < _PAGE:
                break
        return found
