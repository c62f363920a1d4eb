"""GitHub for jobs: one client, with the token and the server that a job's inputs name."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from matins.model.settings import Names, Secret, Setting, Text
from matins.work.github_api import open_github, read_token, refusal

TOKEN = "env:GITHUB_TOKEN"
BASE_URL = "https://api.github.com"
REPOS = Setting(Names(), "Repositories, as OWNER/NAME.", ["octo-org/garden"], required=True)


@dataclass(frozen=True)
class Server:
    """Where GitHub is, and the token for it."""

    token: Annotated[str, Setting(Secret(), "Reference to the GitHub token.", "env:GITHUB_TOKEN")] = TOKEN
    base_url: Annotated[str, Setting(Text(2_000), "Base URL of the API, for GitHub Enterprise.", BASE_URL)] = BASE_URL


class GitHub:
    """Calls over one connection. Errors say what GitHub refuses, and never contain the token."""

    def __init__(self, client: Any, server: Server) -> None:
        self._request = client.request
        self._server = server

    def call(self, method: str, path: str, body: Any = None) -> Any:
        from githubkit.exception import GitHubException, RequestFailed

        try:
            answer = self._request(method, path, json=body, headers={"X-GitHub-Api-Version": "2022-11-28"})
        except RequestFailed as error:
            raise refusal(error.response.status_code, path, self._server.token) from None
        except GitHubException as error:
            raise refusal(0, path, self._server.token) from error
        return answer.json() if answer.content else None


@contextmanager
def github(server: Server) -> Generator[GitHub]:
    with open_github(read_token(server.token), server.base_url) as client:
        yield GitHub(client, server)
