"""The engine and the use cases on every store, with a clock that the test moves. Rows P8, C9, C12, H2, V3."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from matins.errors import StoreUnavailable
from matins.executors.job_context import JobContext
from matins.store import Store
from matins.store.transaction import Transaction
from matins.testing import ManualClock, Sandbox, iso

START = "2026-03-27T08:00:00Z"


@pytest.fixture
def bench(url: str) -> Iterator[Sandbox]:
    bench = Sandbox(url, clock=ManualClock(START))
    yield bench
    assert bench.audit.verify().problems == []
    bench.close()


@pytest.fixture
def ran(bench: Sandbox) -> list[JobContext]:
    """Runs of the job "note", which does nothing else, and of "long", which takes over three minutes the first time."""
    seen: list[JobContext] = []
    bench.job("note")(seen.append)

    @bench.job("long")
    def long(run: JobContext) -> None:
        seen.append(run)
        if len(seen) == 1:
            for _ in range(3):
                bench.clock.advance(60_000)
                bench.engine.turn()

    return seen


def records(bench: Sandbox, name: str) -> list[str]:
    """State and reason of a schedule's records, the oldest first."""
    return [f"{run.state} {run.reason or ''}".strip() for run in reversed(bench.runs.list(schedule=name))]


def test_a_schedule_fires_at_each_slot(bench: Sandbox, ran: list[JobContext]) -> None:
    """C9."""
    bench.add("tick", when="*/15 * * * *", job="note", payload={"a": [1, "ß"]})
    bench.run_until("2026-03-27T09:00:00Z")
    runs = bench.assert_ran("tick", times=4)
    assert [iso(run.slot) for run in runs] == [f"2026-03-27T{at}:00Z" for at in ("08:15", "08:30", "08:45", "09:00")]
    assert [run.payload for run in ran] == [{"a": [1, "ß"]}] * 4
    assert len({run.key for run in ran}) == 4
    assert [run.previous_state for run in ran[-1:]] == ["succeeded"]


def test_a_grid_that_was_made_while_the_clock_was_ahead_does_not_wait_for_it(
    bench: Sandbox, ran: list[JobContext]
) -> None:
    """H2 B1: it keeps its instants, and has no beginning. The one that has started does not start again."""
    bench.clock.step(30 * 86_400_000 + 420_000)
    bench.settle()
    bench.add("grid", when="10m", job="note", anchor="grid")
    bench.add("at-once", when="10m", job="note", anchor="grid", first="immediately")
    bench.settle()
    assert [run.schedule for run in ran] == ["at-once"]
    bench.clock.step(-30 * 86_400_000 - 420_000)
    bench.settle()
    bench.run_until("2026-03-27T08:30:00Z")
    on_grid = [f"2026-03-27T{at}:00Z" for at in ("08:07", "08:17", "08:27")]
    assert [iso(run.slot) for run in bench.assert_ran("grid")] == on_grid
    assert [iso(run.slot) for run in bench.assert_ran("at-once")] == ["2026-04-26T08:07:00Z", *on_grid]
    assert len({run.key for run in ran}) == len(ran) == 7


def test_an_interval_counts_from_completion(bench: Sandbox, ran: list[JobContext]) -> None:
    """C9: the second run comes a minute after the end of the first, which took three."""
    bench.add("poll", when="1m", job="long")
    bench.run_until("2026-03-27T08:05:30Z")
    assert [iso(run.slot) for run in bench.assert_ran("poll", times=2)] == [
        "2026-03-27T08:01:00Z",
        "2026-03-27T08:05:00Z",
    ]


def test_overlap_skip(bench: Sandbox, ran: list[JobContext]) -> None:
    """C12."""
    bench.add("tick", when="* * * * *", job="long")
    bench.run_until("2026-03-27T08:05:00Z")
    assert records(bench, "tick") == ["succeeded", *["skipped already_running"] * 3, "succeeded"]


def test_overlap_queue(bench: Sandbox, ran: list[JobContext]) -> None:
    """C12: each slot runs, one after the other and in order."""
    bench.add("tick", when="* * * * *", job="long", overlap="queue")
    bench.run_until("2026-03-27T08:05:00Z")
    assert records(bench, "tick") == ["succeeded"] * 5
    assert [run.slot for run in ran] == sorted(run.slot for run in ran if run.slot)


def test_overlap_cancel_other(bench: Sandbox, ran: list[JobContext]) -> None:
    """C12: the newest wins over those that wait; the one that runs is asked to end, and here it would not."""
    bench.add("tick", when="* * * * *", job="long", overlap="cancel_other")
    bench.run_until("2026-03-27T08:04:30Z")
    assert records(bench, "tick") == ["succeeded", *["cancelled cancelled_by_newer"] * 2, "succeeded"]


def test_overlap_allow(bench: Sandbox, ran: list[JobContext]) -> None:
    """C12: the later slots start while the first still runs."""
    bench.add("tick", when="* * * * *", job="long", overlap="allow")
    bench.run_until("2026-03-27T08:04:30Z")
    assert records(bench, "tick") == ["succeeded"] * 4
    starts, ends = zip(
        *((run.started_at, run.ended_at) for run in reversed(bench.runs.list(schedule="tick"))), strict=True
    )
    assert max(starts) <= ends[0]


@pytest.mark.parametrize("scope", ["global", "label.team=ops"])
def test_a_limit_holds_over_schedules(bench: Sandbox, ran: list[JobContext], scope: str) -> None:
    """C12: while the long one runs, the others wait for its permit."""
    bench.limits.set(scope, size=1)
    bench.add("a", when="* * * * *", job="long", labels={"team": "ops"})
    bench.add("b", when="2 8 * * *", job="note", labels={"team": "ops"})
    bench.run_until("2026-03-27T08:06:00Z")
    (waited,) = bench.assert_ran("b", times=1)
    assert iso(waited.planned_at) == "2026-03-27T08:02:00Z"
    assert waited.started_at is not None
    assert iso(waited.started_at) >= "2026-03-27T08:04:00Z"


def test_a_failure_is_tried_again_and_counted(bench: Sandbox) -> None:
    """V3: the same run and key, later and later; then it is over."""
    keys: list[str] = []

    @bench.job("fail")
    def fail(run: JobContext) -> None:
        keys.append(run.key)
        raise ValueError("no ß")

    bench.add("once", when="2026-03-27T08:01:00Z", job="fail", retries=2, retry_delay="10s")
    bench.run_until("2026-03-27T08:10:00Z")
    (run,) = bench.runs.list(schedule="once")
    assert (run.state, run.attempt, run.epoch) == ("failed", 3, 3)
    assert "ValueError: no ß" in run.outcome["error"]
    assert keys == [keys[0]] * 3
    assert bench.get("once").failures == 1


def test_pause_and_resume(bench: Sandbox, ran: list[JobContext]) -> None:
    """P8: a paused schedule has no slots; it goes on with the next."""
    bench.add("tick", when="0 * * * *", job="note")
    bench.run_until("2026-03-27T09:30:00Z")
    assert bench.pause("tick", note="lunch").state == "paused"
    bench.run_until("2026-03-27T12:30:00Z")
    assert bench.resume("tick").note is None
    bench.run_until("2026-03-27T13:00:00Z")
    assert [iso(run.slot) for run in bench.assert_ran("tick")] == ["2026-03-27T09:00:00Z", "2026-03-27T13:00:00Z"]


def test_an_edit_takes_effect_from_now(bench: Sandbox, ran: list[JobContext]) -> None:
    bench.add("tick", when="0 * * * *", job="note", payload="old")
    bench.run_until("2026-03-27T09:10:00Z")
    assert bench.edit("tick", when="30 * * * *", payload="new").rev == 2
    bench.run_until("2026-03-27T10:30:00Z")
    assert [run.payload for run in ran] == ["old", "new", "new"]
    assert [iso(run.slot) for run in bench.assert_ran("tick")][1:] == ["2026-03-27T09:30:00Z", "2026-03-27T10:30:00Z"]


def test_a_key_stands_for_one_run(bench: Sandbox, ran: list[JobContext]) -> None:
    """H2: asked twice, done once."""
    bench.add("report", when="0 0 1 1 *", job="note")
    first = bench.run("report", key="k")
    bench.settle()
    assert bench.run("report", key="k").id == first.id
    assert bench.run("report", key="other").id != first.id
    bench.settle()
    assert len(ran) == 2


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("skip", ["missed missed"] * 3),
        ("run_once", ["succeeded"]),
        ("run_all_capped", ["missed missed", "succeeded", "succeeded"]),
    ],
)
def test_catch_up_after_a_long_sleep(bench: Sandbox, ran: list[JobContext], policy: str, expected: list[str]) -> None:
    """C9: what was missed has its record; how much of it runs is the policy's."""
    bench.add("tick", when="0 * * * *", job="note", catch_up=policy, catch_up_limit=2, overlap="queue")
    bench.clock.advance_to("2026-03-27T11:45:00Z")
    bench.settle()
    assert records(bench, "tick") == expected
    if policy == "run_once":
        assert [(run.slots, run.lateness) for run in ran] == [(3, 45 * 60.0)]


class LosesReplies:
    """A store that does what it is told, and then says that it does not answer."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.lose = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @contextmanager
    def transaction(self, now: int) -> Iterator[Transaction]:
        with self._store.transaction(now) as transaction:
            yield transaction
        if self.lose:
            self.lose -= 1
            raise StoreUnavailable("the reply was lost")


@pytest.mark.parametrize("turn", [1, 2])
def test_a_lost_reply_to_a_commit_loses_no_run_and_repeats_none(
    bench: Sandbox, ran: list[JobContext], turn: int
) -> None:
    """H10: to the commit that claims (1), or to the one that records (2)."""
    bench.engine.store = store = LosesReplies(bench._store)
    bench.add("once", when="2026-03-27T08:01:00Z", job="note")
    bench.clock.advance_to("2026-03-27T08:01:00Z")
    for _ in range(turn - 1):
        bench.engine.run_once()
    store.lose = 1
    for _ in range(5):
        bench.engine.run_once()
    assert store.lose == 0
    assert len(ran) == 1
    (run,) = bench.assert_ran("once", times=1)
    assert run.attempt == 1


def test_a_removed_schedule_is_gone_and_its_name_is_free(bench: Sandbox, ran: list[JobContext]) -> None:
    bench.add("tick", when="0 * * * *", job="note")
    assert bench.delete("tick")
    bench.run_until("2026-03-27T10:00:00Z")
    assert ran == []
    bench.add("tick", when="0 * * * *", job="note")
    bench.run_until("2026-03-27T11:00:00Z")
    bench.assert_ran("tick", times=1)


def test_a_stop_while_the_network_flaps_leaves_nothing_behind(bench: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """S2, H8: the reply to a claim's COMMIT is lost, the last turn fails, and the goodbye arrives."""
    bench.job("work")(lambda run: None)
    bench.add("tick", when="*/15 * * * *", job="work")
    transact = bench.store.transaction

    def reply_lost(now: int) -> Any:
        return _cut(transact(now), after=True)

    def unreachable(now: int) -> Any:
        return _cut(transact(now), after=False)

    bench.clock.advance(15 * 60_000)
    monkeypatch.setattr(bench.store, "transaction", reply_lost)
    bench.engine.run_once()
    (run,) = bench.runs.list(schedule="tick")
    assert run.state == "running"  # claimed, and never handed over
    bench.engine.accepting = False
    monkeypatch.setattr(bench.store, "transaction", unreachable)
    bench.engine.run_once()
    monkeypatch.undo()
    bench.engine.close()
    assert bench.runs.list(schedule="tick")[0].state == "ready"
    bench.engine.accepting = True
    bench.engine.open(bench.executor, {"name": "next"}, bench.checking)
    bench.settle()
    bench.assert_ran("tick", times=1)


@contextmanager
def _cut(transaction: Any, *, after: bool) -> Iterator[Transaction]:
    """The network is cut before a transaction, or between its COMMIT and the reply."""
    if after:
        with transaction as open_transaction:
            yield open_transaction
    raise StoreUnavailable("the network is cut")


def test_a_backfill_on_every_store(bench: Sandbox, ran: list[JobContext]) -> None:
    """B11: each slot once, with the slots of now between; with its schedule it waits, and a cancel ends it"""
    bench.add("s", when="*/5 * * * *", job="note", catch_up="skip")
    bench.clock.advance_to("2026-03-27T08:32:00Z")
    bench.settle()
    before = records(bench, "s")
    slots = {"start": "2026-03-27T08:05", "end": "2026-03-27T08:30"}
    made = bench.backfills.create("s", **slots, max_cost="$1")
    bench.pause("s")
    assert bench.backfills.get(made.id).reason == "schedule"
    bench.resume("s")
    bench.run_until("2026-03-27T08:35:00Z")
    done = bench.backfills.get(made.id)
    assert (done.state, done.states) == ("done", {"succeeded": done.made}), done
    stood_for = [iso(run.slot) for run in ran if run.slot is not None]
    assert len(stood_for) == len(set(stood_for)) == done.made + 2  # one was in time, and one comes after it
    assert records(bench, "s")[: len(before)] == before
    first = next(run.id for run in bench.runs.list(schedule="s") if iso(run.for_slot) == "2026-03-27T08:05:00Z")
    assert f"Made up for by run {first}." in bench.why("s", at="2026-03-27T08:05:00Z").summary
    again = bench.backfills.create("s", **slots, which="all", newest_first=True)
    bench.backfills.pause(again.id)
    assert bench.backfills.cancel(again.id).state == "cancelled"
    assert [one.id for one in bench.backfills.list(schedule="s")] == [again.id, made.id]
    assert bench.run("s", slot="2026-03-27T08:10").for_slot is not None
    bench.settle()
    assert bench.backfills.preview("s", **slots, which="failed").runs == 0
