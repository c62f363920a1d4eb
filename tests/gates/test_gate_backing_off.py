"""A schedule that fails again and again tries less often, on every store, with a clock that the test moves. Row B8."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from gate_records import START, at, evidence, lines, moment

import postgres_fixtures
from matins.engine.gates import Facts, touched_gates
from matins.engine.gates.state import Failures
from matins.engine.planning import Timetable
from matins.engine.schedules import parse_schedule
from matins.engine.when.durations import DAY_MS
from matins.errors import InvalidInput
from matins.executors.job_context import JobContext
from matins.model.run import RunState
from matins.testing import Sandbox, instant, iso

url = postgres_fixtures.kept_url
NOW = instant(START)


@pytest.fixture
def agent(bench: Sandbox) -> dict[str, bool]:
    """The job "wake" fails while its tool is missing."""
    tool = {"missing": True}

    @bench.job("wake")
    def wake(run: JobContext) -> None:
        if tool["missing"]:
            raise FileNotFoundError("claude is not installed")

    return tool


def counts(bench: Sandbox) -> Counter[str]:
    return Counter(run.reason or run.status for run in bench.all_runs("s"))


def failures(bench: Sandbox) -> list[str]:
    return [line.split()[0] for line in lines(bench) if line.endswith("failed")]


def test_each_failure_doubles_the_wait(bench: Sandbox, agent: dict[str, bool]) -> None:
    """B8: the third failure in a row is the first that makes it wait; every slot still has its record"""
    bench.add("s", when="* * * * *", job="wake")
    bench.run_until(at("08:31"))
    assert failures(bench) == ["08:01", "08:02", "08:03", "08:05", "08:09", "08:17"]
    assert counts(bench) == {"failed": 6, "backing_off": 25}
    assert evidence(bench) == {"failures": 6, "until": int(moment("08:33").timestamp() * 1000)}


def test_a_second_by_second_schedule(bench: Sandbox, agent: dict[str, bool]) -> None:
    """B8: instead of a failure in each second"""
    bench.add("s", when="1s", anchor="start", job="wake")
    bench.run_until(at("08:04:00"))
    assert counts(bench)["failed"] == 9
    assert sum(counts(bench).values()) == 240


@pytest.mark.parametrize("anchor", ["completion", "grid"])
def test_intervals_back_off_too(bench: Sandbox, agent: dict[str, bool], anchor: Any) -> None:
    """B8"""
    bench.add("s", when="1m", anchor=anchor, job="wake")
    bench.run_until(at("08:31"))
    assert 5 <= counts(bench)["failed"] <= 6
    agent["missing"] = False
    bench.run_until(at("09:00"))
    assert counts(bench)["succeeded"] > 20


def test_an_hour_is_the_longest_wait(bench: Sandbox, agent: dict[str, bool]) -> None:
    """B8"""
    bench.add("s", when="*/10 * * * *", job="wake")
    bench.run_until(at("16:00"))
    assert failures(bench)[:4] == ["08:10", "08:20", "08:30", "08:50"]
    assert failures(bench)[4:] == ["09:30", "10:30", "11:30", "12:30", "13:30", "14:30", "15:30"]


def test_a_schedule_of_an_hour_or_more_never_waits(bench: Sandbox, agent: dict[str, bool]) -> None:
    """B8"""
    bench.add("s", when="0 * * * *", job="wake")
    bench.run_until(at("15:30"))
    assert counts(bench) == {"failed": 7}


def test_a_success_ends_it(bench: Sandbox, agent: dict[str, bool]) -> None:
    """B8: also a run that a person starts, which never waits"""
    bench.add("s", when="* * * * *", job="wake")
    bench.run_until(at("08:12"))
    agent["missing"] = False
    bench.run("s")
    bench.settle()
    bench.run_until(at("08:14"))
    assert lines(bench)[-4:] == ["08:12 skipped backing_off", "manual succeeded", "08:13 succeeded", "08:14 succeeded"]
    agent["missing"] = True
    bench.run_until(at("08:18"))
    assert failures(bench)[-3:] == ["08:15", "08:16", "08:17"]
    assert lines(bench)[-1] == "08:18 skipped backing_off"


def test_a_success_at_its_own_time_ends_it(bench: Sandbox, agent: dict[str, bool]) -> None:
    """B8"""
    bench.add("s", when="* * * * *", job="wake")
    bench.run_until(at("08:04"))
    agent["missing"] = False
    bench.run_until(at("08:07"))
    assert lines(bench)[3:] == ["08:04 skipped backing_off", "08:05 succeeded", "08:06 succeeded", "08:07 succeeded"]
    assert bench.get("s").failures == 0


@pytest.mark.parametrize("act", ["edit", "pause"])
def test_a_change_of_the_schedule_is_a_new_start(bench: Sandbox, agent: dict[str, bool], act: str) -> None:
    """B8: whoever changes or resumes it wants to see it run; the failures still count"""
    bench.add("s", when="* * * * *", job="wake")
    bench.run_until(at("08:10"))
    if act == "edit":
        bench.edit("s", description="The tool is there now")
    else:
        bench.pause("s")
        bench.resume("s")
    bench.run_until(at("08:12"))
    assert lines(bench)[-2:] == ["08:11 failed", "08:12 skipped backing_off"]
    assert bench.get("s").failures == 6


def test_it_can_be_switched_off(bench: Sandbox, agent: dict[str, bool]) -> None:
    """B8"""
    bench.add("s", when="* * * * *", job="wake", failure_backoff="none")
    bench.run_until(at("08:20"))
    assert counts(bench) == {"failed": 20}
    with pytest.raises(InvalidInput, match="failure_backoff"):
        bench.edit("s", failure_backoff="linear")  # type: ignore[arg-type]


def test_it_is_explained_and_foreseen(bench: Sandbox, agent: dict[str, bool]) -> None:
    """B8"""
    bench.add("s", when="* * * * *", job="wake")
    bench.run_until(at("08:03:30"))
    report = next(report for report in bench.why("s").now if report.gate == "backing_off")
    assert (report.passes, report.sentence) == (
        False,
        "Would be skipped: the last 3 runs failed; the next try is after 08:05 UTC.",
    )
    seen = bench.preview("s", count=3).slots
    assert [slot.verdict for slot in seen] == ["skipped", "runs", "runs"]
    assert seen[0].sentence == "Will be skipped: the last 3 runs failed; the next try is after 08:05 UTC."
    assert bench.preview_edit("s", description="x").after.slots[0].verdict == "runs"
    bench.run_until(at("08:04"))
    assert (
        bench.why("s").summary
        == "2026-03-27 08:04 UTC: Skipped: the last 3 runs failed; the next try is after 08:05 UTC."
    )


def test_a_clock_that_was_ahead_holds_nothing_back(bench: Sandbox, agent: dict[str, bool]) -> None:
    """B8: a failure that is still to come says nothing"""
    bench.add("s", when="* * * * *", job="wake")
    bench.run_until(at("08:03:30"))
    bench.clock.step(-DAY_MS)
    bench.run_until(at("08:04", day=26))
    newest = next(run for run in bench.all_runs("s") if run.reason == "failed")
    assert iso(newest.slot) == at("08:04", day=26)


def test_b8_a_day_of_seconds() -> None:
    """B8: a schedule that fires each second and always fails runs some 40 times a day, not 86,400 times"""
    definition, trigger = parse_schedule("1s", {"job": "wake", "anchor": "grid"}, NOW)
    timetable, failed = Timetable(definition, trigger), Failures()
    slot = NOW
    while slot < NOW + DAY_MS:
        until = timetable.backs_off_until(failed, slot)
        facts = Facts(failures=failed.number, backs_off_until=until)
        plan = timetable.plan(1, slot, 0, 0, facts, slot, touched_gates(facts))
        assert plan.next_slot == slot + 1_000
        failed = Failures(failed.number + 1, slot + 300) if plan.runs[0].state is RunState.READY else failed
        slot = plan.next_slot
    assert failed.number == 36
