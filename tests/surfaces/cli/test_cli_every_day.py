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
    assert len(blocks) == 10
    said = [[user.says(*shlex.split(line)[1:]) for line in _prepared(bench, block)] for block in blocks]
    paused, in_force, listed, resumed = said[0]
    assert paused.startswith("Paused 2 schedules.")
    assert "database migration" in in_force
    assert len(listed.splitlines()) == 3
    assert resumed == "Resumed 2 schedules.\n"
    assert said[1] == ["Cancelled 1 of 1 run.\n", "Started 1 of 1 run.\n", "Nothing was spent.\n"]
    changed, history, undone = said[2]
    assert "retries" in changed
    assert "retries: 0 → 3" in history
    assert undone.startswith("Changed nightly")
    assert bench.get("nightly-report").settings.get("retries", 0) == 0
    assert said[3][0].startswith("Renamed nightly to nightly-report: ")
    named, of_agent = next(part for part, block in zip(said, blocks, strict=True) if "agents rename" in block)
    assert named == "Renamed the agent scout to rover.\n"
    assert "watch" in of_agent
    _deleted, gone, back = next(part for part, block in zip(said, blocks, strict=True) if "matins undelete" in block)
    assert "report" in gone
    assert back.startswith("Brought back report: ")
    compared, _ = next(part for part, block in zip(said, blocks, strict=True) if "matins diff" in block)
    assert "state: succeeded → failed" in compared

    searched, listed, grepped = next(part for part, block in zip(said, blocks, strict=True) if "matins search" in block)
    assert "asks, run" in searched
    assert "quota exceeded" in searched
    assert "asks" in listed
    assert grepped == "", "a Python job has no output"
    [late] = next(part for part, block in zip(said, blocks, strict=True) if "--late-after" in block)
    assert "slow after: none → auto" in late
    _added, url, sent = next(part for part, block in zip(said, blocks, strict=True) if "matins pings" in block)
    assert url.startswith("/in/p/")
    assert sent.endswith("has its ping.\n")


def _prepared(bench: Sandbox, block: str) -> list[str]:
    """The lines of a block, whose runs are there."""
    if "matins retry" in block:
        bench.add("nightly-copy", when="0 9 * * *", job="fail")
        bench.run("nightly-copy")
        bench.settle()
        bench.run("report")
    if "agents rename" in block:
        bench.agents.set("scout", runner="demo")
        bench.add("watch", when="0 9 * * *", agent="scout", prompt="Look")
    if "matins diff" in block:
        bench.add("flaky", when="0 9 * * *", job="work")
        first = bench.run("flaky")
        bench.settle()
        bench.edit("flaky", job="fail")
        second = bench.run("flaky")
        bench.settle()
        block = block.replace("841", second.id).replace("838", first.id)
    if "matins search" in block:
        bench.job("quota")(_quota)
        bench.add("asks", when="0 9 * * *", job="quota", retries=0, labels={"team": "ops"})
        bench.run("asks")
        bench.settle()
        bench.outbox.run_once(bench.clock.now_ms())
    return block.splitlines()


def _quota(run: JobContext) -> None:
    raise ValueError("quota exceeded")
