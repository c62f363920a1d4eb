"""The client of GitHub's REST API: its calls, the meaning of its errors, and issues.

GitHub for jobs: the inputs that name its server and token, and the client for them.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol, TypeVar, cast
from urllib.parse import quote, urlsplit

from matins.engine.validation import invalid
from matins.engine.when.triggers import EPOCH
from matins.errors import Example, InvalidInput, MatinsError, NotFound, RateLimited
from matins.executors.work_items import WorkSourceUnavailable, readable
from matins.model.policies import WorkSourceDefinition
from matins.model.settings import Names, Secret, Setting, Text
from matins.texts.beneath import Refused
from matins.texts.untrusted_folder import read_file

if TYPE_CHECKING:
    import githubkit


T = TypeVar("T")
_PAGE = 100
_MAX_PAGES = 30
_TIMEOUT_S = 15
# Anyone may comment on a public issue; comments of strangers must not count as claims.
_TRUSTED = ("OWNER", "MEMBER", "COLLABORATOR")
_LIMITED_MS = 60_000
_MAX_TEXT_LENGTH = 100_000
_MAX_TOKEN_BYTES = 64_000
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_REPO_PATH = re.compile(r"/repos/([^/]+/[^/]+)/(.+)")
_SECONDS = re.compile(r"[0-9]{1,10}")


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


def open_github(token: str, base_url: str) -> githubkit.GitHub[Any]:
    """A client over one connection, without cache and retries: a stale response would be wrong."""
    return _githubkit()(
        token,
        base_url=base_url,
        timeout=_TIMEOUT_S,
        user_agent="matins",
        ssl_verify=_authorities(),
        http_cache=False,
        auto_retry=False,
    )


@contextmanager
def open_api(definition: WorkSourceDefinition, now: int) -> Generator[Api]:
    """Calls over one connection, without cache and retries: a stale response would be wrong."""
    with open_github(read_token(definition.token), definition.base_url) as github:
        yield Api(GitHub(github, definition, field="repo", now=now), definition)


def check_access(definition: WorkSourceDefinition) -> None:
    """Raise InvalidInput without a token, or without the library. Nothing is requested."""
    read_token(definition.token)
    _githubkit()


@cache
def _authorities() -> ssl.SSLContext:
    """The certificate authorities of this machine. Cached: loading them takes longer than a call."""
    return ssl.create_default_context()


def _githubkit() -> type[githubkit.GitHub[Any]]:
    try:
        from githubkit import GitHub
    except ImportError as error:
        message = f"Work from GitHub needs githubkit, which cannot be loaded: {error}."
        raise InvalidInput(message, value="github", field="kind", hint='pip install "matins[github]"') from error
    return GitHub


def read_token(reference: str, environment: Mapping[str, str] = os.environ) -> str:
    """The value of the reference. Errors never contain it."""
    kind, _, location = reference.partition(":")
    try:
        text = environment[location] if kind == "env" else _file(location)
    except Refused as error:
        message = f"token refers to {reference}, but {error.reason}."
        raise InvalidInput(message, value=reference, field="token", hint="Name the file itself.") from None
    except (KeyError, OSError, UnicodeDecodeError):
        text = ""
    token = text.strip()
    if token and token.isascii() and token.isprintable() and " " not in token:
        return token
    hint = (
        f"Put {location} into the environment of the daemon, and start it again."
        if kind == "env"
        else "Check the path and its permissions."
    )
    raise InvalidInput(f"token refers to {reference}, which has no token.", value=reference, field="token", hint=hint)


def _file(location: str) -> str:
    return read_file(Path(location).expanduser(), _MAX_TOKEN_BYTES).decode()


class Server(Protocol):
    """Where GitHub is, and the reference to the token for it."""

    @property
    def token(self) -> str: ...

    @property
    def base_url(self) -> str: ...


class GitHub:
    """Calls over one connection. Errors say what GitHub refuses, and never contain the token."""

    def __init__(self, client: githubkit.GitHub[Any], server: Server, *, field: str = "repos", now: int = 0) -> None:
        """`field` is the setting with the repository; from `now` the end of a rate limit is counted."""
        self._request: Any = client.request  # pyright: ignore[reportUnknownMemberType]
        self._server = server
        self._field = field
        self._now = now

    def call(
        self, method: str, path: str, body: Any = None, *, params: Mapping[str, str] | None = None, accept: str = ""
    ) -> Any:
        """The answer as JSON; as text when another form is accepted."""
        from githubkit.exception import GitHubException, RequestFailed

        headers = {"X-GitHub-Api-Version": "2022-11-28", **({"Accept": accept} if accept else {})}
        try:
            answer = self._request(method, path, params=params, json=body, headers=headers)
            return answer.text if accept else answer.json() if answer.content else None
        except RequestFailed as error:
            raise self._error_for(error.response, path) from None
        except (GitHubException, ValueError, OverflowError) as error:  # not JSON, or a header that is not a number
            raise self.unavailable(str(getattr(error, "exc", error))[:200]) from error

    def find(self, path: str, method: str = "GET") -> Any:
        """The answer as JSON; None when there is no such thing."""
        try:
            return self.call(method, path)
        except NotFound:
            return None

    def pages(self, path: str, params: Mapping[str, str] | None = None, max_pages: int = 10) -> list[Any]:
        """All items of a list, up to a hundred for each page."""
        found: list[Any] = []
        for page in range(1, max_pages + 1):
            batch = self.call("GET", path, params={**(params or {}), "per_page": str(_PAGE), "page": str(page)})
            if not isinstance(batch, list):
                raise self.unavailable("the response is not GitHub's")
            found += cast("list[Any]", batch)
            if len(cast("list[Any]", batch)) < _PAGE:
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

    def unavailable(self, reason: str) -> WorkSourceUnavailable:
        return WorkSourceUnavailable(f"{self._server.base_url} is not available: {reason}.", hint="Try again later.")

    def _error_for(self, response: githubkit.Response[Any], path: str) -> MatinsError:
        """The error for a status of 400 and above."""
        status, inside = response.status_code, _REPO_PATH.fullmatch(path)
        repo, rest = (inside[1], inside[2]) if inside else ("", path)
        if _is_limit(response):
            return RateLimited("github", self._resets_at(response.headers), "the rate limit is reached")
        if status >= 500:
            return self.unavailable(f"status {status}")
        if status == 401:
            hint = f"Put a valid token into {self._server.token}."
            return InvalidInput("GitHub rejects the token.", field="token", hint=hint)
        if status in (404, 410):
            what = f"{repo}: {rest}" if repo else path
            hint = "Check the name, and whether the token can read the repository."
            return NotFound(f"GitHub does not find {what}.", value=what, field=self._field, hint=hint)
        hint = "Check the rights of the token."
        return InvalidInput(f"GitHub rejects {rest}: {status} {_message(response)}.", field="token", hint=hint)

    def _resets_at(self, headers: Mapping[str, str]) -> datetime | None:
        waits, until = _seconds(headers, "retry-after"), _seconds(headers, "x-ratelimit-reset")
        if not self._now and (waits is not None or not until):
            return None
        at = until or self._now + _LIMITED_MS if waits is None else self._now + waits
        return EPOCH + timedelta(milliseconds=at)


class Api:
    """The issues of one repository."""

    def __init__(self, github: GitHub, definition: WorkSourceDefinition) -> None:
        self._github = github
        self._definition = definition
        self._path = f"/repos/{definition.repo}/issues"

    def ready_issues(self) -> list[Issue]:
        """Open issues with the labels, the oldest first. At most the three thousand oldest."""
        labels = ",".join(self._definition.labels)
        params = {"state": "open", "labels": labels, "sort": "created", "direction": "asc"}
        return self._all("", params, _issue)

    def issue(self, number: str) -> Issue:
        return self._parse(_issue, self._github.call("GET", f"{self._path}/{number}"))

    def comments(self, number: str) -> list[Comment]:
        return self._all(f"/{number}/comments", {}, _comment)

    def comment(self, number: str, body: str) -> Comment:
        return self._parse(_comment, self._github.call("POST", f"{self._path}/{number}/comments", {"body": body}))

    def withdraw_comment(self, comment_id: int) -> None:
        self._github.find(f"{self._path}/comments/{comment_id}", "DELETE")

    def add_label(self, number: str, label: str) -> None:
        self._github.call("POST", f"{self._path}/{number}/labels", {"labels": [label]})

    def remove_label(self, number: str, label: str) -> None:
        self._github.find(f"{self._path}/{number}/labels/{quote(label, safe='')}", "DELETE")

    def close(self, number: str) -> None:
        self._github.call("PATCH", f"{self._path}/{number}", {"state": "closed", "state_reason": "completed"})

    def _all(self, path: str, params: Mapping[str, str], read: Callable[[Any], T]) -> list[T]:
        return [self._parse(read, one) for one in self._github.pages(f"{self._path}{path}", params, _MAX_PAGES)]

    def _parse(self, read: Callable[[Any], T], answer: Any) -> T:
        try:
            return read(answer)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._github.unavailable("the response is not GitHub's") from error


def _is_limit(response: githubkit.Response[Any]) -> bool:
    if response.status_code not in (403, 429):
        return False
    limited = response.headers.get("x-ratelimit-remaining") == "0" or "retry-after" in response.headers
    return limited or response.status_code == 429 or "rate limit" in _message(response)


def _seconds(headers: Mapping[str, str], name: str) -> int | None:
    """The value of a header in seconds, as milliseconds."""
    text = headers.get(name, "")
    return int(text) * 1_000 if _SECONDS.fullmatch(text) else None


def _message(response: githubkit.Response[Any]) -> str:
    try:
        return str(response.json()["message"])[:200]
    except (KeyError, TypeError, ValueError):
        return ""


def _issue(data: Any) -> Issue:
    return Issue(
        number=int(data["number"]),
        title=readable(" ".join(str(data["title"]).split()), _MAX_TEXT_LENGTH),
        body=readable(data.get("body") or "", _MAX_TEXT_LENGTH),
        url=str(data["html_url"]),
        labels=tuple(str(label if isinstance(label, str) else label["name"]) for label in data["labels"]),
        created=str(data["created_at"]),
        is_open=data["state"] == "open",
        is_pull_request="pull_request" in data,
    )


def _comment(data: Any) -> Comment:
    user: Any = data["user"]
    is_bot = user is not None and user["type"] == "Bot"  # an app that the owner of the repository installed
    return Comment(int(data["id"]), data.get("body") or "", is_bot or data["author_association"] in _TRUSTED)


def check_base_url(text: str) -> str:
    """The normalized URL. It must be encrypted or local, because the token is sent there."""
    try:
        parts = urlsplit(text)
        host, plain = parts.hostname, not (parts.query or parts.fragment or "@" in parts.netloc or parts.port == 0)
    except ValueError:
        host, parts, plain = None, urlsplit(""), False
    if host and plain and (parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK)):
        return text.rstrip("/")
    hint = Example({"base_url": "https://github.example.com/api/v3"})
    raise invalid("base_url", text, "a URL with https://", hint=hint)


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
