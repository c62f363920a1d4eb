"""`matins agents`, `quiet-hours`, `budgets`, `throttles`, `webhooks`, `token`, `backup`, `audit`, `plan`, `schema`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from cli_user import User

from matins.engine import agents, budgets, quiet_hours
from matins.surfaces.cli.desk import Desk
from matins.surfaces.cli.words import AGENT, BUDGET, QUIET_HOURS
from matins.testing import Bench


@pytest.mark.parametrize(
    ("table", "words"), [(AGENT, agents.WORDS), (QUIET_HOURS, quiet_hours.WORDS), (BUDGET, budgets.WORDS)]
)
def test_every_word_has_an_option(table: Any, words: tuple[str, ...]) -> None:
    assert {word.name for word in table} == set(words)


def test_h12_agents(user: User) -> None:
    """H12: made, said anew, looked at, removed"""
    assert user.says("agents") == "No agents yet. Make one: matins agents set scout --runner claude\n"
    made = user.says(
        "agents", "set", "scout", "--runner", "demo", "--workdir", "/srv/site", "--max-cost", "$2", "--tools",
        "Read,Grep", "--environment", '{"TOKEN": "env:TOKEN", "SECRET": "hunter2"}', "--max-turns", "30", "--url",
        "http://localhost:1",
    )  # fmt: skip
    assert made == "Set the agent scout: runner demo\n"
    assert user.says("agents") == dedent("""\
        NAME   RUNNER  MODEL  WORKDIR    MAX COST
        scout  demo    –      /srv/site  $2.00
        """)
    shown = user.says("agents", "show", "scout")
    assert "environment  TOKEN: env:TOKEN, SECRET: …\n" in shown
    assert "tools        Read, Grep\n" in shown
    assert "hunter2" not in shown + user.says("agents", "--json") + user.says("events")
    assert user.says("agents", "rm", "scout") == "Removed the agent scout.\n"
    assert user.json("agents", "rm", "scout") == {"removed": False}
    assert 'There is no agent "scout"' in user.complains("agents", "show", "scout")
    assert "matins agents set" in user.complains("agents", "show", "scout")
    assert 'There is no runner "demmo"' in user.complains("agents", "set", "x", "--runner", "demmo")


def test_quiet_hours(user: User) -> None:
    """S3"""
    assert user.says("quiet-hours").startswith("No quiet hours. Make some: matins quiet-hours set night ")
    words = ("--windows", "weekdays 22:00-07:00, sat 00:00-24:00", "-z", "Europe/London", "--mode", "defer")
    user.types("quiet-hours", "set", "night", *words)
    shown = user.says("quiet-hours", "list").splitlines()
    assert shown[0].split() == ["NAME", "WINDOWS", "TIMEZONE", "MODE"]
    assert re.fullmatch(r"night  .*22:00-07:00.*  Europe/London  defer", shown[1])
    user.types("add", "every day at 9am", "--do", "work", "-n", "s", "--quiet-hours", "night")
    assert 'Quiet hours "night" are used by s' in user.complains("quiet-hours", "rm", "night", code=1)
    assert "matins quiet-hours set" in _without_any(user)


def _without_any(user: User) -> str:
    user.types("rm", "s")
    user.types("quiet-hours", "rm", "night")
    return user.complains("add", "5m", "--do", "work", "-n", "t", "--quiet-hours", "night")


def test_b5_budgets(user: User, bench: Bench) -> None:
    """B5: what is spent of it"""
    assert user.says("budgets").startswith("No budgets. Make one: matins budgets set daily ")
    bench.job("pay")(lambda run: run.spend("$0.10", tokens=1_500))
    user.types("budgets", "set", "daily", "--money", "$5", "--tokens", "2M", "--per", "day")
    user.types("budgets", "set", "each", "--money", "$1", "--per", "month", "--scope", "agent")
    assert "each   agent  month  nothing" in user.says("budgets")
    user.types("add", "every day at 9am", "--do", "pay", "-n", "s", "--agent", "x")
    user.types("run", "s")
    bench.settle()
    assert user.says("budgets") == dedent("""\
        NAME   FOR      PER    SPENT                PROMISED  OF
        daily  all      day    $0.10, 1,500 tokens  $0.00     $5.00 and 2,000,000 tokens
        each   agent:x  month  $0.10, 1,500 tokens  $0.00     $1.00
        """)
    assert user.json("budgets")[0]["purses"][0]["money"] == "$0.10"
    assert user.json("budgets", "rm", "daily") == {"removed": True}


def test_b6_throttles(user: User) -> None:
    """B6"""
    assert user.says("throttles") == "No provider is at its limit.\n"
    words = ("anthropic", "2026-03-27T12:00:00Z", "--affects", "scout", "--reason", "weekly limit")
    assert user.says("throttles", "set", *words) == "anthropic waits until 12:00 (in 4h)\n"
    assert user.says("throttles").splitlines()[1] == "anthropic  in 4h (12:00)  scout   weekly limit  owner"
    assert user.says("throttles", "lift", "anthropic") == "Removed the throttle of anthropic.\n"
    assert user.json("throttles", "lift", "anthropic") == {"removed": False}


def test_webhooks(user: User) -> None:
    """P9: the secret is shown once"""
    assert user.says("webhooks").startswith("No webhooks. Add one: ")
    added = user.says("webhooks", "add", "ops", "https://93.184.216.34/hook", "--type", "run.failed")
    secret = re.fullmatch(r"Added ops\. Its secret, shown once: (\S+)\n", added)
    assert secret is not None
    assert user.says("webhooks") == dedent("""\
        NAME  URL                         STATE   EVENTS
        ops   https://93.184.216.34/hook  active  run.failed
        """)
    assert secret[1] not in user.says("webhooks", "--json")
    assert user.says("webhooks", "pause", "ops", "-m", "later") == "ops is paused.\n"
    assert user.says("webhooks", "pause", "ops") == "ops was paused already: nothing done.\n"
    assert user.json("webhooks", "resume", "ops") == {"changed": True}
    assert user.says("webhooks", "deliveries", "ops") == "It has got everything.\n"
    (event, *_) = user.json("events")
    user.types("webhooks", "redeliver", "ops", event["id"])
    assert user.json("webhooks", "deliveries", "ops")[0]["attempts"] == 0
    assert user.json("webhooks", "rm", "ops") == {"removed": True}
    assert "127.0.0.1" in user.complains("webhooks", "add", "own", "http://127.0.0.1/")


def test_tokens(user: User) -> None:
    """The token is the answer, all else is talk"""
    assert user.says("token") == "No tokens. Make one: matins token create NAME\n"
    made = user.types("token", "create", "ci", "--role", "viewer", "--expires", "2026-03-28T08:00:00Z")
    assert re.fullmatch(r"mtn_[a-z2-7]{8}_[a-z2-7]{32}\n", made.stdout)
    token_id = made.stdout[4:12]
    assert f"matins token revoke {token_id}" in made.stderr
    assert (
        user.says("tokens", "list").splitlines()[1]
        == f"{token_id}  ci    viewer  all of its role  never  expires in 24h"
    )
    assert user.says("token", "revoke", token_id) == f"Removed the token {token_id}.\n"
    assert user.says("token").splitlines()[1].endswith("never  revoked now")
    assert user.json("token", "revoke", token_id) == {"removed": False}


def test_backup(user: User, tmp_path: Path) -> None:
    user.types("add", "every day at 9am", "--do", "work", "-n", "s")
    copy = tmp_path / "copy.db"
    result = user.types("backup", str(copy))
    assert result.stdout == f"Copied to {copy}: {copy.stat().st_size:,} bytes\n"
    assert result.stderr == "Copying the store …\n"
    there = Bench(f"sqlite:///{copy}")
    assert [schedule.name for schedule in there.list()] == ["s"]
    there.engine.close()
    there.close()
    assert "is there already" in user.types("backup", str(copy), code=1).stderr


def test_audit(user: User, bench: Bench) -> None:
    """B1"""
    assert "There is no seal yet" in user.complains("audit", "seal", code=1)
    user.types("add", "every day at 9am", "--do", "work", "-n", "s")
    bench.run_until("2026-03-27T09:05:00Z")
    seal = user.says("audit", "seal").strip()
    assert f"last seal {seal[:12]}…" in user.says("audit", "verify", "--seal", seal)
    assert user.json("audit")["whole"] is True
    connection: Any = bench._store._connection  # type: ignore[attr-defined]
    connection.execute("UPDATE events SET data = '{}' WHERE seq = 2")
    assert user.says("audit", code=1).startswith("The audit is not whole:\n  event ")


PLAN = {
    "path": "/home/ada/matins.yaml",
    "state": "changed",
    "added": 1,
    "removed": 1,
    "changed": 1,
    "same": 3,
    "note": "+1 -1 ~1",
    "waits": "it drops more than half",
    "entries": [
        {"kind": "schedule", "name": "brief", "change": "added", "line": 12, "words": []},
        {"kind": "schedule", "name": "old\x07", "change": "removed", "line": None, "words": []},
        {
            "kind": "agent",
            "name": "scout",
            "change": "changed",
            "line": 3,
            "words": [{"word": "model", "before": None, "after": "opus"}],
        },
    ],
    "digest": "abc123",
}


class FileDoor:
    whereabouts = "a file"

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.applied: list[Any] = []

    def call(self, use_case: str, /, **arguments: Any) -> Any:
        if use_case == "apply":
            self.applied.append(arguments)
        return self.plan


@pytest.fixture
def file_door(user: User, monkeypatch: pytest.MonkeyPatch) -> FileDoor:
    door = FileDoor(PLAN)
    monkeypatch.setattr(user.app, "door", lambda **place: door)
    return door


def test_c7_plan_and_apply(user: User, file_door: FileDoor) -> None:
    """C7, B3: what a reload would do; apply is bound to what was shown"""
    result = user.types("plan")
    assert result.stdout == dedent("""\
        /home/ada/matins.yaml: +1 -1 ~1
        + schedule brief (line 12)
        - schedule old\\x07
        ~ agent scout (line 3)
            model: none → opus
        """)
    assert result.stderr == "It waits for you: it drops more than half. To do it: matins apply\n"
    assert user.json("plan") == PLAN
    applied = user.types("apply")
    assert applied.stdout == "Applied /home/ada/matins.yaml: +1 -1 ~1\n"
    assert file_door.applied == [{"digest": "abc123"}]


def test_c7_apply_asks_whoever_types(user: User, file_door: FileDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    """C7"""
    monkeypatch.setattr(Desk, "somebody_types", True)
    result = user.types("apply", typed="n\n", code=3)
    assert "- schedule old" in result.stderr
    assert file_door.applied == []
    user.types("apply", "--yes")
    assert file_door.applied == [{"digest": "abc123"}]


def test_nothing_to_apply(user: User, file_door: FileDoor) -> None:
    file_door.plan = {**PLAN, "entries": [], "note": "+0 -0 ~0", "waits": None}
    assert user.says("apply") == "/home/ada/matins.yaml: +0 -0 ~0\nNothing would change.\n"
    assert file_door.applied == []


def test_c7_a_real_file(user: User, bench: Bench, tmp_path: Path) -> None:
    """C7, H12: planned, applied, changed, and then owned by the file"""
    file = tmp_path / "matins.yaml"
    file.write_text("schedules:\n  brief:\n    when: every weekday at 9am\n    do: work\n")
    bench.follow_file(file)
    assert user.says("plan") == dedent(f"""\
        {file}: +1 -0 ~0
        + schedule brief (line 2)
            when: every weekday at 09:00
            timezone: UTC
            do: work
        """)
    assert user.types("apply").stdout == f"Applied {file}: +1 -0 ~0\n"
    file.write_text(file.read_text().replace("9am", "10am"))
    assert "    when: every weekday at 09:00 → every weekday at 10:00\n" in user.says("plan")
    assert f"file   {file}:2\n" in user.types("show", "brief", columns=None).stdout
    assert f"{file}, line 2" in user.types("rm", "brief", code=1).stderr
    file.write_text("schedules: [")
    assert "line 1, column " in user.complains("plan")


def test_schema(user: User) -> None:
    """H12: for editors"""
    assert json.loads(user.says("schema"))["$schema"] == "https://json-schema.org/draft/2020-12/schema"
