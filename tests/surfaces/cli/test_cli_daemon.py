"""The same documents and the same exit codes, whoever answers: the store itself, or a daemon over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cli_daemon import served
from cli_user import User

from matins.testing import Sandbox

VIEWS = [
    "list", "show s", "next", "next every day at noon", "preview s", "preview s --when 2h", "why s",
    "preview s --catch-up-since 2026-03-25T00:00:00Z", "why s --at 2026-03-28T09:00:00Z", "runs", "runs s",
    "runs --state skipped", "runs show 1", "approvals", "approvals show 1", "agents", "agents show x", "quiet-hours",
    "budgets", "throttles", "webhooks", "webhooks deliveries ops", "events --type schedule.created", "stats",
    "tokens", "audit", "edit s --jitter 5 --dry-run", "prices", "rates", "hooks", "limits", "agent-rules",
    "agent-rules x", "agent-rules list", "work-sources", "threads", "allowed-hosts", "heartbeat", "events list",
    "budgets show daily", "quiet-hours show night", "webhooks show ops", "prices show gpt-5", "rates show USD",
    "call system.whoami", "call runs.snapshot run_id=1", "call subscriptions.deliveries name=ops",
]  # fmt: skip


@pytest.fixture
def through(bench: Sandbox, user: User, monkeypatch: pytest.MonkeyPatch) -> Iterator[User]:
    """Somebody whose commands go over HTTP."""
    other = User(bench)
    with served(bench) as client:
        monkeypatch.setattr(other.app, "transport", lambda **location: client)
        yield other


@pytest.fixture
def furnished(bench: Sandbox) -> None:
    """A little of everything."""
    bench.agents.set("x", runner="demo", environment={"SECRET": "hunter2"})
    bench.quiet_hours.set("night", windows="22:00-07:00")
    bench.budgets.set("daily", max_cost="$5", period="day")
    bench.throttles.set("p", resets_at=bench.clock.now_ms() + 3_600_000)
    bench.webhooks.add("ops", "https://93.184.216.34/hook")
    bench.add("s", when="1h", job="work", agent="x", quiet_hours="night", approval="owner_approve")
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
        ("add 5m --job work -n s --agent x", 1),
        ("add sometimes --job work -n t", 2),
        ("add 5m --job work -n t --quiet-hours never", 2),
        ("cancel 99", 2),
        ("resolve 1 failed", 1),
        ("approve 99", 2),
        ("edit s --jitter 99", 2),
        ("pause s --until yesterday", 2),
        ("agents rm nobody", 0),
        ("quiet-hours rm night", 1),
        ("rm nobody", 0),
        ("throttles rm nobody", 0),
        ("tokens revoke aaaaaaaa", 0),
        ("webhooks rm nobody", 0),
        ("webhooks pause nobody", 2),
        ("runs --state odd", 2),
    ],
)
def test_the_same_complaints(user: User, through: User, words: str, code: int) -> None:
    """B10: word by word"""
    own, other = (who.types(*words.split(), code=code) for who in (user, through))
    assert (other.stdout, other.stderr) == (own.stdout, own.stderr)
