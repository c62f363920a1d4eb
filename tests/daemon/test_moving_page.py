"""docs/every-day.md, "Move to PostgreSQL and go on": typed beside a daemon that has something to do."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from house import House

PAGE = Path(__file__).parents[2] / "docs" / "every-day.md"


def test_a_daemon_moves_and_goes_on(house: Callable[..., House], postgres_url: str) -> None:
    """B11: what is on the page, with `--wait` beside a daemon in which a run has to end first."""
    (block,) = re.findall(r"^```shell\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    typed = [shlex.split(line) for line in block.splitlines()]
    preview, move, up = (
        [postgres_url if word.startswith("postgresql:") else word for word in words[1:]] for words in typed
    )
    one = house().up()

    def matins(*words: str) -> subprocess.Popen[str]:
        pipe: Any = subprocess.PIPE
        argv = [sys.executable, "-m", "matins", *words]
        return subprocess.Popen(argv, env=one.environment, stdout=pipe, stderr=pipe, text=True)

    one.ask(
        "schedules.add",
        name="slow",
        when="every day at 9am",
        command=f"while [ ! -e {one.home}/go ]; do sleep 0.05; done",
    )
    run = one.ask("schedules.run", name="slow")["id"]
    waiting = matins(*move, "--wait")
    assert waiting.stderr is not None
    assert waiting.stderr.readline().startswith("Waiting for 1 run of ")
    node = one.ask("nodes.list")[0]
    assert (node["state"], node["note"].partition(":")[0]) == ("cordoned", "moving to postgresql")
    refused = matins(*preview)  # without --wait
    _, said = refused.communicate()
    assert refused.returncode == 1
    assert "An engine runs on" in said
    assert "--wait" in said
    (one.home / "go").touch()
    assert f"kill {one.process.pid}" in waiting.stderr.readline()
    assert one.stop() == 0
    moved, said = waiting.communicate()
    assert waiting.returncode == 0, said
    assert moved.startswith("Moved to postgresql://")
    assert "Compared: " in said

    left = house()
    assert left.ended() == 1
    assert any("This store moved to postgresql://" in line for line in left.log)
    assert up[:2] == ["up", "--store"]
    two = house(*up[1:]).up()
    found = two.ask("runs.get", run_id=str(run))
    assert (found["id"], found["state"]) == (run, "succeeded")
    assert two.ask("nodes.list")[0]["state"] == "open"
    assert two.ask("schedules.run", name="slow")["id"] != run
