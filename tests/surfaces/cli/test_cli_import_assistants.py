"""`matins import openclaw` and `hermes`: jobs as these write them, with the old times beside the new."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_user import User

CLAW = {
    "version": 1,
    "jobs": [
        {"id": "5f0c", "name": "Morning brief", "enabled": True, "agentId": "ops", "createdAtMs": 1, "updatedAtMs": 1,
         "schedule": {"kind": "cron", "expr": "0 7 * * 1-5", "tz": "Europe/Berlin", "staggerMs": 120000},
         "sessionTarget": "isolated", "wakeMode": "now",
         "payload": {"kind": "agentTurn", "message": "Summarise {{overnight}}.", "timeoutSeconds": 120},
         "delivery": {"mode": "announce", "channel": "telegram", "to": "-100123"}, "state": {}},
        {"id": "6a", "name": "Look around", "enabled": False, "schedule": {"kind": "every", "everyMs": 900000},
         "sessionTarget": "main", "wakeMode": "next-heartbeat",
         "payload": {"kind": "systemEvent", "text": "Look at the inbox."}, "state": {}},
        {"id": "7b", "name": "Once", "enabled": True, "schedule": {"kind": "at", "at": "2099-02-01T16:00:00Z"},
         "sessionTarget": "isolated", "payload": {"kind": "command", "argv": ["backup", "--all"]}, "state": {}},
        {"id": "8c", "name": "Odd", "schedule": {"kind": "cron", "expr": "0 25 * * *"},
         "payload": {"kind": "agentTurn", "message": "x"}},
    ],
}  # fmt: skip
HERMES = {
    "jobs": [
        {"id": "a1b2", "name": "Daily briefing", "prompt": "Summarize today's AI news", "skills": ["news"],
         "schedule": {"kind": "cron", "expr": "0 9 * * *", "display": "0 9 * * *"}, "deliver": "origin",
         "origin": {"platform": "telegram", "chat_id": "81230"}, "repeat": {"times": 50, "completed": 42},
         "state": "scheduled", "enabled": True, "model": None, "script": None},
        {"id": "c3", "name": "Disk", "prompt": "", "script": "disk.sh", "no_agent": True, "deliver": "local",
         "schedule": {"kind": "interval", "minutes": 30, "display": "every 30m"},
         "repeat": {"times": None, "completed": 0}, "state": "paused", "enabled": True},
        {"id": "d4", "name": "Gone", "prompt": "x", "schedule": {"kind": "once", "run_at": "2025-01-15T09:00:00"},
         "state": "completed", "enabled": False},
    ],
}  # fmt: skip


@pytest.fixture(autouse=True)
def berlin(user: User) -> None:
    user.app.zone = "Europe/Berlin"


def _found(user: User, tmp_path: Path, source: str, jobs: Any, *words: str) -> Any:
    folder = tmp_path / "cron"
    folder.mkdir(exist_ok=True)
    path = folder / "jobs.json"
    path.write_text(json.dumps(jobs))
    return json.loads(user.says("import", source, str(path), *words, "--json"))


def _of(found: Any, kind: str = "schedule") -> dict[str, Any]:
    return {entry["name"]: entry["settings"] for entry in found["entries"] if entry["kind"] == kind}


def test_b11_openclaw(user: User, tmp_path: Path) -> None:
    """B11: times, sessions and deliveries; what cannot be read is left out with its reason"""
    found = _found(user, tmp_path, "openclaw", CLAW)
    schedules = _of(found)
    brief = schedules["morning-brief"]
    assert (brief["when"], brief["timezone"], brief["timeout"]) == ("0 7 * * 1-5", "Europe/Berlin", "120s")
    assert (brief["agent"], brief["deliver"], brief["jitter"]) == ("openclaw-ops", ["telegram-100123"], 0.139)
    assert brief["prompt"] == "Summarise \\{{overnight}}.", "what others wrote has no placeholders"
    assert schedules["look-around"]["target"] == {"kind": "channel", "channel": "openclaw-main"}
    assert schedules["once"]["command"] == ["backup", "--all"]
    assert _of(found, "destination")["telegram-100123"]["token"] == "env:TELEGRAM_BOT_TOKEN"
    assert [line for line in found["left_out"] if "job Odd" in line]
    paused = [entry["name"] for entry in found["entries"] if entry["paused"]]
    assert paused == ["look-around"]
    (times,) = [one for one in found["entries"] if one["name"] == "morning-brief"]
    assert times["old"] == times["new"] > 20
    assert times["differences"] == 0


def test_b11_hermes_is_imported_for_an_agent_that_is_there(user: User, tmp_path: Path) -> None:
    """B11: and a second time changes nothing"""
    user.says("agents", "set", "ann", "--runner", "message")
    found = _found(user, tmp_path, "hermes", HERMES, "--agent", "ann")
    schedules = _of(found)
    assert schedules["daily-briefing"]["agent"] == "ann"
    assert schedules["daily-briefing"]["prompt"].startswith("Use these skills: news.")
    assert schedules["daily-briefing"]["max_executions"] == 8
    assert schedules["daily-briefing"]["deliver"] == ["telegram-81230"]
    assert schedules["disk"]["command"] == ["bash", str(tmp_path / "scripts" / "disk.sh")]
    assert not _of(found, "agent")
    assert ["it is completed." in line for line in found["left_out"]] == [True]
    path = str(tmp_path / "cron" / "jobs.json")
    user.says("import", "hermes", path, "--agent", "ann", "--apply")
    assert "every 30 minutes" in user.says("list")
    assert user.says("import", "hermes", path, "--agent", "ann").splitlines()[-1].endswith("+0 ~0 =3")


@pytest.mark.parametrize("path", [("schedule", "minutes"), ("repeat", "times"), ("origin",), ("script",), ("skills",)])
@pytest.mark.parametrize(
    "planted", ["9" * 5_000, ["a"], {"a": 1}, "~nobody-here/x", "'"], ids=lambda it: ascii(it)[:20]
)
def test_b16_one_job_that_cannot_be_read_leaves_the_others(
    user: User, tmp_path: Path, path: tuple[str, ...], planted: Any
) -> None:
    """B16: agents write these files, too: one entry does not end the import with a traceback"""
    job: dict[str, Any] = {**HERMES["jobs"][1], "name": "Planted", "deliver": "origin"}
    inner = job
    for name in path[:-1]:
        inner[name] = dict(inner[name])
        inner = inner[name]
    inner[path[-1]] = planted
    document = _found(user, tmp_path, "hermes", {"jobs": [HERMES["jobs"][0], job]})
    assert any("briefing" in entry["name"] for entry in document["entries"])
