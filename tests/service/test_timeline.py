"""The timeline, live runs, what is usual, and where the time of a run went: on every store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import every_store
import pytest

from matins.errors import InvalidInput
from matins.executors.job_context import JobContext
from matins.testing import Sandbox

postgres_server, postgres_url = every_store.postgres_server, every_store.postgres_url
url = every_store.each_dialect
bench, in_memory = every_store.bench, every_store.in_memory


def clock(at: datetime | None) -> str | None:
    return None if at is None else f"{at:%H:%M}"


def lane(found: Any, agent: str = "") -> Any:
    return next(one for one in found.lanes if one.agent == agent)


def day(found: Any) -> Any:
    return lane(found)


def test_records_and_slots_of_each_agent(bench: Sandbox) -> None:
    """B12: what ran is left of now, what will run is right of it, each with why it does not simply run"""
    bench.quiet_hours.set("midday", windows=["12:00-14:00"])
    bench.add("work", when="0 * * * *", job="work", quiet_hours="midday", agent="ann")
    bench.add("fails", when="30 * * * *", job="fail")
    bench.run_until("2026-03-27T13:45:00Z")
    found = bench.timeline(start="2026-03-27T10:50:00Z", end="2026-03-27T15:10:00Z")
    ann = lane(found, "ann")
    assert [(clock(run.at), run.state, run.sentence) for run in ann.runs] == [
        ("11:00", "succeeded", None),
        ("12:00", "skipped", 'Skipped: quiet hours "midday" were active until 14:00 UTC.'),
        ("13:00", "skipped", 'Skipped: quiet hours "midday" were active until 14:00 UTC.'),
    ]
    assert [(clock(slot.at), slot.verdict, slot.sentence) for slot in ann.slots] == [
        ("14:00", "runs", None),
        ("15:00", "runs", None),
    ]
    (quiet,) = ann.bands
    assert (quiet.kind, quiet.name, clock(quiet.start), clock(quiet.end)) == ("quiet_hours", "midday", "12:00", "14:00")
    assert [(clock(run.at), run.state) for run in lane(found).runs] == [
        ("11:30", "failed"), ("12:30", "failed"), ("13:30", "failed"),
    ]  # fmt: skip
    assert (found.records_from, found.omitted) == (found.start, 0)


def test_slots_that_quiet_hours_will_stop(bench: Sandbox) -> None:
    """B12 B5: the verdicts are those of `preview`"""
    bench.quiet_hours.set("noon", windows=["12:00-13:30"])
    bench.quiet_hours.set("later", windows=["12:00-13:30"], mode="defer")
    bench.add("skips", when="0 * * * *", job="work", quiet_hours="noon")
    bench.add("waits", when="0 * * * *", job="work", quiet_hours="later")
    slots = day(bench.timeline(start="2026-03-27T11:00:00Z", end="2026-03-27T14:00:00Z")).slots
    assert [(slot.schedule, clock(slot.at), slot.verdict, clock(slot.until)) for slot in slots] == [
        ("skips", "11:00", "runs", None), ("waits", "11:00", "runs", None),
        ("skips", "12:00", "skipped", None), ("waits", "12:00", "deferred", "13:30"),
        ("skips", "13:00", "skipped", None), ("waits", "13:00", "coalesced", None),
    ]  # fmt: skip
    previewed = bench.preview("skips", count=6).slots
    assert [slot.verdict for slot in previewed] == ["runs", "runs", "runs", "skipped", "skipped", "runs"][-6:]


def test_dense_schedules_are_bands_with_a_count(bench: Sandbox) -> None:
    """B12: divided where quiet hours begin and end; what failed is not lost in them"""
    bench.quiet_hours.set("noon", windows=["12:00-13:00"])
    fails = iter([True])

    @bench.job("once")
    def once(run: JobContext) -> None:
        if next(fails, False):
            raise ValueError("no")

    bench.add("dense", when="* * * * *", job="once", quiet_hours="noon", failure_backoff="none")
    bench.add("rare", when="0 * * * *", job="work")
    bench.run_until("2026-03-27T11:30:30Z")
    found = day(bench.timeline(start="2026-03-27T08:00:30Z", end="2026-03-27T15:00:00Z"))
    assert {run.schedule for run in found.runs} == {slot.schedule for slot in found.slots} == {"rare"}
    bands = [(b.kind, clock(b.start), clock(b.end), b.count, b.states) for b in found.bands if b.kind != "quiet_hours"]
    assert bands == [
        ("records", "08:01", "11:30", 210, {"failed": 1, "succeeded": 209}),
        ("slots", "11:31", "11:59", 29, {"runs": 29}),
        ("slots", "12:00", "12:59", 60, {"skipped": 60}),
        ("slots", "13:00", "14:59", 120, {"runs": 120}),
    ]
    assert sum(band[3] for band in bands[1:]) == 3 * 60 + 29


def test_many_schedules_in_a_lane(in_memory: Sandbox) -> None:
    """B12: the densest are bands of their own, all others are one; nothing is left out"""
    in_memory.add_many([{"name": f"s{n}", "when": f"{n % 60} * * * *", "job": "work"} for n in range(300)])
    found = day(in_memory.timeline(start="2026-03-27T08:00:00Z", end="2026-03-28T08:00:00Z"))
    assert len(found.slots) <= 200
    assert len(found.bands) == 20
    assert len(found.slots) + sum(band.count for band in found.bands) == 300 * 24 - 5  # five begin an hour later
    assert found.bands[-1].schedules + 19 + len({slot.schedule for slot in found.slots}) == 300


def test_a_run_that_goes_on_is_always_there(bench: Sandbox) -> None:
    """B12 B3: however long ago it began, and an interval after its end has its earliest slots"""
    seen: list[Any] = []

    @bench.job("long")
    def long(run: JobContext) -> None:
        bench.clock.advance(10 * 3_600_000)
        seen.extend([bench.timeline(start=bench.clock.now_ms() - 60_000), bench.runs.live()])

    for _ in range(3):
        bench.add("long", when="every 3h", job="long", replace=True)
    bench.run_until("2026-03-27T11:00:00Z")
    found, (live,) = seen
    (run,) = day(found).runs
    assert (run.schedule, run.state, run.started_at.hour) == ("long", "running", 11)
    assert [clock(slot.at) for slot in day(found).slots][:2] == ["00:00", "03:00"]
    assert (live.run.schedule, live.run.state, live.usual_ms) == ("long", "running", None)
    assert live.worker is not None


def test_rate_limits_are_bands(in_memory: Sandbox) -> None:
    """B12 C9"""
    in_memory.throttles.set("acme", resets_at="2026-03-27T10:00:00Z", reason="429")
    in_memory.add("s", when="30 * * * *", job="work", provider="acme")
    found = day(in_memory.timeline(end="2026-03-27T11:00:00Z"))
    (band,) = found.bands
    assert (band.kind, band.name, clock(band.end)) == ("throttle", "acme", "10:00")
    assert [(clock(slot.at), slot.verdict, clock(slot.until)) for slot in found.slots] == [
        ("08:30", "deferred", "10:00"), ("09:30", "coalesced", None), ("10:30", "runs", None),
    ]  # fmt: skip


@pytest.mark.parametrize(("start", "end"), [(5, 5), (5, 3), (0, 40 * 86_400_000)])
def test_a_window_that_is_none(in_memory: Sandbox, start: int, end: int) -> None:
    with pytest.raises(InvalidInput) as caught:
        in_memory.timeline(start=start, end=end)
    assert caught.value.field == "end"


def test_what_is_usual(bench: Sandbox) -> None:
    """B12: of runs that succeeded; a failure does not count as quick"""
    times = iter([1_000, 2_000, 9, 3_000])

    @bench.job("varies")
    def varies(run: JobContext) -> None:
        bench.clock.advance(next(times))
        run.spend("$0.10", tokens=500)
        if run.slot.hour == 11:
            raise ValueError("no")

    bench.add("varies", when="0 * * * *", job="varies", retries=0)
    assert bench.usual("varies").duration_ms.p50 is None
    bench.run_until("2026-03-27T12:30:00Z")
    usual = bench.usual("varies")
    assert (usual.runs, usual.succeeded) == (4, 3)
    assert (usual.duration_ms.p50, usual.duration_ms.p95) == (2_000, 3_000)
    assert (usual.cost.p50, usual.tokens.p95) == ("$0.10", 500)
    assert usual.delay_ms.p50 == 0


def test_where_the_time_of_a_run_went(bench: Sandbox) -> None:
    """B12 B2: due, planned, the wait for approval, both attempts and the wait between them"""
    tries = iter([True])

    @bench.job("twice")
    def twice(run: JobContext) -> None:
        bench.clock.advance(5_000)
        if next(tries, False):
            raise ValueError("not yet")

    bench.add("twice", when="0 9 * * *", job="twice", retries=1, retry_delay="1m", approval="owner_approve")
    bench.run_until("2026-03-27T09:10:00Z")
    bench.approvals.approve(bench.approvals.list()[0].id)
    bench.run_until("2026-03-27T09:30:00Z")
    facts = bench.runs.facts(bench.runs.list(schedule="twice")[0].id)
    assert (facts.executed, facts.succeeded, facts.delivered) == (True, True, None)
    spans = [(span.name, (span.duration_ms or 0) // 10_000, span.state) for span in facts.spans]
    assert spans == [
        ("planned", 0, None),
        ("approval", 60, "used"),
        ("attempt", 0, "retried"),
        ("waiting", 6, None),  # the delay of the retry
        ("attempt", 0, "succeeded"),
    ]
    assert [span.duration_ms for span in facts.spans if span.name == "attempt"] == [5_000, 5_000]
    assert all(before.end == after.start for before, after in pairwise(facts.spans))
    assert facts.due_at == datetime(2026, 3, 27, 9, tzinfo=UTC)
    assert facts.last_success is None
    bench.run_until("2026-03-28T09:10:00Z")
    waiting = bench.runs.facts(bench.runs.list(schedule="twice")[0].id)
    assert (waiting.executed, waiting.succeeded, waiting.last_success) == (False, None, facts.run.id)
    assert [(span.name, span.end) for span in waiting.spans][-1] == ("approval", None)


def test_the_steps_of_a_run_are_spans(bench: Sandbox) -> None:
    """B12"""
    bench.job("slow")(lambda run: bench.clock.advance(2_000))
    steps = [{"title": "Build", "job": "slow"}, {"title": "Ship", "job": "slow", "after": ["Build"]}]
    bench.missions.make("release", steps=steps)
    bench.run("release")
    bench.run_until(bench.clock.now_ms() + 60_000)
    facts = bench.runs.facts(bench.runs.list(schedule="release")[0].id)
    assert [(span.title, span.duration_ms, span.state) for span in facts.spans if span.name == "step"] == [
        ("Build", 2_000, "succeeded"), ("Ship", 2_000, "succeeded"),
    ]  # fmt: skip
    assert bench.usual("release").duration_ms.p50 == 4_000
    assert timedelta(milliseconds=facts.run.duration_ms or 0) == timedelta(seconds=4)
