"""The engine in its threads, on the system's clock. Every wait is for a signal that a job gives."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from queue import SimpleQueue

import loop_jobs
import pytest
from loop_jobs import HOUR_MS, PATIENCE, Signal, each_turn

from matins import Matins
from matins.executors.job_context import JobContext

matins = loop_jobs.matins


def test_fires_on_its_own(matins: Matins) -> None:
    """H2 P8"""
    job = matins.jobs["job"] = Signal()
    matins.add("s", when="1s", job="job", first="immediately")
    with matins:
        job.wait(2)
    runs = [run for run in matins.runs.list(schedule="s") if run.state == "succeeded"]
    assert runs[0].outcome == {"result": "done"}
    assert all(run.started_at is not None and run.slot is not None and run.started_at >= run.slot for run in runs)


def test_what_is_added_or_asked_for_wakes_it_at_once(tmp_path: Path) -> None:
    """H2: sleep is interruptible; here it would last an hour"""
    matins = Matins(check_interval_ms=HOUR_MS, beat_ms=HOUR_MS)
    job = matins.jobs["job"] = Signal()
    with matins:
        matins.add("s", when="0 0 1 1 *", job="job")
        matins.run("s")
        job.wait()
        matins.add("now", when="1d", job="job", first="immediately")
        job.wait()
        matins.pause("now")
        matins.resume("now")
    matins.close()
    assert [run.schedule for run in job.runs] == ["s", "now"]


def test_a_long_job_never_delays_another_schedule(matins: Matins) -> None:
    """H2"""
    long, short = Signal(stands=True), Signal()
    matins.job("long")(long)
    matins.job("short")(short)
    matins.add_many([{"name": f"long {n}", "when": "1d", "job": "long", "first": "immediately"} for n in range(3)])
    with matins:
        long.wait(3)
        matins.add("short", when="1s", job="short", first="immediately", anchor="grid")
        short.wait(3)
        assert [matins.runs.list(schedule=f"long {n}")[0].state for n in range(3)] == ["running"] * 3
        long.go.set()
    assert [matins.runs.list(schedule=f"long {n}")[0].state for n in range(3)] == ["succeeded"] * 3


def test_async_jobs_do_not_need_threads(matins: Matins) -> None:
    """H2"""
    both = threading.Barrier(2, timeout=PATIENCE)
    waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    @matins.job("stand")
    async def stand(run: JobContext) -> None:
        waiting.append((asyncio.get_running_loop(), asyncio.Event()))
        if len(waiting) == 50:
            await asyncio.to_thread(both.wait)
        await waiting[int(run.schedule)][1].wait()

    matins.add_many([{"name": str(n), "when": "1d", "job": "stand", "first": "immediately"} for n in range(50)])
    with matins:
        both.wait()
        for loop, event in waiting:
            loop.call_soon_threadsafe(event.set)
    assert all(matins.runs.list(schedule=str(n))[0].state == "succeeded" for n in range(50))


def test_cancel_reaches_an_async_job_at_once(tmp_path: Path) -> None:
    """B8: without waiting for the next beat"""
    matins = Matins(beat_ms=HOUR_MS)
    begun, left = threading.Event(), threading.Event()

    @matins.job("stand")
    async def stand(run: JobContext) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    matins.add("s", when="0 0 1 1 *", job="stand", retries=5)
    with matins:
        run = matins.run("s")
        assert begun.wait(PATIENCE)
        assert matins.runs.cancel(run.id).state == "running"
        assert left.wait(PATIENCE)
    assert matins.runs.list(schedule="s")[0].state == "cancelled"
    matins.close()


def test_cancel_is_seen_by_a_sync_job_that_looks(matins: Matins) -> None:
    """B8"""
    begun, asked = threading.Event(), threading.Event()

    @matins.job("look")
    def look(run: JobContext) -> None:
        begun.set()
        assert asked.wait(PATIENCE)
        if run.cancelled:
            raise InterruptedError("asked to leave")

    matins.add("s", when="0 0 1 1 *", job="look")
    with matins:
        assert matins._loop is not None
        executor = matins._loop.engine.executor
        cancel = executor.cancel
        executor.cancel = lambda run_ids: (cancel(run_ids), asked.set())[0]  # type: ignore[method-assign]
        run = matins.run("s")
        assert begun.wait(PATIENCE)
        matins.runs.cancel(run.id)
        assert asked.wait(PATIENCE)
    shown = matins.runs.list(schedule="s")[0]
    assert (shown.state, shown.reason) == ("cancelled", "cancelled")


def test_a_job_past_its_limit_is_held_and_seen_and_then_ends(matins: Matins) -> None:
    """H2: with its place, until its thread is through; whatever `on_unknown` says"""
    job = matins.jobs["job"] = Signal(stands=True)
    other = matins.jobs["other"] = Signal()
    matins.add("s", when="0 0 1 1 *", job="job", timeout="1s", on_unknown="retry", retries=3)
    matins.add("other", when="0 0 1 1 *", job="other")
    with matins:
        matins.run("s")
        job.wait()
        held = next(run for _ in each_turn(matins) if (run := matins.runs.list(schedule="s")[0]).state == "held")
        assert (held.reason, held.ended_at) == ("timed_out", None)
        assert matins.run("s").reason == "already_running"
        matins.run("other")
        other.wait()
        job.go.set()
    _, run = matins.runs.list(schedule="s")
    assert (run.state, run.reason, run.attempt) == ("failed", "timed_out", 1)


# -- limits, with real threads


@pytest.mark.parametrize(("scope", "size"), [("agent:x", 2), ("global", 3)])
def test_a_limit_is_never_exceeded_and_nobody_starves(matins: Matins, scope: str, size: int) -> None:
    """H10 V3: and it really takes effect above 1, or they would wait for one another for ever"""
    lock, together = threading.Lock(), threading.Barrier(size, timeout=PATIENCE)
    now, most, count = 0, 0, 0
    all_done = threading.Event()

    @matins.job("count")
    def count_them(run: JobContext) -> None:
        nonlocal now, most, count
        with lock:
            now += 1
            most = max(most, now)
        together.wait()
        with lock:
            now -= 1
            count += 1
            if count == 60:
                all_done.set()

    matins.limits.set(scope, size=size)
    matins.add_many([{"name": f"s{n}", "agent": "x", "when": "0 0 1 1 *", "job": "count"} for n in range(60)])
    with matins:
        for n in range(60):
            matins.run(f"s{n}")
        assert all_done.wait(PATIENCE)
    assert most == size
    assert all(matins.runs.list(schedule=f"s{n}")[0].state == "succeeded" for n in range(60))


def test_with_nothing_free_the_loop_sleeps(matins: Matins) -> None:
    """H10: waiting for a permit costs nothing"""
    job = matins.jobs["job"] = Signal(stands=True)
    matins.limits.set("global", size=1)
    matins.add("s", when="0 0 1 1 *", job="job", overlap="allow")
    with matins:
        matins.run("s")
        matins.run("s")
        job.wait()
        assert matins._loop is not None
        engine, delays = matins._loop.engine, SimpleQueue[int]()
        turn = engine.turn
        engine.turn = lambda: (delay := turn(), delays.put(delay))[0]  # type: ignore[method-assign]
        for _ in range(2):
            matins._loop.wake()
            assert delays.get(timeout=PATIENCE) > 0
        job.go.set()
        job.wait()
