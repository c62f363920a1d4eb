"""GitHub for jobs: one client, with the token and the server that a job's inputs name."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from matins.engine.validation import invalid
from matins.errors import Example, NotFound
from matins.model.settings import Names, Secret, Setting, Text
from matins.work.github_api import check_base_url, open_github, read_token, refusal

TOKEN = "env:GITHUB_TOKEN"
BASE_URL = "https://api.github.com"
REPOS = Setting(Names(), "Repositories, as OWNER/NAME.", ["octo-org/garden"], required=True)
_REPO = re.compile(r"[A-Za-z0-9-]+/(?!\.\.?$)[A-Za-z0-9._-]+")
_PAGE = 100
_MAX_PAGES = 10


@dataclass(frozen=True)
class Server:
    """Where GitHub is, and the token for it."""

    token: Annotated[str, Setting(Secret(), "Reference to the GitHub token.", "env:GITHUB_TOKEN")] = TOKEN
    base_url: Annotated[str, Setting(Text(2_000), "Base URL of the API, for GitHub Enterprise.", BASE_URL)] = BASE_URL

    def __post_init__(self) -> None:
        check_base_url(self.base_url)


@dataclass(frozen=True, kw_only=True)
class Repositories(Server):
    repos: Annotated[tuple[str, ...], REPOS]

    def __post_init__(self) -> None:
        super().__post_init__()
        for repo in self.repos:
            check_repo(repo, "repos")


def check_repo(repo: str, field: str) -> None:
    if not _REPO.fullmatch(repo):
        raise invalid(field, repo, "OWNER/NAME", hint=Example({field: REPOS.example}))


class GitHub:
    """Calls over one connection. Errors say what GitHub refuses, and never contain the token."""

    def __init__(self, client: Any, server: Server) -> None:
        self._request = client.request
        self._server = server

    def call(
        self, method: str, path: str, body: Any = None, *, params: Mapping[str, str] | None = None, accept: str = ""
    ) -> Any:
        """The answer as JSON; as text when another form is accepted."""
        from githubkit.exception import GitHubException, RequestFailed

        headers = {"X-GitHub-Api-Version": "2022-11-28", **({"Accept": accept} if accept else {})}
        try:
            answer = self._request(method, path, params=params, json=body, headers=headers)
        except RequestFailed as error:
            raise refusal(error.response.status_code, path, self._server.token) from None
        except GitHubException as error:
            raise refusal(0, path, self._server.token) from error
        return answer.text if accept else answer.json() if answer.content else None

    def find(self, path: str) -> Any:
        """The answer as JSON; None when there is no such thing."""
        try:
            return self.call("GET", path)
        except NotFound:
            return None

    def pages(self, path: str, params: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """All items of a list, up to a thousand."""
        found: list[dict[str, Any]] = []
        for page in range(1, _MAX_PAGES + 1):
            asked = {**(params or {}), "per_page": str(_PAGE), "page": str(page)}
            batch = self.call("GET", path, params=asked)
            found += batch
            if len(batch) < _PAGE:
                break
        return found

    def open_pull_request(self, repo: str, branch: str, base: str, title: str, body: str) -> str:
        """The address of the pull request of a branch. One that is there already is not opened again."""
        owner = repo.partition("/")[0]
        known = self.pages(f"/repos/{repo}/pulls", {"head": f"{owner}:{branch}", "state": "all"})
        if known:
            return known[0]["html_url"]
        wanted = {"title": title, "head": branch, "base": base, "body": body}
        return self.call("POST", f"/repos/{repo}/pulls", wanted)["html_url"]


@contextmanager
def github(server: Server) -> Generator[GitHub]:
    with open_github(read_token(server.token), server.base_url) as client:
        yield GitHub(client, server)
