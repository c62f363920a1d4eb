"""The calls of GitHub's REST API for claiming issues, and the meaning of its errors."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast
from urllib.parse import quote, urlsplit

from matins.engine.validation import invalid
from matins.engine.when.triggers import EPOCH
from matins.errors import Example, InvalidInput, MatinsError, NotFound, RateLimited
from matins.model.work_source import WorkSourceDefinition
from matins.texts.beneath import Refused
from matins.texts.own_folders import read_file
from matins.work.sources import WorkSourceUnavailable, readable

if TYPE_CHECKING:
    from githubkit import GitHub, Response

T = TypeVar("T")
_VERSION = {"X-GitHub-Api-Version": "2022-11-28"}
_PAGE = 100
_MAX_PAGES = 30
_TIMEOUT_S = 15
# Anyone may comment on a public issue; comments of strangers must not count as claims.
_TRUSTED = ("OWNER", "MEMBER", "COLLABORATOR")
_LIMITED_MS = 60_000
_MAX_TEXT_LENGTH = 100_000
_MAX_TOKEN_BYTES = 64_000
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
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


def open_github(token: str, base_url: str) -> GitHub[Any]:
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


def refusal(status: int, path: str, token: str) -> MatinsError:
    """The error for a call that GitHub did not answer with success."""
    if status == 401:
        hint = f"Put a valid token where {token} refers to."
        return InvalidInput("GitHub does not accept the token.", field="token", hint=hint)
    if status in (404, 410):
        hint = "Check the name, and that the token may see the repository."
        return NotFound(f"GitHub shows no {path}.", value=path, field="repos", hint=hint)
    if status in (403, 406, 422):
        return InvalidInput(f"GitHub refuses {path}: {status}.", field="token", hint="Check the rights of the token.")
    if status == 429:
        return RateLimited("github", None, "its rate limit is reached")
    what = f"answers {status}" if status else "does not answer"
    return WorkSourceUnavailable(f"GitHub {what}: {path}", hint="Try again later.")


@contextmanager
def open_api(definition: WorkSourceDefinition, now: int) -> Generator[Api]:
    """Calls over one connection, without cache and retries: a stale response would be wrong."""
    with open_github(read_token(definition.token), definition.base_url) as github:
        yield Api(github, definition, now)


def check_access(definition: WorkSourceDefinition) -> None:
    """Raise InvalidInput without a token, or without the library. Nothing is requested."""
    read_token(definition.token)
    _githubkit()


@cache
def _authorities() -> ssl.SSLContext:
    """The certificate authorities of this machine. Cached: loading them takes longer than a call."""
    return ssl.create_default_context()


def _githubkit() -> type[GitHub[Any]]:
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


class Api:
    def __init__(self, github: GitHub[Any], definition: WorkSourceDefinition, now: int) -> None:
        self._request: Any = github.request  # pyright: ignore[reportUnknownMemberType]
        self._definition = definition
        self._now = now

    def ready_issues(self) -> list[Issue]:
        """Open issues with the labels, the oldest first. At most the three thousand oldest."""
        labels = ",".join(self._definition.labels)
        params = {"state": "open", "labels": labels, "sort": "created", "direction": "asc"}
        return self._pages("issues", params, _issue)

    def issue(self, number: str) -> Issue:
        return self._parse(_issue, self._call("GET", f"issues/{number}"))

    def comments(self, number: str) -> list[Comment]:
        return self._pages(f"issues/{number}/comments", {}, _comment)

    def comment(self, number: str, body: str) -> Comment:
        return self._parse(_comment, self._call("POST", f"issues/{number}/comments", {"body": body}))

    def withdraw_comment(self, comment_id: int) -> None:
        self._call("DELETE", f"issues/comments/{comment_id}", missing_ok=True)

    def add_label(self, number: str, label: str) -> None:
        self._call("POST", f"issues/{number}/labels", {"labels": [label]})

    def remove_label(self, number: str, label: str) -> None:
        self._call("DELETE", f"issues/{number}/labels/{quote(label, safe='')}", missing_ok=True)

    def close(self, number: str) -> None:
        self._call("PATCH", f"issues/{number}", {"state": "closed", "state_reason": "completed"})

    def _pages(self, path: str, params: Mapping[str, str], read: Callable[[Any], T]) -> list[T]:
        found: list[T] = []
        for page in range(1, _MAX_PAGES + 1):
            answer = self._call("GET", path, params={**params, "per_page": str(_PAGE), "page": str(page)})
            batch = self._parse(_list, answer)
            found += [self._parse(read, one) for one in batch]
            if len(batch) < _PAGE:
                break
        return found

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        params: Mapping[str, str] | None = None,
        missing_ok: bool = False,
    ) -> Any:
        from githubkit.exception import GitHubException, RequestFailed

        url = f"/repos/{self._definition.repo}/{path}"
        try:
            answer = self._request(method, url, params=params, json=body, headers=_VERSION)
            return answer.json() if answer.content else None
        except RequestFailed as error:
            if missing_ok and error.response.status_code in (404, 410):
                return None
            raise self._error_for(error.response, path) from error
        except (GitHubException, ValueError, OverflowError) as error:  # not JSON, or a header that is not a number
            raise self._unavailable(str(getattr(error, "exc", error))[:200]) from error

    def _error_for(self, response: Response[Any], path: str) -> MatinsError:
        """The error for a status of 400 and above."""
        status = response.status_code
        if _is_limit(response):
            return RateLimited("github", self._resets_at(response.headers), "the rate limit is reached")
        if status >= 500:
            return self._unavailable(f"status {status}")
        if status == 401:
            hint = f"Put a valid token into {self._definition.token}."
            return InvalidInput("GitHub rejects the token.", field="token", hint=hint)
        if status in (404, 410):
            what = f"{self._definition.repo}: {path}"
            hint = "Check the name, and whether the token can read the repository."
            return NotFound(f"GitHub does not find {what}.", value=what, field="repo", hint=hint)
        hint = "The token needs the right to write issues."
        return InvalidInput(f"GitHub rejects {path}: {status} {_message(response)}.", field="token", hint=hint)

    def _resets_at(self, headers: Mapping[str, str]) -> datetime:
        waits, until = _seconds(headers, "retry-after"), _seconds(headers, "x-ratelimit-reset")
        at = until or self._now + _LIMITED_MS if waits is None else self._now + waits
        return EPOCH + timedelta(milliseconds=at)

    def _parse(self, read: Callable[[Any], T], answer: Any) -> T:
        try:
            return read(answer)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._unavailable("the response is not GitHub's") from error

    def _unavailable(self, reason: str) -> WorkSourceUnavailable:
        return WorkSourceUnavailable(
            f"{self._definition.base_url} is not available: {reason}.", hint="Try again later."
        )


def _is_limit(response: Response[Any]) -> bool:
    if response.status_code not in (403, 429):
        return False
    limited = response.headers.get("x-ratelimit-remaining") == "0" or "retry-after" in response.headers
    return limited or response.status_code == 429 or "rate limit" in _message(response)


def _seconds(headers: Mapping[str, str], name: str) -> int | None:
    """The value of a header in seconds, as milliseconds."""
    text = headers.get(name, "")
    return int(text) * 1_000 if _SECONDS.fullmatch(text) else None


def _message(response: Response[Any]) -> str:
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


def _list(data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise TypeError
    return cast("list[Any]", data)


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
