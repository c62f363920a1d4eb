"""docs/every-day.md: what people type there works, line by line."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from cli_user import User

from matins.executors.job_context import JobContext
from matins.testing import Sandbox

PAGE = Path(__file__).parents[3] / "docs" / "every-day.md"


def test_the_commands_of_the_page(user: User, bench: Sandbox) -> None:
    """B12: a team is paused with a reason and resumed, an edit is undone, the run that said "quota" is found"""
    for name in ("nightly", "report"):
        bench.add(name, when="0 9 * * *", job="work", labels={"team": "ops"})
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 3
    paused, in_force, listed, resumed = (user.says(*shlex.split(line)[1:]) for line in blocks[0].splitlines())
    assert paused.startswith("Paused 2 schedules.")
    assert "database migration" in in_force
    assert len(listed.splitlines()) == 3
    assert resumed == "Resumed 2 schedules.\n"
    changed, history, undone = (user.says(*shlex.split(line)[1:]) for line in blocks[1].splitlines())
    assert "retries" in changed
    assert "retries: 0 → 3" in history
    assert undone.startswith("Changed nightly")
    assert bench.get("nightly").settings.get("retries", 0) == 0

    def quota(run: JobContext) -> None:
        raise ValueError("quota exceeded")

    bench.job("quota")(quota)
    bench.add("asks", when="0 9 * * *", job="quota", retries=0, labels={"team": "ops"})
    bench.run("asks")
    bench.settle()
    bench.outbox.run_once(bench.clock.now_ms())
    searched, listed, grepped = (user.says(*shlex.split(line)[1:]) for line in blocks[2].splitlines())
    assert "asks, run" in searched
    assert "quota exceeded" in searched
    assert "asks" in listed
    assert grepped == "", "a Python job has no output"
