"""The same documents and the same exit codes, whoever answers: the store itself, or a daemon over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from cli_daemon import served
from cli_user import User

from matins.testing import Bench

VIEWS = [
    "list", "show s", "next", "next every day at noon", "preview s", "preview s --when 2h", "why s",
    "preview s --catch-up-since 2026-03-25T00:00:00Z", "why s --at 2026-03-28T09:00:00Z", "runs", "runs s",
    "runs --state skipped", "runs show 1", "approvals", "approvals show 1", "agents", "agents show x", "quiet-hours",
    "budgets", "throttles", "webhooks", "webhooks deliveries ops", "events --type schedule.created", "stats",
    "token", "audit", "edit s --jitter 5 --dry-run", "prices", "prices rate", "hooks", "limits", "rules", "rules x",
    "work-sources", "threads",
]  # fmt: skip


@pytest.fixture
def through(bench: Bench, user: User, monkeypatch: pytest.MonkeyPatch) -> Iterator[User]:
    """Somebody whose commands go over HTTP."""
    other = User(bench)
    with served(bench) as client:
        monkeypatch.setattr(other.app, "door", lambda **place: client)
        yield other


@pytest.fixture
def furnished(bench: Bench) -> None:
    """A little of everything."""
    bench.set_agent("x", runner="demo", environment={"SECRET": "hunter2"})
    bench.set_quiet_hours("night", windows="22:00-07:00")
    bench.set_budget("daily", money="$5", per="day")
    bench.throttle("p", bench.clock.now_ms() + 3_600_000)
    bench.add_webhook("ops", "https://93.184.216.34/hook")
    bench.add("s", when="1h", do="work", agent="x", quiet_hours="night", approval="owner_approve")
    bench.run("s")
    bench.settle()


@pytest.mark.usefixtures("furnished")
def test_v12_the_same_documents(user: User, through: User) -> None:
    """V12: in every view, as text and as JSON"""
    for view in VIEWS:
        words = view.split()
        assert through.says(*words) == user.says(*words), view
        assert through.json(*words) == user.json(*words), view


@pytest.mark.usefixtures("furnished")
@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("show nope", 2),
        ("show ss", 2),
        ("run nope", 2),
        ("add 5m --do work -n s --agent x", 1),
        ("add sometimes --do work -n t", 2),
        ("add 5m --do work -n t --quiet-hours never", 2),
        ("cancel 99", 2),
        ("resolve 1 failed", 1),
        ("approve 99", 2),
        ("edit s --jitter 99", 2),
        ("pause s --until yesterday", 2),
        ("agents rm nobody", 0),
        ("quiet-hours rm night", 1),
        ("rm nobody", 0),
        ("throttles lift nobody", 0),
        ("token revoke aaaaaaaa", 0),
        ("webhooks rm nobody", 0),
        ("webhooks pause nobody", 2),
        ("runs --state odd", 2),
    ],
)
def test_the_same_complaints(user: User, through: User, words: str, code: int) -> None:
    """B10: word by word"""
    own, other = (who.types(*words.split(), code=code) for who in (user, through))
    assert (other.stdout, other.stderr) == (own.stdout, own.stderr)


def test_every_change_goes_through(through: User, bench: Bench) -> None:
    """P4, C10, C11: a life over HTTP"""
    steps: list[tuple[str, Any]] = [
        ("add 1h --do work -n s --before true --after true", lambda item: item["words"]["before"] == "true"),
        ("edit s --when 2h --set retries=2", lambda item: item["words"]["retries"] == 2),
        ("pause s --note later", lambda item: item["note"] == "later"),
        ("resume s", lambda item: item["state"] == "active"),
        ("run s --key k", lambda run: run["live"]),
        ("cancel 1 --reason enough", lambda run: run["reason"] == "enough"),
        ("webhooks add ops https://93.184.216.34/hook", lambda item: item["secret"]),
        ("webhooks pause ops", lambda item: item == {"changed": True}),
        ("webhooks pause ops", lambda item: item == {"changed": False}),
        ("webhooks resume ops", lambda item: item == {"changed": True}),
        ("webhooks redeliver ops 1", lambda item: item == {"requested": True}),
        ("webhooks rm ops", lambda item: item == {"removed": True}),
        ("token create ci --role viewer --right read", lambda item: item["rights"] == ["read"]),
        ("rm s", lambda item: item == {"removed": True}),
        ("rm s", lambda item: item == {"removed": False}),
    ]
    for words, holds in steps:
        answer = through.json(*words.split())
        assert holds(answer), (words, json.dumps(answer))
    assert bench.list() == []
