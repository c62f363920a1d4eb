"""Cortex's dispatch types from its own file: what a fire of each does (seeds/cortex). Rows C3, C15."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

from matins import Matins
from matins.executors.registry import installed_jobs
from matins.seeds.cortex.tasks import read_tasks
from matins.testing import ManualClock, Sandbox

NOW = "2026-03-27T08:00:00Z"
ARCHIVE: dict[str, Any] = {
    "id": "e4c91a03", "type": "interval", "message": "Archive completed tasks older than 3 days",
    "channel": "C07ABCDEF", "profile": "claude-haiku", "intervalMs": 21600000, "dispatchType": "task-archive",
}  # fmt: skip
"""The second task of the seed's own file."""
INDEX = {**ARCHIVE, "id": "e4c91a04", "message": "Rebuild the indexes", "dispatchType": "memory-index-regen"}
DISPATCH = {
    "id": "d6f1bb1e", "type": "interval", "message": "Check for new tasks and dispatch if available",
    "channel": "C07ABCDEF", "profile": "claude-haiku", "intervalMs": 30000, "dispatchType": "task-dispatch",
}  # fmt: skip


def write(folder: Path, *tasks: dict[str, Any]) -> Path:
    path = folder / "schedules.json"
    path.write_text(json.dumps({"tasks": tasks}))
    return path


def test_c3_archive_and_index_files(tmp_path: Path) -> None:
    """C3: "Archives completed tasks older than 3 days"; "Rebuilds all experiment/knowledge/pattern index files" """
    folder = tmp_path / "cortex"
    for kind in ("experiments", "knowledge", "patterns"):
        (folder / "memory" / kind).mkdir(parents=True)
        (folder / "memory" / kind / "one.md").write_text(f"# About {kind}\n")
    (folder / "TASKS.yaml").write_text(
        "- {title: Old, id: a, status: done, done_at: 2026-03-24T13:59:59Z}\n"
        "- {title: New, id: b, status: done, done_at: 2026-03-24T14:00:01Z}\n"
    )
    with closing(Sandbox(clock=ManualClock(NOW))) as bench:
        bench.agents.set("claude-haiku", runner="demo", workdir=str(folder))
        assert bench.watch_file(write(tmp_path, ARCHIVE, INDEX)).check().state == "applied"
        bench.run_until("2026-03-27T14:00:00Z")
        runs = {run.schedule: run for run in bench.runs.list()}
        assert {name: run.state for name, run in runs.items()} == {"e4c91a03": "succeeded", "e4c91a04": "succeeded"}
        assert (runs["e4c91a03"].outcome or {})["result"] == "Archived 1 task"
    assert "Old" in (folder / "TASKS.archive.yaml").read_text()
    assert "New" in (folder / "TASKS.yaml").read_text()
    indexes = {path.parent.name: path.read_text() for path in (folder / "memory").rglob("INDEX.md")}
    assert indexes == {kind: f"# {kind.capitalize()}\n\n- [About {kind}](one.md)\n" for kind in sorted(indexes)}
    assert set(indexes) == {"experiments", "knowledge", "patterns"}


def test_c3_task_dispatch_and_the_default_path(tmp_path: Path) -> None:
    """C3: "selects, claims, and dispatches a task from TASKS.yaml"; absent: "sends the message to an agent", with the
    prefix; both by a real agent"""
    (tmp_path / "TASKS.yaml").write_text("- {title: Low, priority: low}\n- {title: Oil the hinges, priority: high}\n")
    plain = {name: value for name, value in DISPATCH.items() if name != "dispatchType"} | {"id": "d6f1bb1f"}
    with closing(Matins(f"sqlite:///{tmp_path}/matins.db")) as m:
        m.agents.set("claude-haiku", runner="shell", command=["cat"], workdir=str(tmp_path))
        assert m.watch_file(write(tmp_path, DISPATCH, plain)).check()
        with m:
            texts = [
                (m.runs.wait(m.run(name).id, timeout=60).outcome or {})["result"]["text"]
                for name in ("d6f1bb1e", "d6f1bb1f")
            ]
            m.agents.set("claude-haiku", runner="demo")
            talked = (m.runs.wait(m.run("d6f1bb1f").id, timeout=60).outcome or {})["result"]["text"]
    assert "Title: Oil the hinges" in texts[0]
    assert "Check for new tasks and dispatch if available" in texts[0]
    assert texts[1] == "Check for new tasks and dispatch if available\n", "a program gets the text alone"
    assert "[Scheduled Task] Check for new tasks and dispatch if available" in talked
    low, high = read_tasks((tmp_path / "TASKS.yaml").read_text()).tasks
    assert (low.status, high.status) == ("open", "done")


def test_c15_the_runners_of_the_seed_are_registered() -> None:
    """C15: "register('scheduled-task', llmRunner); register('task-dispatch', …); register('memory-index-regen', …);
    register('task-archive', …)" """
    assert {"scheduled-task", "task-dispatch", "memory-index-regen", "task-archive"} <= set(installed_jobs())
