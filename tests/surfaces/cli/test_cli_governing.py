"""`matins agents`, `quiet-hours`, `budgets`, `throttles`, `webhooks`, `tokens`, `backup`, `audit`, `plan`, `schema`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import click
import pytest
from cli_user import User

from matins.api.use_case import UseCase
from matins.records import record_kinds
from matins.surfaces.cli.command_index import load_command
from matins.surfaces.cli.context import CliContext
from matins.testing import Sandbox


@pytest.mark.parametrize("noun", list(record_kinds()))
def test_every_setting_has_an_option(noun: str) -> None:
    """H12: in `set` and in `edit`; the only setting of a kind is an argument"""
    kind, group = record_kinds()[noun], load_command(noun.replace("_", "-"))
    assert isinstance(group, click.Group)
    if kind.alone and len(kind.table) == 1:
        arguments = [found.metavar for found in group.commands["set"].params if isinstance(found, click.Argument)]
        assert arguments[-1] == kind.alone.upper()
        return
    for verb in ("set", "edit"):
        names = {str(option.name) for option in group.commands[verb].params}
        settings = {name.removeprefix("setting_") for name in names if name.startswith("setting_")}
        assert settings == set(kind.table), verb


def test_h12_agents(user: User) -> None:
    """H12: made, said anew, looked at, removed"""
    assert user.says("agents") == "No agents. Create one: matins agents set scout --runner claude\n"
    made = user.says(
        "agents", "set", "scout", "--runner", "demo", "--workdir", "/srv/site", "--max-cost", "$2", "--tools",
        "Read,Grep", "--environment", '{"TOKEN": "env:TOKEN", "SECRET": "hunter2"}', "--max-turns", "30", "--url",
        "http://localhost:1",
    )  # fmt: skip
    assert made == (
        "Set the agent scout: runner demo, workdir /srv/site, environment TOKEN: env:TOKEN, SECRET: …, "
        "tools Read, Grep, max turns 30, max cost $2.00, url http://localhost:1\n"
    )
    assert user.says("agents") == dedent("""\
        NAME   RUNNER  TOOL  LOGIN  LAST RUN  WORKDIR
        scout  demo    –     –      –         /srv/site
        """)
    shown = user.says("agents", "show", "scout")
    assert "environment    TOKEN: env:TOKEN, SECRET: …\n" in shown
    assert "tools          Read, Grep\n" in shown
    assert "hunter2" not in shown + user.says("agents", "--json") + user.says("events")
    assert user.says("agents", "rm", "scout") == "Deleted the agent scout.\n"
    assert user.json("agents", "rm", "scout") == {"deleted": False}
    assert 'There is no agent "scout"' in user.complains("agents", "show", "scout")
    assert "matins agents set" in user.complains("agents", "show", "scout")
    assert 'There is no runner "demmo"' in user.complains("agents", "set", "x", "--runner", "demmo")


def test_quiet_hours(user: User) -> None:
    """S3"""
    assert user.says("quiet-hours").startswith("No quiet hours. Create one: matins quiet-hours set nights ")
    words = ("--windows", "weekdays 22:00-07:00, sat,sun 00:00-24:00", "-z", "Europe/London", "--mode", "defer")
    user.types("quiet-hours", "set", "night", *words)
    shown = user.says("quiet-hours", "list").splitlines()
    assert shown[0].split() == ["NAME", "WINDOWS", "TIMEZONE", "MODE"]
    assert re.fullmatch(r"night  .*22:00-07:00.*  Europe/London  defer", shown[1])
    assert user.json("quiet-hours")[0]["windows"] == ["mon,tue,wed,thu,fri 22:00-07:00", "sat,sun 00:00-24:00"]
    user.types("add", "every day at 9am", "--job", "work", "-n", "s", "--quiet-hours", "night")
    assert 'The quiet hours policy "night" is used by s.' in user.complains("quiet-hours", "rm", "night", code=1)
    assert "matins quiet-hours set" in _without_any(user)


def _without_any(user: User) -> str:
    user.types("rm", "s")
    user.types("quiet-hours", "rm", "night")
    return user.complains("add", "5m", "--job", "work", "-n", "t", "--quiet-hours", "night")


def test_b5_budgets(user: User, bench: Sandbox) -> None:
    """B5: what is spent of it"""
    assert user.says("budgets").startswith("No budgets. Create one: matins budgets set daily ")
    bench.job("pay")(lambda run: run.spend("$0.10", tokens=1_500))
    user.types("budgets", "set", "daily", "--max-cost", "$5", "--max-tokens", "2M", "--period", "day")
    user.types("budgets", "set", "each", "--max-cost", "$1", "--period", "month", "--scope", "agent")
    assert "each   agent  month   nothing" in user.says("budgets")
    user.types("add", "every day at 9am", "--job", "pay", "-n", "s", "--agent", "x")
    user.types("run", "s")
    bench.settle()
    assert user.says("budgets") == dedent("""\
        NAME   FOR      PERIOD  SPENT                RESERVED  LIMIT
        daily  all      day     $0.10, 1,500 tokens  $0.00     $5.00, 2,000,000 tokens
        each   agent:x  month   $0.10, 1,500 tokens  $0.00     $1.00
        """)
    assert user.json("budgets")[0]["usage"][0]["money"] == "$0.10"
    assert user.json("budgets", "rm", "daily") == {"deleted": True}


def test_b6_throttles(user: User) -> None:
    """B6"""
    assert user.says("throttles") == "No throttles. Create one: matins throttles set anthropic --resets-at 2h\n"
    words = ("--resets-at", "2026-03-27T12:00:00Z", "--affects", "scout", "--reason", "weekly limit")
    assert user.says("throttles", "set", "anthropic", *words) == (
        "Set the throttle anthropic: resets at 12:00 (in 4h), affects scout, reason weekly limit\n"
    )
    assert user.says("throttles").splitlines()[1] == "anthropic  in 4h (12:00)  scout   weekly limit  owner"
    assert user.says("throttles", "rm", "anthropic") == "Deleted the throttle anthropic.\n"
    assert user.json("throttles", "rm", "anthropic") == {"deleted": False}


def test_webhooks(user: User) -> None:
    """P9: the secret is shown once"""
    assert user.says("webhooks").startswith("No webhooks. Create one: matins webhooks add ops ")
    added = user.says("webhooks", "add", "ops", "https://93.184.216.34/hook", "--types", "run.failed")
    secret = re.fullmatch(r"Added the webhook ops\. Secret: (\S+)\n", added)
    assert secret is not None
    assert user.says("webhooks") == dedent("""\
        NAME  URL                         STATE   EVENTS
        ops   https://93.184.216.34/hook  active  run.failed
        """)
    assert secret[1] not in user.says("webhooks", "--json")
    paused = "Paused the webhook ops. To resume: matins webhooks resume ops\n"
    assert user.says("webhooks", "pause", "ops", "-m", "later") == paused
    assert user.says("webhooks", "pause", "ops") == paused
    assert user.json("webhooks", "show", "ops")["state"] == "paused"
    assert user.json("webhooks", "resume", "ops")["state"] == "active"
    assert user.says("webhooks", "deliveries", "ops") == "No event waits for delivery.\n"
    assert user.says("webhooks", "deliveries", "ops", "--state", "discarded") == "No discarded deliveries.\n"
    (event, *_) = user.json("events")
    user.types("webhooks", "redeliver", "ops", event["id"])
    assert user.json("webhooks", "deliveries", "ops")[0]["attempts"] == 0
    assert user.json("webhooks", "rm", "ops") == {"deleted": True}
    assert "127.0.0.1" in user.complains("webhooks", "add", "own", "http://127.0.0.1/")


def test_tokens(user: User) -> None:
    """The token is the answer, all else is talk"""
    assert user.says("tokens") == "No tokens. Create one: matins tokens create NAME\n"
    made = user.types("tokens", "create", "ci", "--role", "viewer", "--expires", "2026-03-28T08:00:00Z")
    assert re.fullmatch(r"mtn_[a-z2-7]{8}_[a-z2-7]{32}\n", made.stdout)
    token_id = made.stdout[4:12]
    assert f"matins tokens revoke {token_id}" in made.stderr
    assert (
        user.says("tokens", "list").splitlines()[1]
        == f"{token_id}  ci    viewer  –       all of its role  never  expires in 24h"
    )
    assert user.says("tokens", "revoke", token_id) == f"Revoked the token {token_id}.\n"
    assert user.says("tokens").splitlines()[1].endswith("never  revoked now")
    assert user.json("tokens", "revoke", token_id) == {"revoked": False}


def test_backup(user: User, tmp_path: Path) -> None:
    user.types("add", "every day at 9am", "--job", "work", "-n", "s")
    copy = tmp_path / "copy.db"
    result = user.types("backup", str(copy))
    assert result.stdout == f"Backed up to {copy}: {copy.stat().st_size:,} bytes\n"
    copying, told = result.stderr.splitlines()
    assert copying == "Copying the store …"
    assert told == "The output of runs is not in it: that is in the folder beside the store (matins.db.runs)."
    assert "output of runs (matins logs) is not in it" in " ".join(user.says("backup", "--help").split())
    there = Sandbox(f"sqlite:///{copy}")
    assert [schedule.name for schedule in there.list()] == ["s"]
    there.engine.close()
    there.close()
    again = user.types("backup", str(copy), code=1).stderr
    assert f"Error: {copy} " in again
    assert "already" in again


def test_audit(user: User, bench: Sandbox) -> None:
    """B1"""
    assert "There is no seal yet" in user.complains("audit", "seal", code=1)
    user.types("add", "every day at 9am", "--job", "work", "-n", "s")
    bench.run_until("2026-03-27T09:05:00Z")
    seal = user.says("audit", "seal").strip()
    assert f"last seal {seal[:12]}…" in user.says("audit", "verify", "--seal", seal)
    assert user.json("audit")["intact"] is True
    connection: Any = bench._store._connection  # type: ignore[attr-defined]
    connection.execute("UPDATE events SET data = '{}' WHERE seq = 2")
    assert user.says("audit", code=1).startswith("The event log has problems:\n  Event ")


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
        {"kind": "schedule", "name": "brief", "change": "added", "was": None, "line": 12, "settings": []},
        {"kind": "schedule", "name": "old\x07", "change": "removed", "was": None, "line": None, "settings": []},
        {
            "kind": "agent",
            "name": "scout",
            "change": "changed",
            "was": None,
            "line": 3,
            "settings": [{"setting": "model", "before": None, "after": "opus"}],
        },
    ],
    "digest": "abc123",
}


class FileTransport:
    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.applied: list[Any] = []

    def document(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
        if use_case.name == "file.apply":
            self.applied.append(arguments)
        return self.plan


@pytest.fixture
def file(user: User, monkeypatch: pytest.MonkeyPatch) -> FileTransport:
    transport = FileTransport(PLAN)
    monkeypatch.setattr(user.app, "transport", lambda **location: transport)
    return transport


def test_c7_plan_and_apply(user: User, file: FileTransport) -> None:
    """C7, B3: what a reload would do; apply is bound to what was shown"""
    result = user.types("plan")
    assert result.stdout == dedent("""\
        /home/ada/matins.yaml: +1 -1 ~1
        + schedule brief (line 12)
        - schedule old\\x07
        ~ agent scout (line 3)
            model: none → opus
        """)
    assert result.stderr == "The file is not applied by itself: it drops more than half. To apply it: matins apply\n"
    assert user.json("plan") == user.json("file", "plan") == PLAN
    applied = user.types("apply")
    assert applied.stdout == "Applied /home/ada/matins.yaml: +1 -1 ~1\n"
    assert file.applied == [{"digest": "abc123"}]


def test_c7_apply_asks_for_confirmation(user: User, file: FileTransport, monkeypatch: pytest.MonkeyPatch) -> None:
    """C7"""
    monkeypatch.setattr(CliContext, "is_interactive", True)
    result = user.types("apply", typed="n\n", code=3)
    assert "- schedule old" in result.stderr
    assert file.applied == []
    user.types("apply", "--yes")
    assert file.applied == [{"digest": "abc123"}]


def test_nothing_to_apply(user: User, file: FileTransport) -> None:
    file.plan = {**PLAN, "entries": [], "note": "+0 -0 ~0", "waits": None}
    assert user.says("apply") == "/home/ada/matins.yaml: +0 -0 ~0\nThere are no changes.\n"
    assert file.applied == []


def test_c7_a_real_file(user: User, bench: Sandbox, tmp_path: Path) -> None:
    """C7, H12: planned, applied, changed, and then owned by the file"""
    file = tmp_path / "matins.yaml"
    file.write_text("schedules:\n  brief:\n    when: every weekday at 9am\n    job: work\n")
    bench.watch_file(file)
    assert user.says("plan") == dedent(f"""\
        {file}: +1 -0 ~0
        + schedule brief (line 2)
            when: every weekday at 09:00
            timezone: UTC
            job: work
        """)
    assert user.types("apply").stdout == f"Applied {file}: +1 -0 ~0\n"
    file.write_text(file.read_text().replace("9am", "10am"))
    assert "    when: every weekday at 09:00 → every weekday at 10:00\n" in user.says("plan")
    assert f"file      {file}:2\n" in user.types("show", "brief", columns=None).stdout
    assert f'"brief" is managed by {file} (line 2).' in user.types("rm", "brief", code=1).stderr
    file.write_text("schedules: [")
    assert "line 1, column " in user.complains("plan")


def test_schema(user: User) -> None:
    """H12: for editors"""
    assert json.loads(user.says("schema"))["$schema"] == "https://json-schema.org/draft/2020-12/schema"
