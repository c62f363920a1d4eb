"""One action on many schedules: what it changes, skips and refuses, on both dialects."""

from __future__ import annotations

from pathlib import Path

import every_store
import pytest
from file_steps import Desk

from matins.errors import InvalidInput, NotAllowed, NotFound, Stale
from matins.model.access import Principal
from matins.testing import Sandbox

postgres_server, postgres_url = every_store.postgres_server, every_store.postgres_url
url = every_store.each_dialect
bench, in_memory = every_store.bench, every_store.in_memory
SCOUT, VIEWER = Principal("agent", "scout"), Principal("viewer", "eve")


def fill(bench: Sandbox, count: int = 3) -> None:
    bench.add_many(
        [{"name": f"s{n}", "when": "0 9 * * *", "job": "work", "labels": {"team": "ops"}} for n in range(count)]
    )
    bench.add("other", when="0 9 * * *", job="work")


def states(bench: Sandbox) -> dict[str, str]:
    return {one.name: one.state for one in bench.list(limit=1000)}


def test_more_than_one_transaction(bench: Sandbox) -> None:
    """B20 V4 B12: all of them, once, with one note and one story"""
    fill(bench, 250)
    done = bench.bulk.apply("pause", "label.team=ops", note="database migration")
    assert (done.total, len(done.schedules), done.skipped) == (250, 250, [])
    assert set(states(bench).values()) == {"paused", "active"}
    assert states(bench)["other"] == "active"
    assert bench.get("s249").note == "database migration"
    assert [len(pause.schedules) for pause in bench.pauses()] == [250]
    assert bench.bulk.apply("resume", f"pause={done.id}").total == 250
    assert bench.pauses() == []


def test_what_came_since_the_preview(bench: Sandbox) -> None:
    """B20: Nothing is done, and the names of what came are told"""
    fill(bench)
    expect = bench.bulk.preview("pause", "label.team=ops").digest
    bench.clock.advance(1_000)
    bench.add("late", when="0 9 * * *", job="work", labels={"team": "ops"})
    with pytest.raises(Stale, match="1 more schedule matches now: late"):
        bench.bulk.apply("pause", "label.team=ops", expect=expect)
    bench.delete("late")
    bench.delete("s1")
    with pytest.raises(Stale, match="1 schedule matches no more"):
        bench.bulk.apply("pause", "label.team=ops", expect=expect)
    bench.add("s4", when="0 9 * * *", job="work", labels={"team": "ops"})
    with pytest.raises(Stale, match="Other schedules match now"):
        bench.bulk.apply("pause", "label.team=ops", expect=expect)
    assert "paused" not in states(bench).values()


def test_run_edit_and_delete(bench: Sandbox) -> None:
    """B20: What cannot be done with one is skipped with its reason, and the others are done"""
    fill(bench)
    bench.acting_as(SCOUT).add("made", when="0 13 * * *", job="work")
    started = bench.bulk.apply("run", "all")
    assert started.schedules == ["s0", "s1", "s2", "other"]
    assert [(one.schedule, one.reason) for one in started.skipped] == [("scout/made", '"made" is pending.')]
    bench.run_until("2026-03-27T08:01:00Z")
    assert len(bench.runs.list(state="succeeded")) == 4
    changed = bench.bulk.apply("edit", "label.team=ops", settings={"retries": 2, "labels": {"team": "dev"}})
    assert changed.total == 3
    assert bench.get("s0").settings["retries"] == 2
    assert bench.counts(select="label.team=dev").all == 3
    assert bench.bulk.apply("delete", "label.team=dev").schedules == ["s0", "s1", "s2"]
    assert set(states(bench)) == {"other", "made"}


def test_agents_select_what_they_made(bench: Sandbox) -> None:
    """B20 B7: neither a preview nor an action reaches anything else, and nobody without the right acts"""
    fill(bench)
    scout = bench.acting_as(SCOUT)
    scout.add("made", when="0 13 * * *", job="work")
    assert scout.bulk.preview("delete", "all").schedules == ["scout/made"]
    with pytest.raises(NotFound):
        scout.bulk.apply("delete", "label.team=ops")
    assert scout.bulk.apply("delete", "all").total == 1
    assert set(states(bench)) == {"s0", "s1", "s2", "other"}
    with pytest.raises(NotAllowed):
        bench.acting_as(VIEWER).bulk.apply("pause", "all")
    assert bench.acting_as(VIEWER).bulk.preview("pause", "all").total == 4


def test_what_is_refused(in_memory: Sandbox) -> None:
    """B20"""
    fill(in_memory)
    apply = in_memory.bulk.apply
    for arguments, field in (
        ({"do": "run", "select": "all", "until": "2026-04-01T00:00:00Z"}, "until"),
        ({"do": "pause", "select": "all", "until": "2026-01-01T00:00:00Z"}, "until"),
        ({"do": "edit", "select": "all"}, "settings"),
        ({"do": "pause", "select": "all", "settings": {"retries": 1}}, "settings"),
        ({"do": "stop", "select": "all"}, "do"),
    ):
        with pytest.raises(InvalidInput) as caught:
            apply(**arguments)  # type: ignore[arg-type]
        assert caught.value.field == field
    with pytest.raises(NotFound, match=r"No schedule matches: agent=nobody label.team=ops. None has agent=nobody."):
        apply("pause", "agent=nobody label.team=ops")
    (skipped,) = apply("edit", "s0", settings={"retries": 1000}).skipped
    assert "retries" in skipped.reason
    assert "paused" not in states(in_memory).values()


FILE = """schedules:
  fixed: {when: every day at 9am, job: work, labels: {team: ops}}
"""


def test_schedules_of_the_file(in_memory: Sandbox, tmp_path: Path) -> None:
    """B20: Pausing works; what the file would have to say is skipped with its line, or written back"""
    bench, desk = in_memory, Desk(in_memory, tmp_path / "matins.yaml", FILE)
    desk.look()
    bench.add("free", when="0 9 * * *", job="work", labels={"team": "ops"})
    assert bench.bulk.apply("pause", "label.team=ops").total == 2
    gone = bench.bulk.apply("delete", "label.team=ops")
    assert gone.schedules == ["free"]
    assert [one.schedule for one in gone.skipped] == ["fixed"]
    assert "is managed by" in gone.skipped[0].reason
    assert "line 2" in gone.skipped[0].reason
    desk.write(f"edits: write_back\n{FILE}")
    desk.look()
    assert bench.bulk.apply("delete", "label.team=ops").schedules == ["fixed"]
    assert "fixed" not in desk.path.read_text()


# -- many runs


def test_runs_of_a_team(bench: Sandbox) -> None:
    """B20 B12 V4: what failed is retried, what waits is cancelled, once and with one story; others stay as they are"""
    bench.add_many(
        [{"name": f"s{n}", "when": "0 9 * * *", "job": job, "labels": {"team": "ops"}}
         for n, job in enumerate(("fail", "fail", "work"))]
    )  # fmt: skip
    bench.add("other", when="0 9 * * *", job="fail")
    for name in ("s0", "s1", "s2", "other"):
        bench.run(name)
    bench.settle()
    preview = bench.runs.preview_bulk("retry", select="label.team=ops")
    assert preview.sentence == "2 failed runs of 2 schedules: s1, s0."
    assert bench.runs.preview_bulk("retry", runs=[one.id for one in bench.runs.list()]).others == 1
    done = bench.runs.bulk("retry", select="label.team=ops", expect=preview.digest)
    assert sorted(bench.runs.get(number).retry_of or "" for number in done.runs) == sorted(preview.runs)
    again = bench.runs.bulk("cancel", select="label.team=ops", note="not now")
    assert sorted(again.runs) == sorted(done.runs)
    assert {bench.runs.get(number).state for number in again.runs} == {"cancelled"}
    with pytest.raises(NotFound, match=r"No run to cancel. Looked for: select label.team=ops."):
        bench.runs.bulk("cancel", select="label.team=ops")
    story = [(one.type, one.data["do"]) for one in bench.events.list(limit=100) if one.type.startswith("bulk.")]
    assert story == [(kind, do) for do in ("retry runs", "cancel runs") for kind in ("bulk.started", "bulk.done")]


def test_many_runs_that_are_refused(in_memory: Sandbox) -> None:
    """B20 B7: an agent reaches only runs of what it made; a choice that changed since, or is none, changes nothing"""
    in_memory.add("s", when="0 9 * * *", job="work")
    run = in_memory.run("s")
    with pytest.raises(NotFound):
        in_memory.acting_as(SCOUT).runs.bulk("cancel", select="all")
    with pytest.raises(NotAllowed):
        in_memory.acting_as(VIEWER).runs.bulk("cancel", select="all")
    expect = in_memory.runs.preview_bulk("cancel", select="all").digest
    in_memory.add("t", when="0 9 * * *", job="work")
    in_memory.run("t")
    with pytest.raises(Stale, match="1 more run matches now"):
        in_memory.runs.bulk("cancel", select="all", expect=expect)
    for arguments, field in (
        ({}, "select"), ({"runs": [run.id], "state": "failed"}, "runs"), ({"runs": "all"}, "runs"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput) as caught:
            in_memory.runs.bulk("cancel", **arguments)
        assert caught.value.field == field
    with pytest.raises(InvalidInput, match='"note" is for cancel'):
        in_memory.runs.bulk("retry", select="all", note="why")
    assert in_memory.runs.get(run.id).live
