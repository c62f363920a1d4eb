"""Use cases on runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import orjson
import pytest

from matins.errors import Conflict, InvalidInput, NotFound
from matins.testing import ManualClock, Sandbox


@pytest.fixture
def bench() -> Iterator[Sandbox]:
    made = Sandbox(clock=ManualClock("2026-03-27T08:00:00Z"))
    made.job("work")(lambda run: run.slot)
    made.add("s", when="0 9 * * *", job="work")
    yield made
    made.close()


def test_a_manual_run_has_no_slot_and_leaves_the_cursor_alone(bench: Sandbox) -> None:
    """P8"""
    before = bench.get("s").next_run_at
    run = bench.run("s")
    assert (run.state, run.slot) == ("ready", None)
    bench.settle()
    assert bench.runs.list(schedule="s")[0].state == "succeeded"
    assert bench.get("s").next_run_at == before


def test_a_key_is_once(bench: Sandbox) -> None:
    """S2: also when the run is over"""
    first = bench.run("s", key="2026-03")
    assert bench.run("s", key="2026-03") == first
    bench.settle()
    again = bench.run("s", key="2026-03")
    assert (again.id, again.state) == (first.id, "succeeded")
    assert len(bench.runs.list(schedule="s")) == 1
    assert bench.run("s", key="2026-04").id != first.id


def test_keys_belong_to_a_schedule(bench: Sandbox) -> None:
    """S2"""
    bench.add("t", when="0 9 * * *", job="work")
    assert bench.run("s", key="k").id != bench.run("t", key="k").id


def test_without_a_key_each_is_another(bench: Sandbox) -> None:
    """S2"""
    assert bench.run("s").id != bench.run("s").id


@pytest.mark.parametrize("key", ["", "x" * 201, "a\nb", "\ud800"])
def test_a_bad_key_is_refused(bench: Sandbox, key: str) -> None:
    """S2"""
    with pytest.raises(InvalidInput) as caught:
        bench.run("s", key=key)
    assert caught.value.field == "key"
    assert bench.runs.list(schedule="s") == []


def test_runs_come_in_pages_the_newest_first(bench: Sandbox) -> None:
    """H8"""
    bench.edit("s", overlap="allow")
    ids = [bench.run("s").id for _ in range(7)]
    assert [run.id for run in bench.runs.list(schedule="s", limit=3)] == ids[:3:-1]
    assert [run.id for run in bench.runs.list(schedule="s", limit=3, before=ids[4])] == ids[3:0:-1]


def test_what_is_over_cannot_be_cancelled(bench: Sandbox) -> None:
    """B1"""
    run = bench.run("s")
    bench.settle()
    with pytest.raises(Conflict, match="is over: succeeded"):
        bench.runs.cancel(run.id)
    with pytest.raises(NotFound, match="There is no run 999"):
        bench.runs.cancel(999)


def test_only_what_is_held_can_be_resolved(bench: Sandbox) -> None:
    """H8"""
    run = bench.run("s")
    with pytest.raises(Conflict, match="is not held: ready"):
        bench.runs.resolve(run.id, "failed")


def test_a_record_says_when_and_how(bench: Sandbox) -> None:
    """H8: last_run_at, next_run_at, last_error"""

    @bench.job("fail")
    def fail(run: Any) -> None:
        raise ValueError("no luck")

    bench.add("f", when="0 9 * * *", job="fail")
    bench.run_until("2026-03-27T09:00:00Z")
    (run,) = bench.runs.list(schedule="f")
    assert run.planned_at == run.started_at == run.slot
    assert run.ended_at is not None
    assert run.outcome["error"].endswith("ValueError: no luck\n")
    assert bench.get("f").failures == 1
    assert run.slot is not None
    assert bench.get("f").next_run_at == run.slot + timedelta(days=1)


def test_every_change_is_in_the_audit_with_its_author(bench: Sandbox) -> None:
    """S4"""
    bench.run("s")
    bench.pause("s", note="why")
    bench.resume("s")
    bench.edit("s", retries=1)
    bench.limits.set("global", size=2)
    bench.delete("s")
    with bench._store.reading() as transaction:
        events = transaction.events_after(0, 100)
    assert [event.type for event in events] == [
        *("schedule.created", "run.planned", "schedule.paused", "schedule.resumed"),
        *("schedule.updated", "limit.set", "run.cancelled", "schedule.deleted"),
    ]
    assert '"by":"owner"' in str(events[0].data)
    assert bench.audit.verify().problems == []


def test_missed_slots_are_events_one_each_and_run_once_tells_its_count(bench: Sandbox) -> None:
    """S4"""
    bench.add("skips", when="*/10 * * * *", job="work")
    bench.add("once", when="*/10 * * * *", job="work", catch_up="run_once")
    bench.clock.advance(35 * 60_000)
    bench.settle()
    with bench._store.reading() as transaction:
        events = transaction.events_after(0, 100)
    assert [event.schedule_id for event in events if event.type == "schedule.missed"] == [2, 2]
    started = [event.data for event in events if event.type == "run.started" and event.schedule_id == 3]
    assert [orjson.loads(str(data))["slots"] for data in started] == [3]
    assert bench.runs.list(schedule="once")[0].slots == 3
