"""The outbox in its threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from outbox_recorder import Recorder, Told

from matins import Matins
from matins.errors import StoreUnavailable
from matins.testing import Sandbox

PATIENCE = 90


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Matins]:
    m = Matins(f"sqlite:///{tmp_path}/live.db")
    m.job("work")(lambda run: None)
    yield m
    m.close()


def test_a_slow_subscriber_holds_up_nobody_else(live: Matins) -> None:
    """V2"""
    go_on, begun, heard = threading.Event(), threading.Event(), threading.Event()

    def slow(event: Told) -> None:
        begun.set()
        assert go_on.wait(PATIENCE)

    with live:
        live.subscribe(slow, "schedule.created")
        live.subscribe(lambda event: heard.set(), "run.succeeded")
        live.add("s", when="0 0 1 1 *", job="work")
        assert begun.wait(PATIENCE)
        live.run("s")
        assert heard.wait(PATIENCE)
        go_on.set()


def test_a_stop_is_heard_between_two_pages_of_a_backlog(live: Matins) -> None:
    """V2 B8: the rest of the backlog waits for the next start; the cursor says where."""
    seen: list[str] = []
    live.subscribe(lambda event: seen.append(event["id"]), name="audit")
    for number in range(15):
        live.add_many([{"name": f"s{number}-{one}", "when": "0 0 1 1 *", "job": "work"} for one in range(100)])
    outbox = live.outbox
    outbox._stopping.set()
    outbox.run_once(outbox._clock.now_ms(), outbox._stopping.is_set)
    first = len(seen)
    assert first < 1_500  # one turn, not the whole backlog
    outbox._stopping.clear()
    outbox.run_once(outbox._clock.now_ms())
    assert len(seen) == len(set(seen)) >= 1_500


def test_what_is_written_last_is_told_before_it_stops(live: Matins, recorder: Recorder) -> None:
    """V2"""
    live.subscribe(recorder)
    live.add("s", when="0 0 1 1 *", job="work")
    started = threading.Event()
    live.job("wait")(lambda run: started.set())
    with live:
        live.edit("s", job="wait")
        live.run("s")
        assert started.wait(PATIENCE)
    assert recorder.types[-2:] == ["run.started", "run.succeeded"]


def test_what_its_thread_has_not_seen_is_told_by_whoever_stops_it(bench: Sandbox, recorder: Recorder) -> None:
    """V2"""
    bench.subscribe(recorder)
    bench.outbox._run = lambda: None  # type: ignore[method-assign]
    bench.outbox.start()
    bench.add("s", when="0 9 * * *", job="work")
    bench.outbox.stop()
    assert recorder.types == ["schedule.created"]


def test_a_stop_is_noticed_however_early_it_comes(bench: Sandbox) -> None:
    """V2: also between two steps of its thread, which would then wait for the next change"""
    outbox = bench.outbox

    class StoppedMeanwhile(threading.Event):
        def clear(self) -> None:
            outbox._stopping.set()
            self.set()
            super().clear()

    outbox._soon = StoppedMeanwhile()
    outbox._run_turn = lambda: None  # type: ignore[method-assign] # as when there is nobody to tell
    thread = threading.Thread(target=outbox._run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_a_use_case_wakes_it(live: Matins) -> None:
    """V2: what it writes is not written by a turn of the engine"""
    woken = threading.Event()
    with live:
        live.outbox.wake = lambda policy_rev=None: woken.set()  # type: ignore[method-assign]
        live.add("s", when="0 0 1 1 *", job="work")
        assert woken.is_set()


def test_it_can_be_started_again(live: Matins, recorder: Recorder) -> None:
    """V2: and what came in between is told then"""
    live.subscribe(recorder, "schedule.created", "books")
    live.add("a", when="0 0 1 1 *", job="work")
    with live:
        pass
    live.add("b", when="0 0 1 1 *", job="work")
    with live:
        pass
    assert [event["schedulename"] for event in recorder.told] == ["a", "b"]


def test_a_turn_that_fails_is_not_the_end(live: Matins, recorder: Recorder, caplog: pytest.LogCaptureFixture) -> None:
    """V2 H2: neither the store's trouble nor our own"""
    failed = threading.Semaphore(0)
    troubles: list[Exception] = [StoreUnavailable("no answer"), RuntimeError("a fault of ours")]
    turn = live.outbox._turn

    def turn_badly(now: int) -> Any:
        if troubles:
            failed.release()
            raise troubles.pop(0)
        return turn(now)

    live.outbox._turn = turn_badly  # type: ignore[method-assign]
    heard = threading.Event()
    live.subscribe(lambda event: heard.set(), "schedule.created", "books")
    with live:
        for _ in range(2):
            live.outbox.wake()
            assert failed.acquire(timeout=PATIENCE)
        live.add("a", when="0 0 1 1 *", job="work")
        live.outbox.wake()
        assert heard.wait(PATIENCE)
    assert "no answer" in caplog.text
    assert caplog.text.count("A turn of the outbox failed") == 1
