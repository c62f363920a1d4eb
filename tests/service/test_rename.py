"""Another name for a schedule: everything that holds it follows, and nothing else changes, on both dialects."""

from __future__ import annotations

from pathlib import Path

import every_store
import pytest
from file_steps import Desk

from matins.errors import Conflict, ManagedByFile, NotAllowed, NotFound
from matins.model.access import Principal
from matins.testing import Sandbox

postgres_server, postgres_url = every_store.postgres_server, every_store.postgres_url
url = every_store.each_dialect
bench, in_memory = every_store.bench, every_store.in_memory
SCOUT = Principal("agent", "scout")


def test_what_holds_the_name(bench: Sandbox) -> None:
    """B20 V12 B11: followers, budgets and what was spent have the new name; id, times, jitter and frozen H stay"""
    bench.budgets.set("nights", scope="schedule", of="/nightly", period="day", max_cost="$5")
    bench.budgets.set("each", scope="schedule", period="day", max_cost="$5")
    bench.add("nightly", when="H H * * *", job="pay", jitter=5, max_cost="$1")
    bench.add("after", when="after nightly succeeds", job="work")
    bench.run("nightly")
    bench.settle()
    before = bench.get("nightly")
    renamed = bench.rename("nightly", "nightly-report")
    assert (renamed.id, renamed.rev, renamed.next_run_at, renamed.due_at, renamed.trigger) == (
        before.id, before.rev + 1, before.next_run_at, before.due_at, before.trigger,
    )  # fmt: skip
    assert renamed.notes == ["Renamed in 1 schedule that follow it."]
    assert bench.get("after").settings["on"] == {"schedule": "nightly-report", "outcome": "success"}
    assert bench.budgets.get("nights").of == "/nightly-report"
    assert [one.money for name in ("nights", "each") for one in bench.budgets.get(name).usage] == ["$0.10", "$0.10"]
    assert [(one.setting, one.before, one.after) for one in bench.history("nightly-report")[0].settings] == [
        ("name", "nightly", "nightly-report")
    ]
    assert bench.runs.list(schedule="nightly-report")[0].schedule == "nightly-report"
    with bench._store.reading() as transaction:
        assert transaction.listeners("schedule", "nightly-report", "") == [int(bench.get("after").id)]
    assert bench.edit("nightly-report", retries=1).trigger == before.trigger
    with pytest.raises(NotFound, match=r'no schedule "nightly". It was renamed to "nightly-report" on 27 Mar\.'):
        bench.get("nightly")
    bench.rename("nightly-report", "nightly")
    assert bench.get("nightly").id == before.id


def test_approvals(bench: Sandbox) -> None:
    """B20 S4 V12: a run that waits keeps its request, and runs once it is approved; a proposal is requested again"""
    bench.add("asks", when="0 9 * * *", job="work", approval="owner_approve")
    run = bench.run("asks")
    bench.settle()
    (asked,) = bench.approvals.list()
    bench.acting_as(SCOUT).add("idea", when="0 9 * * *", job="work")
    (proposed,) = [one for one in bench.approvals.list() if one.kind == "schedule"]
    bench.rename("asks", "asked")
    bench.rename("scout/idea", "plan")
    waiting = {one.schedule: one for one in bench.approvals.list()}
    assert (waiting["asked"].id, waiting["asked"].digest) == (asked.id, asked.digest)
    assert waiting["plan"].id != proposed.id
    assert bench.approvals.get(proposed.id).state == "void"
    bench.approvals.approve(asked.id, digest=asked.digest)
    bench.settle()
    assert bench.runs.get(run.id).state == "succeeded"


def test_what_is_refused(in_memory: Sandbox) -> None:
    """B20"""
    in_memory.add("s", when="0 9 * * *", job="work")
    in_memory.add("t", when="0 9 * * *", job="work")
    with pytest.raises(Conflict, match='There is a schedule "t" already'):
        in_memory.rename("s", "t")
    with pytest.raises(Conflict, match='"s" has this name already'):
        in_memory.rename("s", "s")
    in_memory.acting_as(SCOUT).add("mine", when="0 13 * * *", job="work")
    in_memory.add("follows", when="after scout/mine succeeds", job="work")
    with pytest.raises(NotAllowed, match='"follows" was not made by scout'):
        in_memory.acting_as(SCOUT).rename("mine", "yours")
    assert [one.name for one in in_memory.list()] == ["s", "t", "mine", "follows"]


FILE = """edits: write_back
schedules:
  # the first
  nightly: {when: every day at 9am, job: work}
  after: {when: after nightly succeeds, job: work}
"""


def test_in_the_file(in_memory: Sandbox, tmp_path: Path) -> None:
    """B20 V10: the plan has one line for it, the schedule stays the same one, and a rename is written into the file"""
    bench, desk = in_memory, Desk(in_memory, tmp_path / "matins.yaml", FILE.replace("edits: write_back\n", ""))
    desk.look()
    before = bench.get("nightly").id
    with pytest.raises(ManagedByFile):
        bench.rename("nightly", "report")
    bench.add("free", when="0 9 * * *", job="work")
    desk.write(FILE.replace("nightly", "report"))
    plan = bench.file.plan()
    assert next((one.change, one.name, one.was) for one in plan.entries) == ("changed", "report", "nightly")
    assert (plan.added, plan.removed) == (0, 0)
    desk.look()
    assert bench.get("report").id == before
    assert bench.get("after").settings["on"] == {"schedule": "report", "outcome": "success"}
    desk.write(FILE.replace("  after: {when: after nightly succeeds, job: work}\n", ""))
    desk.look()
    assert bench.rename("nightly", "b 1").id == before
    assert '  # the first\n  "b 1": {when' in desk.path.read_text()
