"""Runs for past slots: which are made, what they meet, and what they leave as it was."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from benches import Theatre
from matins.api.schedules import Api
from matins.errors import Conflict, InvalidInput, NotAllowed, Stale
from matins.model.access import Principal
from matins.surfaces.transports.in_process import InProcess
from matins.testing import Sandbox, iso

Lines = Callable[..., list[str]]


def at(minute: str) -> str:
    return f"2026-03-27T{minute}:00Z"


def _missed(bench: Sandbox, until: str = "08:30", **settings: Any) -> None:
    """Six slots were missed, by an engine that stood still."""
    bench.add("s", **{"when": "*/5 * * * *", "job": "work", "catch_up": "skip", **settings})
    bench.clock.advance_to(at(until))
    bench.settle()


@pytest.fixture
def act(bench: Sandbox) -> SimpleNamespace:
    """What the job `act` does, which a test changes."""
    doing = SimpleNamespace(do=lambda run: None)
    bench.job("act")(lambda run: doing.do(run))
    return doing


def _made(bench: Sandbox, backfill: str) -> list[str]:
    """What stands for a slot, in the order in which it was made."""
    runs = [run for run in reversed(bench.all_runs("s")) if run.backfill == backfill]
    return [f"{str(iso(run.for_slot))[11:16]} {run.state}" for run in runs]


def test_missed_slots_run_one_after_the_other_and_their_records_stay(
    bench: Sandbox, act: SimpleNamespace, lines: Lines
) -> None:
    """B20 B11"""
    told: list[tuple[Any, Any]] = []
    act.do = lambda run: told.append((iso(run.slot), run.attempt))
    _missed(bench, job="act")
    before = lines(bench, "s")
    seen = bench.backfills.preview("s", start=at("08:05"), end=at("08:30"))
    assert (seen.slots, seen.runs) == (6, 5), seen.groups  # the last one was in time
    made = bench.backfills.create("s", start=at("08:05"), end=at("08:30"), expect=5)
    bench.settle()
    assert [line for line in lines(bench, "s") if not line.startswith("manual")] == before
    assert _made(bench, made.id) == [f"08:{minute} succeeded" for minute in ("05", "10", "15", "20", "25")]
    assert [slot for slot, _ in told][1:] == [at(f"08:{minute}") for minute in ("05", "10", "15", "20", "25")]
    done = bench.backfills.get(made.id)
    assert (done.state, done.made, done.states) == ("done", 5, {"succeeded": 5})
    why = bench.why("s", at=at("08:10"))
    run = next(run.id for run in bench.all_runs("s") if iso(run.for_slot) == at("08:10"))
    assert why.summary.endswith(f"Made up for by run {run}."), why.summary
    with pytest.raises(Conflict, match="No slot is left to run"):  # a second one repeats nothing
        bench.backfills.create("s", start=at("08:05"), end=at("08:30"))
    again = bench.backfills.create("s", start=at("08:00"), end=at("08:30"), which="all", newest_first=True, limit=2)
    bench.settle()
    assert _made(bench, again.id) == ["08:30 succeeded", "08:25 succeeded"]
    assert bench.audit.verify().problems == []


@pytest.mark.parametrize("overlap", ["skip", "queue", "cancel_other"])
def test_a_slot_that_meets_a_backfill_is_queued_and_goes_next(theatre: Theatre, overlap: str, lines: Lines) -> None:
    """B20 B11: never skipped because of it, and neither side starves"""
    _missed(theatre, overlap=overlap, queue_limit=1)
    theatre.end("s")
    made = theatre.backfills.create("s", start=at("08:05"), end=at("08:25")).id
    theatre.settle()
    theatre.run_until(at("08:45"))  # three slots, and the first run of the backfill goes on
    assert _made(theatre, made) == ["08:05 running"]
    assert lines(theatre, "s")[-3:] == [f"08:{minute} queued backfill" for minute in ("35", "40", "45")]
    for minute in ("35", "40", "45"):
        theatre.end("s")
        assert f"08:{minute} running" in lines(theatre, "s"), "the slots go first"
    theatre.end("s")
    assert _made(theatre, made) == ["08:05 succeeded", "08:10 running"]
    theatre.end("s")
    theatre.end("s")
    theatre.end("s")
    theatre.end("s")
    assert theatre.backfills.get(made).state == "done"
    assert not [line for line in lines(theatre, "s") if "skipped" in line]


def test_it_lets_runs_of_others_pass_and_after_a_minute_it_does_not(theatre: Theatre) -> None:
    """B20 B11"""
    theatre.agents.set("ann", runner="message")
    _missed(theatre)
    theatre.end("s")
    theatre.limits.set("global", size=1)
    theatre.add("other", when="in 1s", job="work")
    theatre.add("more", when="in 2s", job="work")
    theatre.run_until(at("08:31"))
    made = theatre.backfills.create("s", start=at("08:05"), end=at("08:10")).id
    theatre.settle()
    assert _made(theatre, made) == []
    theatre.run_until("2026-03-27T08:31:58Z")
    assert _made(theatre, made) == []
    theatre.run_until("2026-03-27T08:32:02Z")
    assert _made(theatre, made) == ["08:05 ready"]
    theatre.end("other")
    assert theatre.stage.names() == ["more"], "first come, first served"
    theatre.end("more")
    assert _made(theatre, made) == ["08:05 running"]


def test_failures_in_a_row_pause_it_and_not_its_schedule(bench: Sandbox, act: SimpleNamespace) -> None:
    """B20 B11"""
    _missed(bench, job="act")
    act.do = _fails
    bench.edit("s", pause_after_failures=2)
    made = bench.backfills.create("s", start=at("08:05"), end=at("08:25")).id
    bench.settle()
    found = bench.backfills.get(made)
    assert (found.state, found.reason, found.states) == ("paused", "failures", {"failed": 2})
    assert bench.get("s").state == "active"
    assert bench.events.list(types=["backfill.paused"])[0].data["reason"] == "failures"
    act.do = lambda run: None
    assert bench.backfills.resume(made).state == "running"
    bench.settle()
    assert bench.backfills.get(made).states == {"failed": 2, "succeeded": 3}
    seen = bench.backfills.preview("s", start=at("08:05"), end=at("08:25"), which="failed")
    assert {(group.state, group.slots, group.runs) for group in seen.groups} == {
        ("failed", 2, True), ("succeeded", 3, False)
    }  # fmt: skip


def _fails(run: object) -> None:
    raise ValueError("no luck")


def test_pause_resume_and_cancel(theatre: Theatre) -> None:
    """B20 B11: with the schedule, by a person, and at once"""
    _missed(theatre)
    theatre.end("s")
    made = theatre.backfills.create("s", start=at("08:05"), end=at("08:25")).id
    theatre.settle()
    theatre.pause("s")
    assert theatre.backfills.get(made).reason == "schedule"
    theatre.end("s")
    assert len(_made(theatre, made)) == 1
    theatre.resume("s")
    theatre.settle()
    assert _made(theatre, made)[1:] == ["08:10 running"]
    theatre.backfills.pause(made)
    theatre.end("s")
    assert theatre.backfills.get(made).sentence == "Paused: paused by owner; 2 of 5 runs over."
    theatre.backfills.resume(made)
    theatre.settle()
    over = theatre.backfills.cancel(made)
    assert over.state == "cancelled"
    assert [event.type for event in theatre.events.list(types=["run.cancelling"])] == ["run.cancelling"]
    theatre.end("s", cancelled=True)
    with pytest.raises(Conflict, match="is over: cancelled"):
        theatre.backfills.resume(made)
    again = theatre.backfills.create("s", start=at("08:20"), end=at("08:25")).id
    theatre.delete("s")
    assert theatre.backfills.get(again).state == "cancelled"


def test_a_paused_schedule_can_be_backfilled(bench: Sandbox) -> None:
    """B20 B11"""
    _missed(bench)
    bench.pause("s")
    assert (
        "The schedule is paused. The backfill runs all the same."
        in bench.backfills.preview("s", start=at("08:05"), end=at("08:25")).notes
    )
    made = bench.backfills.create("s", start=at("08:05"), end=at("08:25")).id
    bench.settle()
    assert bench.backfills.get(made).states == {"succeeded": 5}
    assert bench.get("s").state == "paused"


def test_quiet_hours_and_a_missing_engine_defer_it(bench: Sandbox) -> None:
    """B20 B11"""
    _missed(bench)
    bench.quiet_hours.set("nights", windows=["08:25-09:00"], timezone="UTC")
    bench.edit("s", quiet_hours="nights")
    made = bench.backfills.create("s", start=at("08:05"), end=at("08:15")).id
    bench.run_until(at("08:59"))
    assert _made(bench, made) == []
    bench.run_until(at("09:00"))
    assert bench.backfills.get(made).state == "done"
    assert len(_made(bench, made)) == 3


def test_runs_at_once_where_they_may_overlap(theatre: Theatre) -> None:
    """B20 B11"""
    _missed(theatre, overlap="allow")
    made = theatre.backfills.create("s", start=at("08:05"), end=at("08:25"), max_parallel=3).id
    theatre.settle()
    assert len(_made(theatre, made)) == 3
    theatre.end("s")
    theatre.end("s")
    assert len(_made(theatre, made)) == 4


def test_a_run_for_a_past_slot(bench: Sandbox, act: SimpleNamespace) -> None:
    """B20 B11: by hand, and as a retry"""
    told: list[Any] = []
    act.do = lambda run: told.append(iso(run.slot))
    _missed(bench, job="act")
    run = bench.run("s", slot="2026-03-27T08:10")
    bench.settle()
    assert (iso(run.for_slot), run.slot, told[-1]) == (at("08:10"), None, at("08:10"))
    assert bench.backfills.preview("s", start=at("08:10"), end=at("08:10")).runs == 0
    act.do = _fails
    bench.run_until(at("08:35"))
    failed = bench.all_runs("s")[0]
    act.do = lambda run: told.append(iso(run.slot))
    bench.runs.retry(failed.id)
    bench.settle()
    assert told[-1] == at("08:35")
    with pytest.raises(InvalidInput, match=r"has no slot at .*08:11") as wrong:
        bench.run("s", slot="2026-03-27T08:11")
    assert "08:10" in str(wrong.value.hint)
    with pytest.raises(InvalidInput, match="is to come"):
        bench.run("s", slot="2026-03-28")


def test_what_is_refused_says_why(bench: Sandbox) -> None:
    """B20 B11"""
    _missed(bench)
    bench.add("ticks", when="7m", job="work")
    bench.add("busy", when="* * * * *", job="work")
    create = bench.backfills.create
    for error, said, call in (
        (Conflict, "Intervals that count from the last run have no times in the past.",
         lambda: create("ticks", start=at("08:00"), end=at("08:30"))),
        (InvalidInput, '"end" is before "start".', lambda: create("s", start=at("08:20"), end=at("08:00"))),
        (Conflict, '"s" has no past slot in this time.', lambda: create("s", start=at("08:06"), end=at("08:07"))),
        (InvalidInput, "without a limit, a backfill has at most 1,000",
         lambda: create("busy", start="2026-03-20", end="2026-03-25")),
        (Conflict, 'Several runs at once need "overlap: allow"; "s" has "skip".',
         lambda: create("s", start=at("08:00"), end=at("08:30"), max_parallel=2)),
        (Stale, "It would be 5 runs now, not 4.", lambda: create("s", start=at("08:05"), end=at("08:30"), expect=4)),
        (InvalidInput, '"start" is not an instant', lambda: create("s", start="yesterday", end=at("08:30"))),
    ):  # fmt: skip
        with pytest.raises(error) as refused:
            call()
        assert said in refused.value.message
    agent = Api(InProcess(bench._service, Principal("agent", "ann")))
    assert agent.backfills.preview("s", start=at("08:05"), end=at("08:30")).runs == 5
    with pytest.raises(NotAllowed, match='The role "agent" cannot create backfills'):
        agent.backfills.create("s", start=at("08:00"), end=at("08:30"))
