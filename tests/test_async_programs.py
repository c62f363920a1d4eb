"""Matins in programs with an event loop: async jobs run on it, and it may end before Matins does. Row B19."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from matins import Matins
from matins.runtime.signals import Standby

YEARLY = "0 0 1 1 *"
PATIENCE = 60


@pytest.fixture
def m() -> Iterator[Matins]:
    matins = Matins("sqlite://", check_interval_ms=20)
    yield matins
    matins.close()


async def until(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, PATIENCE)


def test_b19_async_jobs_run_on_the_loop_of_the_program(m: Matins) -> None:
    """B19: with its locks, its connections and its thread; sync jobs keep theirs"""

    async def main() -> None:
        lock, here = asyncio.Lock(), (asyncio.get_running_loop(), threading.get_ident())
        waiting = asyncio.Event()

        @m.schedule(YEARLY)
        async def shared() -> bool:
            waiting.set()
            async with lock:
                return here == (asyncio.get_running_loop(), threading.get_ident())

        class Called:
            async def __call__(self, run: Any) -> bool:
                return here == (asyncio.get_running_loop(), threading.get_ident())

        m.jobs["called"] = Called()
        m.add("called", when=YEARLY, job="called")
        m.schedule(YEARLY, name="plain")(lambda: here[1] != threading.get_ident())
        async with m:
            async with lock:
                run = await m.awaitable.run("shared")
                await waiting.wait()  # the job waits for a lock of the program
            runs = [run, await m.awaitable.run("called"), await m.awaitable.run("plain")]
            ended = [await m.awaitable.runs.wait(one.id, timeout=PATIENCE) for one in runs]
            assert [(one.state, (one.outcome or {})["result"]) for one in ended] == [("succeeded", True)] * 3

    asyncio.run(main())


def test_b19_cancelling_and_timeouts_reach_the_loop(m: Matins) -> None:
    """B19: the job sees it where it waits, and may clean up"""

    async def main() -> None:
        cleaned: list[str] = []

        async def stand(run: Any) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                cleaned.append(run.schedule)

        begun = asyncio.Event()
        m.job("stand")(stand)
        m.add("cancelled", when=YEARLY, job="stand")
        m.add("late", when=YEARLY, job="stand", timeout="1ms")
        async with m:
            run = await m.awaitable.run("cancelled")
            await begun.wait()
            await m.awaitable.runs.cancel(run.id)
            cancelled = await m.awaitable.runs.wait(run.id, timeout=PATIENCE)
            late = await m.awaitable.runs.wait((await m.awaitable.run("late")).id, timeout=PATIENCE)
        assert (cancelled.state, late.state, late.reason) == ("cancelled", "failed", "timed_out")
        assert cleaned == ["cancelled", "late"]

    asyncio.run(main())


def test_b19_leaving_waits_for_jobs_of_the_loop(m: Matins) -> None:
    """B19: they go on meanwhile, and the loop too. Then Matins may be used again, also without a loop"""
    done: list[str] = []

    async def main() -> None:
        begun, go = asyncio.Event(), asyncio.Event()

        @m.schedule(YEARLY)
        async def slow() -> None:
            begun.set()
            await go.wait()
            done.append("slow")

        async with m:
            await m.awaitable.run("slow")
            await begun.wait()
            asyncio.get_running_loop().call_soon(go.set)
        assert done == ["slow"]

    asyncio.run(main())
    m.jobs["slow"] = _returns_two
    with m:
        ended = m.runs.wait(m.run("slow").id, timeout=PATIENCE)
        assert (ended.state, (ended.outcome or {})["result"]) == ("succeeded", 2)


async def _returns_two(run: Any) -> int:
    return 2


def test_b19_a_loop_that_ends_fails_what_it_cancels(m: Matins) -> None:
    """B19: a program that does not stop Matins. The failure says so, later runs wait, and a new loop runs them"""
    begun = threading.Event()

    async def stand(run: Any) -> str:
        if not begun.is_set():
            begun.set()
            await asyncio.Event().wait()
        return "later"

    m.job("stand")(stand)
    m.add("s", when=YEARLY, job="stand")

    async def leave() -> str:
        await m.__aenter__()
        run = await m.awaitable.run("s")
        await until(begun)
        return run.id

    first = m.runs.wait(asyncio.run(leave()), timeout=PATIENCE)
    assert first.state == "failed"
    assert "the program cancelled the job" in (first.outcome or {})["error"]
    second = m.run("s")
    m.schedule(YEARLY, name="plain")(lambda: None)
    assert m.runs.wait(m.run("plain").id, timeout=PATIENCE).state == "succeeded"
    assert m.runs.get(second.id).state == "ready"
    m.stop()

    async def again() -> str:
        async with m:
            return (await m.awaitable.runs.wait(second.id, timeout=PATIENCE)).state

    assert asyncio.run(again()) == "succeeded"


def test_b19_a_loop_that_is_closed_under_its_jobs(m: Matins) -> None:
    """B19: nothing more is heard of them, so they have failed"""
    begun = threading.Event()

    async def stand(run: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    m.job("stand")(stand)
    m.add("s", when=YEARLY, job="stand")
    loop = asyncio.new_event_loop()
    loop.run_until_complete(m.__aenter__())
    run = m.run("s")
    loop.run_until_complete(until(begun))
    tasks = asyncio.all_tasks(loop)
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    ended = m.runs.wait(run.id, timeout=PATIENCE)
    assert (ended.state, (ended.outcome or {})["error"]) == ("failed", "the event loop of the program has ended")
    for task in tasks:
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        with suppress(BaseException):
            task.get_coro().close()  # type: ignore[union-attr]


def test_b19_a_loop_that_is_blocked_runs_nothing_twice(m: Matins) -> None:
    """B19: a run that does not begin within a second is released, and the loop does not begin it afterwards"""
    ran: list[int] = []

    async def main() -> None:
        released = threading.Event()
        m.subscribe(lambda event: released.set(), types="run.released")

        @m.schedule(YEARLY)
        async def count(run: Any) -> None:
            ran.append(run.attempt)

        async with m:
            run = m.run("count")
            assert released.wait(PATIENCE)  # the loop is blocked
            assert (await m.awaitable.runs.wait(run.id, timeout=PATIENCE)).state == "succeeded"

    asyncio.run(main())
    assert len(ran) == 1


def test_b19_an_engine_that_takes_over_uses_the_loop(tmp_path: Path) -> None:
    """B19: it stood by when the program entered"""
    url = f"sqlite:///{tmp_path}/matins.db"

    async def main() -> None:
        first, second = Matins(url), Matins(url)
        here = asyncio.get_running_loop()

        async def work(run: Any) -> bool:
            return asyncio.get_running_loop() is here

        for each in (first, second):
            each.job("work")(work)
        await asyncio.to_thread(first.start)
        async with second:
            assert isinstance(second._standby, Standby)
            await asyncio.to_thread(first.close)
            second.add("a", when=YEARLY, job="work")
            ended = await second.awaitable.runs.wait((await second.awaitable.run("a")).id, timeout=PATIENCE)
            assert (ended.outcome or {})["result"] is True
        second.close()

    asyncio.run(main())
