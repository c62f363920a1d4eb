"""Days of slots and of spending, absences, catching up of all schedules, and pauses of many: on both dialects."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw
import every_store
import pytest

from matins.errors import InvalidInput, NotFound
from matins.testing import ManualClock, Sandbox

postgres_server, postgres_url = every_store.postgres_server, every_store.postgres_url
url = every_store.each_dialect
bench, in_memory = every_store.bench, every_store.in_memory


def test_a_year_of_slots_by_day(bench: Sandbox) -> None:
    """B12: on the schedule's own clock, across the change of the clocks, with what is to come"""
    bench.quiet_hours.set("sundays", windows=["sun 00:00-24:00"], timezone="Europe/Berlin")
    bench.add("s", when="30 */12 * * *", job="work", timezone="Europe/Berlin", quiet_hours="sundays")
    bench.run_until("2026-03-30T21:00:00Z")
    bench.run("s")
    found = bench.calendar("s", until="2026-04-01T22:00:00Z")
    assert found.timezone == "Europe/Berlin"
    assert [(day.day, day.states, day.planned) for day in found.days] == [
        ("2026-03-27", {"succeeded": 1}, 0),
        ("2026-03-28", {"succeeded": 2}, 0),
        ("2026-03-29", {"skipped": 2}, 0),  # the clocks go forward
        ("2026-03-30", {"succeeded": 2, "ready": 1}, 0),
        ("2026-03-31", {}, 2),
        ("2026-04-01", {}, 2),
    ]
    with pytest.raises(InvalidInput) as caught:
        bench.calendar("s", since=0)
    assert caught.value.field == "until"


def test_spending_by_day_agent_and_schedule(bench: Sandbox) -> None:
    """B12 V5: days on which nothing was spent are there too; the days are those of the machine"""
    bench.agents.set("ann", runner="demo")
    bench.add("dear", when="0 */8 * * *", job="pay", agent="ann")
    bench.add("cheap", when="0 9 * * *", job="pay")
    bench.run_until("2026-03-28T10:00:00Z")
    found = bench.system.spend()
    assert (found.cost, found.tokens, found.timezone, len(found.days)) == ("$0.50", 2_500, "Asia/Tokyo", 30)
    assert [(day.day, day.cost, day.runs) for day in found.days[-2:]] == [
        ("2026-03-27", "$0.10", 1), ("2026-03-28", "$0.40", 4),
    ]  # fmt: skip
    assert [(share.name, share.cost, share.share) for share in found.agents] == [
        ("ann", "$0.30", 0.6),
        ("", "$0.20", 0.4),
    ]
    assert [(share.name, share.agent, share.runs) for share in found.schedules] == [
        ("dear", "ann", 3),
        ("cheap", "", 2),
    ]
    assert found.days[-1].share == 1


def test_spending_of_what_a_selector_selects(bench: Sandbox) -> None:
    """B11"""
    bench.add("ops", when="0 */8 * * *", job="pay", labels={"team": "ops"})
    bench.add("web", when="0 9 * * *", job="pay", labels={"team": "web"})
    bench.run_until("2026-03-28T10:00:00Z")
    found = bench.system.spend(select="label.team=ops")
    assert (found.cost, found.tokens, [share.name for share in found.schedules]) == ("$0.30", 1_500, ["ops"])
    assert [(share.name, share.cost) for share in found.agents] == [("", "$0.30")]
    assert sum(day.runs for day in found.days) == 3
    assert bench.system.spend(select="label.team").cost == bench.system.spend().cost == "$0.50"
    bench.delete("ops")
    assert bench.system.spend(select="label.team=ops").cost == "$0.30"  # what was deleted has spent it all the same
    assert bench.system.spend(select="nobody-*").schedules == []


def test_what_a_start_would_do_after_an_absence(bench: Sandbox) -> None:
    """B5: for all schedules at once, and then it does so"""
    bench.add("once", when="0 * * * *", job="pay", catch_up="run_once")
    bench.add("all", when="0 */2 * * *", job="work", catch_up="run_all_capped", catch_up_limit=2)
    bench.add("none", when="30 * * * *", job="work", catch_up="skip")
    bench.add("rests", when="30 * * * *", job="work")
    bench.pause("rests")
    bench.run_until("2026-03-27T09:10:00Z")
    bench.clock.advance_to("2026-03-27T16:10:00Z")
    found = bench.preview_catch_up_all()
    assert {item.schedule: (item.runs, item.missed) for item in found.schedules} == {
        "once": (1, 0), "all": (3, 1), "none": (0, 7),  # the slot of 16:00 is in time
    }  # fmt: skip
    assert (found.runs, found.missed, found.cost, found.omitted) == (4, 8, "$0.10", 0)
    assert found.summary == "3 schedules: 4 runs would start, 8 slots would be missed."
    assert found.runs == sum(bench.preview_catch_up(name).runs for name in ("once", "all", "none"))
    bench.run_until("2026-03-27T16:20:00Z")
    states = [run.state for run in bench.runs.list(since="2026-03-27T16:00:00Z")]
    assert states.count("succeeded") == 4
    assert bench.preview_catch_up_all().summary == "Nothing is overdue."
    assert bench.preview_catch_up_all(since="2026-03-27T10:10:00Z").runs == 4


def test_a_time_without_an_engine(bench: Sandbox) -> None:
    """B5: while it lasts"""
    bench.run_until("2026-03-27T09:10:00Z")
    assert bench.system.absences() == []
    bench.engine.close()
    bench.clock.advance_to("2026-03-27T12:10:00Z")
    (now,) = bench.system.absences()
    assert (f"{now.start:%H:%M}", now.end, now.duration_ms) == ("09:10", None, 3 * 3_600_000)


@pytest.mark.parametrize("killed", [False, True])
def test_a_past_time_without_an_engine(tmp_path: Path, killed: bool) -> None:
    """B5: with what became of its slots; an engine that was killed was last there at its last record"""
    clock, path = ManualClock("2026-03-27T08:00:00Z"), tmp_path / "matins.db"
    with closing(started(path, clock)) as first:
        first.add("missed", when="0 * * * *", job="work", catch_up="skip")
        first.add("caught-up", when="45 * * * *", job="work", catch_up="run_once")
        first.run_until("2026-03-27T09:10:00Z")
        first.engine.close()
    if killed:
        with closing(apsw.Connection(str(path))) as connection:
            connection.execute("UPDATE workers SET stopped_at = NULL")
    clock.advance_to("2026-03-27T12:30:00Z")
    with closing(started(path, clock)) as second:
        second.run_until("2026-03-27T12:50:00Z")
        (away,) = second.system.absences()
    assert f"{away.start:%H:%M} {away.end:%H:%M}" == ("09:00 12:30" if killed else "09:10 12:30")
    assert (away.missed, away.ran) == (2, 4)  # the slot of 12:00 was within its grace


def started(path: Path, clock: ManualClock) -> Sandbox:
    made = Sandbox(f"sqlite:///{path}", clock=clock)
    made.job("work")(lambda run: None)
    return made


def test_pausing_many_and_resuming_just_those(bench: Sandbox) -> None:
    """B13 V4: what was paused before stays paused, and what somebody resumed or paused since is left alone"""
    for name in ("a", "b", "c", "d"):
        bench.add(name, when="0 9 * * *", job="work", agent="ann" if name == "d" else "")
    bench.pause("a", note="my own")
    preview = bench.bulk.preview("pause", "all")
    assert preview.sentence == ("3 active schedules of 2 agents: b, c … and 1 more. 1 is paused already and stays so.")
    paused = bench.bulk.apply(
        "pause", "all", expect=preview.digest, note="the office is closed", until="2026-04-01T00:00:00Z"
    )
    assert (paused.schedules, paused.already) == (["b", "c", "ann/d"], 1)
    (in_force,) = bench.pauses()
    assert (in_force.id, in_force.note, in_force.by) == (paused.id, "the office is closed", "owner")
    assert [schedule.state for schedule in bench.list()] == ["paused"] * 4
    assert {bench.get(name).note for name in ("b", "c", "d")} == {"the office is closed"}
    bench.resume("b")
    bench.pause("b", note="again")
    assert bench.pauses()[0].schedules == ["c", "ann/d"]
    assert bench.bulk.apply("resume", f"pause={paused.id}").schedules == ["c", "ann/d"]
    assert [(one.name, one.state, one.note) for one in bench.list()] == [
        ("a", "paused", "my own"), ("b", "paused", "again"), ("c", "active", None), ("d", "active", None),
    ]  # fmt: skip
    kinds = [event.type for event in bench.events.list(limit=100)]
    assert (kinds.count("schedule.paused"), kinds.count("schedule.resumed")) == (5, 3)
    story = [event for event in bench.events.list(limit=100) if event.type.startswith("bulk.")]
    assert [(one.type, one.data["do"], one.data.get("total"), one.data.get("changed")) for one in story] == [
        ("bulk.started", "pause", 3, None), ("bulk.done", "pause", None, 3),
        ("bulk.started", "resume", 2, None), ("bulk.done", "resume", None, 2),
    ]  # fmt: skip
    with pytest.raises(NotFound, match="No schedule is paused by"):
        bench.bulk.apply("resume", f"pause={paused.id}")
    assert bench.bulk.apply("pause", "agent=ann").schedules == ["ann/d"]
    with pytest.raises(NotFound, match="Nothing to pause: 1 already paused"):
        bench.bulk.apply("pause", "agent=ann")
    with pytest.raises(NotFound, match="No schedule matches: nobody"):
        bench.bulk.apply("pause", "nobody")
