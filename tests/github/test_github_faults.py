"""What GitHub's refusals mean, and that the token stays where it is."""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from github_server import TOKEN, GitHub

from executors.work_sources import parse_source
from matins.errors import InvalidInput, MatinsError, NotFound, RateLimited
from matins.executors.work_items import WorkSourceUnavailable
from matins.github.issues import GitHubIssues

NOW = 1_774_602_000_000
AT = datetime(2026, 3, 27, 9, tzinfo=UTC)


def _claim(github: GitHub, **words: Any) -> object:
    given = {"kind": "github", "repo": "octo-org/garden", "base_url": github.url, **words}
    return GitHubIssues(parse_source("issues", given)).claim("run-1", NOW)


def _refused(github: GitHub, kind: type[MatinsError], **words: Any) -> Any:
    with pytest.raises(kind) as refused:
        _claim(github, **words)
    assert TOKEN not in f"{refused.value!r} {vars(refused.value)}"
    return refused.value


LIMITS: list[tuple[str, int, dict[str, str], str, timedelta]] = [
    ("primary", 403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1774603800"}, "", timedelta(minutes=30)),
    ("secondary", 403, {"retry-after": "90"}, "You have exceeded a secondary rate limit", timedelta(seconds=90)),
    ("too many", 429, {}, "", timedelta(minutes=1)),
    ("in words only", 403, {}, "You have exceeded a secondary rate limit.", timedelta(minutes=1)),
    ("a strange header", 429, {"x-ratelimit-reset": "9" * 30}, "", timedelta(minutes=1)),
]


@pytest.mark.parametrize(("status", "headers", "said", "wait"), [one[1:] for one in LIMITS], ids=[x[0] for x in LIMITS])
def test_a_rate_limit_says_until_when(
    github: GitHub, status: int, headers: dict[str, str], said: str, wait: timedelta
) -> None:
    """H9: the provider's limit is no failure of the run"""
    github.faults[1] = (status, headers, {"message": said})
    limited = _refused(github, RateLimited)
    assert (limited.provider, limited.resets_at) == ("github", AT + wait)


@pytest.mark.parametrize(
    "fault",
    [
        (500, {}, {"message": "oops"}),
        (503, {}, b"<html>"),
        (200, {}, b"not JSON"),
        (200, {}, {"message": "no list"}),
        (200, {}, [{"number": "x"}]),
        (200, {}, ["x"]),
        (200, {}, None),
        (403, {"retry-after": "soon"}, {}),
        (403, {"retry-after": "9" * 30}, {}),
    ],
)
def test_a_fault_of_theirs_can_be_tried_again(github: GitHub, fault: tuple[int, dict[str, str], Any]) -> None:
    """H9: retryable"""
    github.add(1, "ready")
    github.faults[1] = fault
    unavailable = _refused(github, WorkSourceUnavailable)
    assert unavailable.retryable
    assert unavailable.message.startswith(f"{github.url} is not available: ")
    assert _claim(github) is not None


def test_a_server_that_is_not_there_can_be_tried_again(github: GitHub) -> None:
    """H9: retryable"""
    gone = _refused(github, WorkSourceUnavailable, base_url="http://127.0.0.1:1")
    assert "refused" in gone.message


def test_a_refusal_says_what_to_mend(github: GitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """H9: bad input"""
    missing = _refused(github, NotFound, repo="octo-org/gone")
    assert (missing.message, missing.field) == ("GitHub does not find octo-org/gone: issues.", "repo")
    github.faults[1] = (403, {}, {"message": "Resource not accessible by personal access token"})
    refused = _refused(github, InvalidInput)
    assert refused.message == "GitHub rejects issues: 403 Resource not accessible by personal access token."
    monkeypatch.setenv("GITHUB_TOKEN", "wrong")
    refused = _refused(github, InvalidInput)
    assert (refused.message, refused.field) == ("GitHub rejects the token.", "token")
    assert refused.hint == "Put a valid token into env:GITHUB_TOKEN."


def test_the_token_is_read_when_it_is_used(github: GitHub, tmp_path: Path) -> None:
    """H9: secrets by reference"""
    github.add(1, "ready")
    secret = tmp_path / "token"
    assert _refused(github, InvalidInput, token=f"file:{secret}").field == "token"
    secret.write_text(f"{TOKEN}\n")
    assert _claim(github, token=f"file:{secret}") is not None


@pytest.mark.parametrize("value", ["", " ", "two words", f"{TOKEN}\r\nX-Evil: 1", "é", None])
def test_a_reference_to_no_token_is_refused_before_anything_is_sent(
    github: GitHub, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    """H9: bad input, and the value is not told"""
    monkeypatch.delenv("GITHUB_TOKEN") if value is None else monkeypatch.setenv("GITHUB_TOKEN", value)
    refused = _refused(github, InvalidInput)
    assert refused.message == "token refers to env:GITHUB_TOKEN, which has no token."
    assert refused.hint == "Put GITHUB_TOKEN into the environment of the daemon, and start it again."
    assert github.requests == []


def test_without_githubkit_the_extra_is_named(github: GitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """H9: bad input"""
    monkeypatch.setitem(sys.modules, "githubkit", None)
    refused = _refused(github, InvalidInput)
    assert refused.message.startswith("Work from GitHub needs githubkit")
    assert refused.hint == 'pip install "matins[github]"'
