"""Engines that start and stop, come after one another, and stand beside one another."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import loop_jobs
import pytest
from loop_jobs import HOUR_MS, PATIENCE, Signal, each_turn

from matins import Matins, SchedulerShutdownError
from matins.api.results import Run
from matins.executors.job_context import JobContext
from matins.runtime.attempt import Attempt
from matins.runtime.engine import Engine

matins = loop_jobs.matins


def test_starting_twice_is_a_no_op(matins: Matins) -> None:
    """H2"""
    with matins:
        before = set(threading.enumerate())
        assert matins.start() is matins
        assert not set(threading.enumerate()) - before


def test_stop_waits_for_what_runs_and_starts_nothing_new(matins: Matins) -> None:
    """H2"""
    job = matins.jobs["job"] = Signal(stands=True)
    matins.add("s", when="0 0 1 1 *", job="job", overlap="queue")
    matins.start()
    matins.run("s")
    matins.run("s")
    job.wait()
    stopping = threading.Thread(target=matins.stop)
    stopping.start()
    assert next(engine for engine in each_turn(matins) if not engine.accepting)
    assert stopping.is_alive()
    job.go.set()
    stopping.join(PATIENCE)
    assert [run.state for run in matins.runs.list(schedule="s")] == ["ready", "succeeded"]
    assert len(job.runs) == 1


def test_a_stop_that_takes_too_long_raises_with_the_count(matins: Matins) -> None:
    """H2"""
    job = matins.jobs["job"] = Signal(stands=True)
    matins.add("s", when="0 0 1 1 *", job="job", overlap="allow")
    matins.start()
    matins.run("s")
    matins.run("s")
    job.wait(2)
    with pytest.raises(SchedulerShutdownError) as caught:
        matins.stop(wait=True, timeout=0.05)
    assert str(caught.value) == "Scheduler shutdown timed out after 50ms with 2 job(s) still running"
    assert (caught.value.timed_out, caught.value.running_job_count) == (True, 2)
    job.go.set()


def test_a_stop_that_does_not_wait_leaves_at_once(matins: Matins) -> None:
    """H2"""
    job = matins.jobs["job"] = Signal(stands=True)
    matins.add("s", when="0 0 1 1 *", job="job")
    matins.start()
    matins.run("s")
    job.wait()
    matins.stop(wait=False)
    assert matins.runs.list(schedule="s")[0].state == "running"
    job.go.set()


def test_stopping_what_does_not_run_is_a_no_op(matins: Matins) -> None:
    """H2"""
    matins.stop()
    with matins:
        pass
    matins.stop()


def test_it_can_be_started_again(matins: Matins) -> None:
    """H2 P8"""
    job = matins.jobs["job"] = Signal()
    matins.add("s", when="0 0 1 1 *", job="job")
    for _ in range(3):
        with matins:
            matins.run("s")
            job.wait()
    assert [run.state for run in matins.runs.list(schedule="s")] == ["succeeded"] * 3


def test_no_thread_is_left_behind(matins: Matins) -> None:
    """H2"""
    before = set(threading.enumerate())

    @matins.job("later")
    async def later(run: JobContext) -> None:
        await asyncio.sleep(0)

    job = matins.jobs["job"] = Signal()
    matins.add_many([{"name": do, "when": "0 0 1 1 *", "job": do} for do in ("job", "later")])
    with matins:
        matins.run("job")
        matins.run("later")
        job.wait()
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE)
        assert not thread.is_alive(), thread.name


def test_stopping_while_a_claimed_run_is_being_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """H11: it is waited for, and no shutdown error is raised for a run that nobody had begun"""
    handing_over, go_on = threading.Event(), threading.Event()
    hand_over = Engine._hand_over

    def slowly(engine: Engine, start: list[Attempt], since: int) -> None:
        if start:
            handing_over.set()
            assert go_on.wait(PATIENCE)
        hand_over(engine, start, since)

    monkeypatch.setattr(Engine, "_hand_over", slowly)
    m = Matins("sqlite://")
    m.job("work")(lambda run: None)
    m.add("a", when="0 0 1 1 *", job="work")
    m.start()
    m.run("a")
    assert handing_over.wait(PATIENCE)
    later = threading.Timer(0.2, go_on.set)
    later.start()
    m.stop(timeout=PATIENCE)
    later.join()
    assert m.runs.list(schedule="a")[0].state == "succeeded"
    m.close()


# -- two of them


def test_a_second_engine_on_the_same_file_is_refused(tmp_path: Path) -> None:
    """S2"""
    url = f"sqlite:///{tmp_path}/matins.db"
    one, other = Matins(url), Matins(url)
    with one:
        with pytest.raises(Exception, match="Another engine is running on this store") as caught:
            other.start(strict=True)
        assert (caught.type.__name__, bool(caught.value.hint)) == ("StoreBusy", True)
    with other:
        pass
    one.close()
    other.close()


def test_what_another_says_goes_through_the_engine_and_wakes_it(tmp_path: Path) -> None:
    """H2 S2"""
    url = f"sqlite:///{tmp_path}/matins.db"
    engine, client = Matins(url, check_interval_ms=HOUR_MS), Matins(url)
    job = engine.jobs["job"] = Signal()
    with engine:
        client.add("s", when="0 0 1 1 *", job="job")
        assert client.run("s", key="once").id == client.run("s", key="once").id
        job.wait()
        with pytest.raises(Exception, match="There is a schedule") as caught:
            client.add("s", when="0 0 1 1 *", job="job")
        assert caught.type.__name__ == "Conflict"
    assert len(job.runs) == 1
    engine.close()
    client.close()


def ended(matins: Matins, name: str) -> Run:
    """The newest run of a schedule, when the engine has nothing left to write."""
    matins.stop()
    return matins.runs.list(schedule=name)[0]


def test_a_crashed_engines_runs_are_taken_up_by_the_next(tmp_path: Path) -> None:
    """H8: no schedule stuck in running after a crash"""
    url = f"sqlite:///{tmp_path}/matins.db"
    first = Matins(url)
    stuck = first.jobs["job"] = Signal(stands=True)
    first.add("s", when="0 0 1 1 *", job="job")
    first.start()
    first.run("s")
    stuck.wait()
    first.stop(wait=False)
    second = Matins(url)
    job = second.jobs["job"] = Signal()
    with second:
        job.wait()
    run = ended(second, "s")
    assert (run.state, run.attempt, run.epoch) == ("succeeded", 2, 2)
    stuck.go.set()
    first.close()
    second.close()
