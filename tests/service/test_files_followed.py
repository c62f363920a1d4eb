"""A real engine that follows its file, and Cortex's schedules.json in its place. Rows C2, C7, C16."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import every_store
import pytest
from file_steps import Desk

from matins import Matins
from matins.config.file import ConfigFile
from matins.engine.when.triggers import to_ms
from matins.errors import ManagedByFile
from matins.testing import Sandbox, instant

in_memory = every_store.in_memory
PATIENCE_S = 90
TASKS: dict[str, Any] = {
    "tasks": [
        {
            "id": "d6f1bb1e",
            "type": "interval",
            "message": "Check for new tasks and dispatch if available",
            "channel": "C07ABCDEF",
            "profile": "claude-haiku",
            "intervalMs": 30000,
            "createdAt": 1747680000000,
            "nextRun": 1747680030000,
            "lastRun": 1747680000000,
            "dispatchType": "work",
            "target": {"kind": "fresh"},
            "fallback": "fresh",
            "preCheck": "true",
        },
        {"id": "e4c91a03", "type": "daily", "time": "09:00", "message": "Digest", "profile": "claude-haiku"},
        {"id": "00000003", "type": "weekly", "time": "21:00", "dayOfWeek": 1, "message": "Review", "profile": "opus"},
        {"id": "00000004", "type": "once", "runAt": instant("2026-03-27T10:00:00Z"), "message": "Once"},
    ]
}


def test_c7_a_saved_file_is_taken_up_while_schedules_fire(tmp_path: Path) -> None:
    """C7: watched by a real engine, in threads"""
    m = Matins(f"sqlite:///{tmp_path}/matins.db")
    ran, applied = threading.Event(), threading.Event()
    m.job("work")(lambda run: ran.set())
    path = tmp_path / "matins.yaml"
    path.write_text("schedules: {a: {when: 1h, job: work, first: immediately}}\n")
    reloader = m.watch_file(path)
    with m:
        m.subscribe(lambda event: applied.set(), types="file.applied")
        reloader.start()
        assert [schedule.name for schedule in m.list()] == ["a"]
        assert ran.wait(PATIENCE_S)
        assert applied.wait(PATIENCE_S)
        applied.clear()
        path.write_text("schedules: {a: {when: 2h, job: work}, b: {when: 1h, job: work}}\n")
        assert applied.wait(PATIENCE_S)
        assert [(schedule.name, schedule.rev) for schedule in m.list()] == [("a", 2), ("b", 1)]
        reloader.stop()
    m.close()


@pytest.fixture
def cortex(in_memory: Sandbox, tmp_path: Path) -> Desk:
    desk = Desk(in_memory, tmp_path / "schedules.json", json.dumps(TASKS, indent=2))
    assert desk.look() == "applied", desk.file.state
    return desk


def tasks(desk: Desk) -> dict[str, Any]:
    return {task["id"]: task for task in json.loads(desk.path.read_text())["tasks"]}


def test_c2_a_schedules_json_serves_as_the_file(cortex: Desk) -> None:
    """C2: 8-hex ids kept, profile is the agent, computed fields ignored on read"""
    found = {f"{s.agent}/{s.name}": s for s in cortex.bench.list()}
    assert set(found) == {"claude-haiku/d6f1bb1e", "claude-haiku/e4c91a03", "opus/00000003", "default/00000004"}
    often = found["claude-haiku/d6f1bb1e"].settings
    assert (often["job"], often["pre_check"], often["when"], often["anchor"]) == ("work", "true", "every 30s", "start")
    assert often["target"]["channel"] == "C07ABCDEF"
    assert found["default/00000004"].settings["grace"] == "1m"
    assert cortex.notes() == ["schedules.json hot-reloaded: +4 -0 ~0 task(s)"]
    changed = json.loads(cortex.path.read_text())
    changed["tasks"][0] |= {"nextRun": 5, "lastRun": 6}
    cortex.path.write_text(json.dumps(changed))
    assert cortex.bench.file.plan().state == "same"


def test_c2_what_is_computed_is_written_back(cortex: Desk) -> None:
    """C2: next run, last run, pauses, and nothing else; own writes are no news"""
    bench = cortex.bench
    bench.run_until("2026-03-27T08:01:05Z")
    bench.pause("e4c91a03")
    before = tasks(cortex)
    assert cortex.reloader.refresh() is True
    after = tasks(cortex)
    assert after["d6f1bb1e"]["createdAt"] == 1747680000000  # since when it is there, also elsewhere
    assert after["e4c91a03"]["createdAt"] == to_ms(bench.get("e4c91a03").created_at)
    assert "isPaused" not in after["d6f1bb1e"]
    assert after["d6f1bb1e"]["lastRun"] == instant("2026-03-27T08:01:00Z")
    assert after["d6f1bb1e"]["nextRun"] == instant("2026-03-27T08:01:30Z")
    paused = {"isPaused": True, "pausedAt": instant("2026-03-27T08:01:05Z"), "pausedBy": "user"}
    assert paused.items() <= after["e4c91a03"].items()
    assert "nextRun" not in after["e4c91a03"]
    computed = {"nextRun", "createdAt", "lastRun", "isPaused", "pausedAt", "pausedBy"}
    for task_id, task in before.items():
        kept = {field: value for field, value in task.items() if field not in computed}
        assert {field: value for field, value in after[task_id].items() if field not in computed} == kept
    assert cortex.reloader.refresh() is False
    assert bench.file.plan().state == "same"
    assert bench.get("e4c91a03").state == "paused"
    bench.resume("e4c91a03")
    cortex.reloader.refresh()
    assert tasks(cortex)["e4c91a03"]["isPaused"] is False
    assert bench.file.plan().state == "same"
    assert bench.get("e4c91a03").state == "active"


def test_c10_is_paused_pauses_and_resumes(cortex: Desk) -> None:
    """C10: set in the file by a person"""
    for said, state in ((True, "paused"), (False, "active")):
        changed = json.loads(cortex.path.read_text())
        changed["tasks"][1]["isPaused"] = said
        cortex.path.write_text(json.dumps(changed))
        assert cortex.look() == "applied"
        assert cortex.bench.get("e4c91a03").state == state
    assert cortex.notes()[-1] == "schedules.json hot-reloaded: +0 -0 ~1 task(s)"


def test_c16_the_throttle_stands_in_the_file_too(cortex: Desk) -> None:
    """C2, C16: resetsAt, activatedAt, affected modes; who is held by it is paused by rate-limit"""
    bench = cortex.bench
    bench.agents.set("claude-haiku", runner="demo", provider="anthropic")
    now = bench.clock.now_ms()
    bench.throttles.set("anthropic", resets_at=now + 3_600_000, affects=["claude-haiku"])
    cortex.reloader.refresh()
    assert json.loads(cortex.path.read_text())["throttle"] == {
        "resetsAt": now + 3_600_000, "activatedAt": now, "affectedModes": ["claude-haiku"], "provider": "anthropic",
    }  # fmt: skip
    held = tasks(cortex)["e4c91a03"]
    assert (held["isPaused"], held["pausedBy"], held["pausedAt"]) == (True, "rate-limit", now)
    assert bench.file.plan().state == "same"
    bench.throttles.delete("anthropic")
    cortex.reloader.refresh()
    assert json.loads(cortex.path.read_text())["throttle"] is None
    assert tasks(cortex)["e4c91a03"]["isPaused"] is False
    assert bench.file.plan().state == "same"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"id": "xyz"}, "tasks[0].id: must be 8 hexadecimal digits"),
        ({"type": "hourly"}, "tasks[0].type: must be interval, daily, weekly, once"),
        ({"intervalMs": "30s"}, "tasks[0].intervalMs: must be milliseconds"),
        ({"intervalMs": 0}, "tasks[0].intervalMs: must be milliseconds"),
        ({"message": None}, "tasks[0].message: must be text that is not blank"),
        ({"message": "  "}, "tasks[0].message: must be text that is not blank"),
        ({"type": "once", "runAt": 1, "isPaused": True}, "once cannot be paused"),
        ({"intervalMs": None}, 'type interval needs "intervalMs"'),
        ({"mesage": "x"}, 'Did you mean "message"?'),
        ({"fallback": "never"}, "tasks[0].fallback"),
        ({"type": "weekly", "time": "9:00", "dayOfWeek": 1}, "tasks[0].time: must be HH:MM"),
        ({"type": "weekly", "time": "09:00", "dayOfWeek": 7}, "tasks[0].dayOfWeek: must be 0 (Sunday) to 6"),
    ],
)
def test_c2_what_is_wrong_names_its_line(cortex: Desk, change: dict[str, Any], said: str) -> None:
    """C2: and changes nothing"""
    wrong = {"tasks": [{**TASKS["tasks"][0], **change}, *TASKS["tasks"][1:]]}
    cortex.path.write_text(json.dumps(wrong, indent=2))
    assert cortex.look() == "invalid"
    assert said in cortex.file.state.message
    assert "line" in cortex.file.state.message
    assert len(cortex.bench.list()) == 4


def test_c7_a_schedules_json_cut_off_at_every_byte(cortex: Desk) -> None:
    """C7: half of it is no JSON"""
    data = cortex.path.read_bytes()
    for length in range(0, len(data.rstrip()), 5):
        cortex.path.write_bytes(data[:length])
        assert cortex.look() in ("invalid", "waits")
    assert len(cortex.bench.list()) == 4
    assert len(cortex.notes()) == 1


def test_the_state_is_kept_for_whoever_asks(tmp_path: Path) -> None:
    assert ConfigFile(tmp_path / "x.yaml").state.state == "unread"


def test_c7_each_fault_has_a_line_of_its_own_in_the_log(bench: Sandbox, tmp_path: Path, caplog: Any) -> None:
    """C7: told once for each content; the note comes when it is done, not before"""
    caplog.set_level("INFO", "matins")
    desk = Desk(bench, tmp_path / "matins.yaml")
    assert desk.look() == "applied"
    assert [record.message for record in caplog.records] == ["matins.yaml hot-reloaded: +6 -0 ~0"]
    caplog.clear()
    desk.change(("when: 5m", "when: 5x"), ("when: every day at 9am", "when: evry day"))
    assert [desk.look(), desk.look()] == ["invalid", "invalid"]
    assert [record.message.partition(": ")[0] for record in caplog.records] == [
        f"{desk.path}, line 6, column 11",
        f"{desk.path}, line 11, column 11",
    ]


def test_c2_what_the_file_says_is_changed_there(cortex: Desk) -> None:
    """C2: it has no setting that would let changes be written there"""
    with pytest.raises(ManagedByFile) as refused:
        cortex.bench.edit("e4c91a03", prompt="Something else")
    assert refused.value.hint == "Edit the file."
