"""GitHub for jobs: the inputs that name its server and token, and the client for them."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

from matins.engine.validation import invalid
from matins.errors import Example
from matins.model.settings import Names, Secret, Setting, Text
from matins.work.github_api import GitHub, check_base_url, open_github, read_token

TOKEN = "env:GITHUB_TOKEN"
BASE_URL = "https://api.github.com"
REPOS = Setting(Names(), "Repositories, as OWNER/NAME.", ["octo-org/garden"], required=True)
_REPO = re.compile(r"[A-Za-z0-9-]+/(?!\.\.?$)[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class ServerSettings:
    """Where GitHub is, and the token for it."""

    token: Annotated[str, Setting(Secret(), "Reference to the GitHub token.", "env:GITHUB_TOKEN")] = TOKEN
    base_url: Annotated[str, Setting(Text(2_000), "Base URL of the API, for GitHub Enterprise.", BASE_URL)] = BASE_URL

    def __post_init__(self) -> None:
        check_base_url(self.base_url)


@dataclass(frozen=True, kw_only=True)
class Repositories(ServerSettings):
    repos: Annotated[tuple[str, ...], REPOS]

    def __post_init__(self) -> None:
        super().__post_init__()
        for repo in self.repos:
            check_repo(repo, "repos")


def check_repo(repo: str, field: str) -> None:
    if not _REPO.fullmatch(repo):
        raise invalid(field, repo, "OWNER/NAME", hint=Example({field: REPOS.example}))


@contextmanager
def github(server: ServerSettings) -> Generator[GitHub]:
    with open_github(read_token(server.token), server.base_url) as client:
        yield GitHub(client, server)
