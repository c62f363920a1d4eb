"""The commands of docs/import.md run, on the files that the page shows or names."""

from __future__ import annotations

import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "import.md"


def files(folder: Path, text: str) -> None:
    (found,) = re.findall(r"```crontab\n(.*?)```", text, re.DOTALL)
    (folder / "my-crontab").write_text(found)
    task = {"id": "d6f1bb1e", "type": "interval", "message": "Look", "profile": "claude-haiku", "intervalMs": 30_000}
    (folder / "schedules.json").write_text(json.dumps({"tasks": [task]}))
    mission = {"id": "m", "status": "recurring", "schedule": "0 2 * * *", "tasks": [{"title": "T", "assignTo": "a"}]}
    (folder / "missions.json").write_text(json.dumps([mission]))
    (folder / "herdctl.yaml").write_text("name: keeper\nschedules: {check: {type: interval, interval: 5m}}\n")
    row = {"schedule_id": "s1", "name": "Poll", "type": "interval", "spec": "30", "payload": "{}"}
    (folder / "syris.json").write_text(json.dumps([row]))
    (folder / "units").mkdir()
    (folder / "units" / "tidy.timer").write_text("[Timer]\nOnCalendar=Mon..Fri 07:00\n")
    (folder / "units" / "tidy.service").write_text("[Service]\nType=oneshot\nExecStart=/bin/true\n")
    workflows = folder / "garden" / ".github" / "workflows"
    workflows.mkdir(parents=True)
    (workflows / "ci.yml").write_text("on: {workflow_dispatch: {}, schedule: [{cron: '0 5 * * *'}]}\n")
    with closing(sqlite3.connect(folder / "corvid.db")) as database:
        database.execute("CREATE TABLE agent_schedules (id, name, agent_id, cron_expression, interval_ms, actions)")
        actions = '[{"type": "star_repo", "repos": ["a/b"]}]'
        values = ("5b1f", "Stars", "magpie", "0 9 * * *", None, actions)
        database.execute("INSERT INTO agent_schedules VALUES (?, ?, ?, ?, ?, ?)", values)
        database.commit()


def test_b11_the_commands_of_the_page(tmp_path: Path) -> None:
    """B11"""
    text = PAGE.read_text(encoding="utf-8")
    files(tmp_path, text)
    commands = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    summaries: list[str] = []
    for command in commands:
        words = [sys.executable, "-m", "matins", "--home", str(tmp_path / "home"), *shlex.split(command)[1:]]
        words += ["--isolation", "none"] if os.geteuid() == 0 and words[5] == "import" else []
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, (command, done.stderr)
        summaries.append(done.stdout.splitlines()[-1])
    assert summaries == [
        "To import from crontab: +2 ~0 =0",
        "Imported from crontab: +2 ~0 =0",
        "To import from systemd: +1 ~0 =0",
        "Imported from systemd: +1 ~0 =0",
        "To import from github-actions: +1 ~0 =0",
        "To import from polpo: +2 ~0 =0",
        "To import from cortex: +2 ~0 =0",
        "To import from herdctl: +2 ~0 =0",
        "To import from corvid: +1 ~0 =0",
        "To import from syris: +1 ~0 =0",
    ]
