"""Runs whose worker is gone: a theatre is dropped without a word, and another opens on the same file."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from matins.errors import Conflict, InvalidInput, StoreUnavailable
from matins.runtime.attempt import Attempt
from matins.runtime.recorder import Reaper
from matins.testing import ManualClock, Sandbox

AT = "2026-03-27T08:05:00Z"
Reopen = Callable[..., Sandbox]
Lines = Callable[..., list[str]]


def crashed(reopen: Reopen, **words: object) -> Sandbox:
    theatre = reopen()
    theatre.add("s", when="*/5 * * * *", job="work", **words)
    theatre.run_until(AT)
    assert theatre.stage.names() == ["s"]
    return reopen()


def test_retry_starts_it_again_under_a_new_epoch_and_the_same_key(reopen: Reopen) -> None:
    """H8 S2: at least once, and nothing stuck in running after a crash"""
    theatre = crashed(reopen, on_unknown="retry")
    (run,) = theatre.runs.list(schedule="s")
    assert (run.state, run.reason, run.epoch) == ("ready", "worker_lost", 1)
    theatre.settle()
    (work,) = theatre.stage.on.values()
    assert (work.run_id, work.epoch, work.number) == (int(run.id), 2, 2)
    theatre.end("s")
    theatre.assert_ran("s", times=1)


def test_retry_is_the_default_for_python_jobs(reopen: Reopen) -> None:
    """H8"""
    theatre = crashed(reopen)
    assert theatre.runs.list(schedule="s")[0].state == "ready"


def test_hold_waits_for_a_person(reopen: Reopen, lines: Lines) -> None:
    """H8: effects happen at most once"""
    theatre = crashed(reopen, on_unknown="hold")
    theatre.run_until("2026-03-27T08:10:00Z")
    assert lines(theatre, "s") == ["08:05 held worker_lost", "08:10 skipped already_running"]
    assert not theatre.stage.on


@pytest.mark.parametrize(
    ("end", "state"), [("succeeded", "succeeded"), ("failed", "failed"), ("unknown", "unknown"), ("retry", "running")]
)
def test_a_person_says_what_became_of_it(reopen: Reopen, end: str, state: str) -> None:
    """H8"""
    theatre = crashed(reopen, on_unknown="hold")
    (run,) = theatre.runs.list(schedule="s")
    theatre.runs.resolve(run.id, end)
    theatre.settle()
    assert theatre.runs.list(schedule="s")[0].state == state
    if end != "retry":
        with pytest.raises(Conflict, match="is not held"):
            theatre.runs.resolve(run.id, end)


def test_only_known_ends(reopen: Reopen) -> None:
    """H8"""
    theatre = crashed(reopen, on_unknown="hold")
    with pytest.raises(InvalidInput) as caught:
        theatre.runs.resolve(theatre.runs.list(schedule="s")[0].id, "lost")
    assert caught.value.field == "outcome"
    assert theatre.runs.list(schedule="s")[0].state == "held"


def test_a_held_run_can_be_cancelled(reopen: Reopen, lines: Lines) -> None:
    """H8: there is no worker that would end it"""
    theatre = crashed(reopen, on_unknown="hold")
    assert theatre.runs.cancel(theatre.runs.list(schedule="s")[0].id).state == "cancelled"
    theatre.run_until("2026-03-27T08:10:00Z")
    assert lines(theatre, "s") == ["08:05 cancelled cancelled", "08:10 running"]


def test_a_run_that_was_to_end_is_cancelled(reopen: Reopen, lines: Lines) -> None:
    """H8"""
    theatre = reopen()
    theatre.add("s", when="*/5 * * * *", job="work")
    theatre.run_until(AT)
    theatre.runs.cancel(theatre.runs.list(schedule="s")[0].id)
    theatre = reopen()
    assert lines(theatre, "s") == ["08:05 cancelled worker_lost"]


def test_what_queued_behind_a_lost_run_goes_on(reopen: Reopen, lines: Lines) -> None:
    """H8"""
    theatre = reopen()
    theatre.add("s", when="*/5 * * * *", job="work", overlap="queue", on_unknown="hold")
    theatre.run_until("2026-03-27T08:10:00Z")
    theatre = reopen()
    theatre.settle()
    assert lines(theatre, "s") == ["08:05 held worker_lost", "08:10 queued waiting_for"]
    theatre.runs.resolve(theatre.runs.list(schedule="s")[1].id, "failed")
    theatre.settle()
    assert lines(theatre, "s")[1] == "08:10 running"


def test_the_dead_workers_word_is_not_taken(reopen: Reopen) -> None:
    """S2: no write from a stale epoch is accepted"""
    first = reopen()
    first.add("s", when="*/5 * * * *", job="work")
    first.run_until(AT)
    second = reopen()
    second.settle()
    first.stage.end("s", result="old")
    first.engine.accepting = False
    first.settle()
    assert first.engine.stale == 1
    assert second.runs.list(schedule="s")[0].state == "running"
    second.end("s", result="new")
    assert second.runs.list(schedule="s")[0].outcome == {"result": "new"}


def test_a_lost_run_that_nobody_can_read_is_over_and_frees_its_place(reopen: Reopen, lines: Lines) -> None:
    """H8 H2: there is no policy to ask"""
    theatre = reopen()
    theatre.limits.set("global", size=1)
    theatre.add("s", when="*/5 * * * *", job="work")
    theatre.add("other", when="*/5 * * * *", job="work")
    theatre.run_until(AT)
    (running,) = theatre.stage.names()
    waiting = "other" if running == "s" else "s"
    theatre._store._connection.execute(  # type: ignore[attr-defined]
        "UPDATE revisions SET definition = '{' WHERE schedule_id = (SELECT id FROM schedules WHERE name = ?)",
        (running,),
    )
    theatre = reopen()
    theatre.settle()
    assert lines(theatre, running) == ["08:05 unknown unreadable"]
    assert theatre.stage.names() == [waiting]


def test_a_run_of_its_own_is_left_alone(theatre: Sandbox) -> None:
    """H8"""
    theatre.add("s", when="*/5 * * * *", job="work")
    theatre.run_until(AT)
    theatre.engine.reaper.open(theatre.engine.worker, theatre.clock.now_ms())
    assert theatre.runs.list(schedule="s")[0].state == "running"


class Shared:
    """A store that several engines share, as far as the reaper can tell."""

    shared = True

    def __init__(self, store: object) -> None:
        self._store = store

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


def test_on_a_shared_store_a_worker_is_dead_when_its_beat_stands_still_for_a_lease(theatre: Sandbox) -> None:
    """S2: by the reaper's own boot time, whatever the wall clock does"""
    theatre.add("s", when="*/5 * * * *", job="work")
    theatre.run_until(AT)
    store, clock = theatre._store, theatre.clock
    reaper = Reaper(Shared(store), theatre._catalog, 15_000, 3_000, 60_000)  # type: ignore[arg-type]
    with store.transaction(0) as transaction:
        reaper.open(transaction.insert_worker("other", 0), 0)

    def look(milliseconds: int) -> str:
        clock.advance(milliseconds)
        clock.step(86_400_000)
        reaper.turn(clock.now_ms(), clock.boot_ms())
        return theatre.runs.list(schedule="s")[0].state

    assert [look(5_000) for _ in range(4)] == ["running"] * 4
    with store.transaction(0) as transaction:
        transaction.heartbeat(theatre.engine.worker)
    assert [look(5_000) for _ in range(4)] == ["running"] * 4
    assert look(5_000) == "ready"
    assert look(60_000) == "ready"
    lost = [event for event in theatre.events.list() if (event.data or {}).get("reason") == "worker_lost"]
    assert len(lost) == 1


def test_looking_round_is_not_done_every_turn(theatre: Sandbox) -> None:
    """S2"""
    reads: list[str] = []

    class Counting(Shared):
        def reading(self) -> object:
            reads.append("read")
            return theatre._store.reading()

    clock = ManualClock()
    reaper = Reaper(Counting(theatre._store), theatre._catalog, 15_000, 3_000, 60_000)  # type: ignore[arg-type]
    reaper.open(theatre.engine.worker, 0)
    for _ in range(100):
        clock.advance(100)
        reaper.turn(clock.now_ms(), clock.boot_ms())
    assert len(reads) == 4


def test_a_held_run_waits_for_a_person_also_after_more_crashes(reopen: Reopen, lines: Lines) -> None:
    """H8, S2: only a person closes it."""
    crashed(reopen, on_unknown="hold")
    for _ in range(3):
        theatre = reopen()
        assert lines(theatre, "s") == ["08:05 held worker_lost"]
    assert any("wait for a person" in found.sentence for found in theatre.system.doctor())


def test_a_run_whose_worker_has_stopped_is_taken_up(theatre: Sandbox) -> None:
    """S2, H8: whoever marked its worker as stopped."""
    theatre.add("s", when="*/5 * * * *", job="work")
    theatre.run_until(AT)
    gone = theatre.engine.worker
    with theatre.store.transaction(theatre.clock.now_ms()) as transaction:
        transaction.stop_worker(gone, theatre.clock.now_ms())
        theatre.engine.worker = theatre.engine.reaper._worker = transaction.insert_worker("next", 0)
    assert any("its worker is gone" in found.sentence for found in theatre.system.doctor())
    theatre.run_until(theatre.clock.now_ms() + 3_000)
    theatre.settle()
    (run,) = theatre.runs.list(schedule="s")
    assert (run.state, run.epoch) == ("running", 2)


def test_an_own_run_that_the_executor_does_not_have_is_taken_up(theatre: Sandbox) -> None:
    """S2, H8: each beat compares what the store has with what the executor has."""
    theatre.add("s", when="*/5 * * * *", job="work")
    theatre.run_until(AT)
    theatre.stage._submitted.clear()
    theatre.run_until(theatre.clock.now_ms() + 3_000)
    theatre.settle()
    assert theatre.runs.list(schedule="s")[0].epoch == 2


def test_what_was_just_adopted_is_not_adopted_again(theatre: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """S2, B9: a turn looks for dead workers, then for runs that the executor does not have; or the run has two ends"""
    stage, reaper = theatre.stage, theatre.engine.reaper
    theatre.agents.set("sh", runner="shell", command=["true"])
    theatre.add("s", when="*/5 * * * *", agent="sh", prompt="Hello")
    theatre.run_until(AT)
    stage._submitted.clear()
    monkeypatch.setattr(reaper, "_executor", stage)
    monkeypatch.setattr(stage, "adoptable", lambda attempt: True)
    for _ in range(2):
        reaper._check_runs(theatre.clock.now_ms(), stage)
    assert len(reaper.adopted_attempts()) == 1


def test_an_engine_that_stops_takes_nothing_over(theatre: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """S2, B9: it would end the agents of a dead worker, and say that its own did not end in time"""
    stage, adopted = theatre.stage, list[Attempt]()
    theatre.agents.set("sh", runner="shell", command=["true"])
    theatre.add("s", when="*/5 * * * *", agent="sh", prompt="Hello")
    theatre.run_until(AT)
    stage._submitted.clear()
    monkeypatch.setattr(theatre.engine.reaper, "_executor", stage)
    monkeypatch.setattr(stage, "adoptable", lambda attempt: True)
    monkeypatch.setattr(stage, "adopt", adopted.extend)
    for accepting in (False, True):
        theatre.engine.accepting = accepting
        theatre.clock.advance(3_000)
        theatre.engine.run_once()
        assert len(adopted) == accepting


def test_an_adoption_that_was_rolled_back_is_forgotten(theatre: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """S2, B9: or the run is adopted twice, and has two ends"""
    stage, reaper, adopted, failures = theatre.stage, theatre.engine.reaper, list[object](), [StoreUnavailable("gone")]
    theatre.agents.set("sh", runner="shell", command=["true"])
    theatre.add("s", when="*/5 * * * *", agent="sh", prompt="Hello")
    theatre.run_until(AT)
    recover = reaper._recover

    def rolled_back(*arguments: object, **options: object) -> None:
        recover(*arguments, **options)
        if failures:
            raise failures.pop()

    def adopt(attempts: list[Attempt]) -> None:
        adopted.extend(attempts)
        stage._submitted.update(attempt.mark for attempt in attempts)

    monkeypatch.setattr(reaper, "_recover", rolled_back)
    monkeypatch.setattr(reaper, "_executor", stage)
    monkeypatch.setattr(stage, "adoptable", lambda attempt: True)
    monkeypatch.setattr(stage, "adopt", adopt)
    stage._submitted.clear()
    for _ in range(12):
        theatre.clock.advance(1_000)
        theatre.engine.run_once()
    assert not failures
    assert len(adopted) == len(theatre.events.list(types=["run.adopted"])) == 1


def test_an_attempt_that_the_store_does_not_know_is_ended(theatre: Sandbox) -> None:
    """S2: another worker may have the run."""
    theatre.add("s", when="*/5 * * * *", job="work")
    theatre.run_until(AT)
    theatre.stage._submitted.add((4711, 1))
    theatre.clock.advance(3_000)
    theatre.settle()
    assert theatre.stage.cancelled == {4711}


def test_a_run_whose_owner_is_gone_can_be_resolved(theatre: Sandbox) -> None:
    """H8: before any engine takes it up; a run at work cannot."""
    theatre.add("s", when="*/5 * * * *", job="work")
    theatre.run_until(AT)
    (run,) = theatre.runs.list(schedule="s")
    with pytest.raises(Conflict, match="is not held: starting"):
        theatre.runs.resolve(run.id, "failed")
    with theatre.store.transaction(theatre.clock.now_ms()) as transaction:
        transaction.stop_worker(theatre.engine.worker, theatre.clock.now_ms())
    assert theatre.runs.resolve(run.id, "failed").state == "failed"
