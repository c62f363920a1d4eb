"""Python functions, sync and async, in this process."""

from __future__ import annotations

import asyncio
import inspect
import threading
import traceback
from collections.abc import Callable
from copy import deepcopy
from datetime import datetime
from queue import Empty, SimpleQueue
from typing import Any

from matins.engine.policies import Policies
from matins.engine.when.triggers import to_ms
from matins.errors import OverBudget, RateLimited
from matins.executors.commands import kept_reason
from matins.executors.meter import Meter
from matins.model.run import Outcome, ProviderLimit, RunState, Usage
from matins.model.settings import MAX_NAME_LENGTH
from matins.ports import Clock
from matins.runtime.work import Ended, Work

Job = Callable[["JobContext"], Any]
MOST_AHEAD = 1_024
"""Two batches, so that a full one can be taken while the one before it runs."""
MOST_TASKS = 5_000
_AHEAD_AT_FIRST = 4
_SLOW_START_MS = 1_000
_DONE = Outcome(True)
_UNREAD = object()


class JobContext:
    """What a job is told about its run."""

    __slots__ = ("_executor", "_payload", "_work")

    def __init__(self, work: Work, executor: PythonExecutor) -> None:
        self._work = work
        self._executor = executor
        self._payload: Any = _UNREAD

    @property
    def id(self) -> int:
        return self._work.run_id

    @property
    def schedule(self) -> str:
        return self._work.known.name

    @property
    def agent(self) -> str:
        return self._work.known.agent

    @property
    def slot(self) -> datetime | None:
        """The nominal instant, in the schedule's zone; None for a manual run."""
        return self._local(self._work.slot)

    @property
    def key(self) -> str:
        """The same for every attempt of this run, and for no other run."""
        return f"{self._executor.key_prefix}-{self._work.run_id}"

    @property
    def attempt(self) -> int:
        return self._work.attempt

    @property
    def payload(self) -> Any:
        """The run's own copy: what a job does to it, no other run sees."""
        if self._payload is _UNREAD:
            self._payload = deepcopy(self._work.known.definition.payload)
        return self._payload

    @property
    def lateness(self) -> float:
        """Seconds from the slot to the start."""
        slot = self._work.slot
        return 0.0 if slot is None else max(0, self._work.started_at - slot) / 1000

    @property
    def slots(self) -> int:
        """How many slots this run stands for; more than one after a catch-up."""
        return self._work.slots

    @property
    def first_slot(self) -> datetime | None:
        """The first of them, when there are several."""
        return self._local(self._work.first_slot)

    @property
    def previous_state(self) -> str | None:
        """How the run before this one ended, if one did."""
        state = self._executor.previous(self._work)
        return None if state is None else state.label

    def spend(
        self,
        money: str | None = None,
        tokens: int = 0,
        *,
        model: str | None = None,
        input: int = 0,  # noqa: A002 - the providers' own word
        output: int = 0,
        cached: int = 0,
    ) -> None:
        """Tell what this run has spent: `money` ("$0.02") as the provider told it, else reckoned by the model's price.
        Raises OverBudget when the run has spent what it may."""
        self._executor.meter.add(self._work, money, tokens, model, input, output, cached)

    @property
    def cancelled(self) -> bool:
        """Whether somebody wants this run to end: a long sync job should look now and then."""
        return self._executor.is_cancelled(self._work.run_id)

    def _local(self, at: int | None) -> datetime | None:
        return None if at is None else self._work.known.rule.trigger.local(at)

    def __repr__(self) -> str:
        return f"<JobContext {self.id} of {self.schedule!r}, slot {self.slot}, attempt {self.attempt}>"


def run_job(executor: PythonExecutor, work: Work) -> Outcome:
    """Call a sync job; whatever it raises is its outcome."""
    job = executor.jobs.get(work.known.definition.job)
    if job is None:
        return Outcome(False, error=f'no job is registered as "{work.known.definition.job}" in this process')
    try:
        result = job(JobContext(work, executor))
        if result is None:
            return _DONE
        return Outcome(True, asyncio.run(result) if inspect.iscoroutine(result) else result)
    except BaseException as error:  # a job may raise anything, SystemExit too; the thread goes on
        return _failed(error)


class PythonExecutor:
    """Sync jobs on a few threads, async jobs on a loop in a thread of its own."""

    def __init__(
        self,
        jobs: dict[str, Job],
        clock: Clock,
        wake: Callable[[], None],
        *,
        threads: int,
        key_prefix: str,
        previous: Callable[[Work], RunState | None],
        policies: Callable[[], Policies] = Policies,
        spent: Callable[[int], Usage] = lambda run_id: Usage(),
    ) -> None:
        self.jobs = jobs
        self._clock = clock
        self._wake = wake
        self._threads = threads
        self.key_prefix = key_prefix
        self.previous = previous
        self.meter = Meter(policies, spent)
        self._queue: SimpleQueue[Work | None] = SimpleQueue()
        self._ended: SimpleQueue[Ended] = SimpleQueue()
        # By (run, epoch): a held run may be tried again while its first attempt still has a thread.
        self._taken: dict[tuple[int, int], tuple[Work, int]] = {}
        self._begun: dict[tuple[int, int], int] = {}
        self._overdue: set[tuple[int, int]] = set()
        self._withdrawn: set[tuple[int, int]] = set()
        self._cancelled: set[int] = set()
        self._ahead = threads * _AHEAD_AT_FIRST
        self._pool: list[threading.Thread] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: dict[tuple[int, int], asyncio.Task[None]] = {}

    def start(self) -> None:
        if not self._pool:
            self._pool = [
                threading.Thread(target=self._work, name=f"matins-job-{n}", daemon=True) for n in range(self._threads)
            ]
            for thread in self._pool:
                thread.start()

    def stop(self) -> None:
        for _ in self._pool:
            self._queue.put(None)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop = None
        self._pool = []

    def submit(self, batch: list[Work]) -> None:
        boot = self._clock.boot_ms()
        on_loop: list[Work] = []
        asynchronous = {name for name, job in self.jobs.items() if inspect.iscoroutinefunction(job)}
        for work in batch:
            self._taken[work.mark] = work, boot
            if work.known.definition.job in asynchronous:
                on_loop.append(work)
            else:
                self._queue.put(work)
        if on_loop:
            self._event_loop().call_soon_threadsafe(self._begin_all, on_loop)

    def adoptable(self, work: Work) -> bool:
        return False  # what ran in a process that is gone is gone with it

    def adopt(self, works: list[Work]) -> None:
        raise AssertionError("there is nothing to adopt")

    def drain(self) -> list[Ended]:
        ended: list[Ended] = []
        try:
            while True:
                ended.append(self._ended.get_nowait())
        except Empty:
            pass
        for item in ended:
            self._taken.pop(item.work.mark, None)
            self._overdue.discard(item.work.mark)
        if ended and self._queue.qsize() < self._threads:
            # The threads are nearly through with what was taken: jobs are short, so more may be taken at a time.
            self._ahead = min(self._ahead * 2, MOST_AHEAD)
        return ended

    def room(self, *, talks: bool = False) -> int:
        on_loop = len(self._tasks)  # they need no thread, so they are not in the way of others
        return min(self._ahead - (len(self._taken) - on_loop), MOST_TASKS - on_loop)

    def running(self) -> int:
        return len(self._taken)

    def busy(self) -> bool:
        return len(self._taken) > self._ended.qsize()

    def withdraw(self, *, everything: bool = False) -> list[Work]:
        patience = -1 if everything else _SLOW_START_MS
        boot = self._clock.boot_ms()
        late = [
            work
            for work, taken in list(self._taken.values())
            if boot - taken > patience and work.mark not in self._begun and work.mark not in self._overdue
        ]
        if late:
            self._ahead = self._threads  # jobs are long: take no more than can start
        back: list[Work] = []
        for work in late:
            self._withdrawn.add(work.mark)
            if work.mark in self._begun:  # it began in this very moment
                self._withdrawn.discard(work.mark)
            else:
                self._taken.pop(work.mark, None)
                back.append(work)
        return back

    def overdue(self) -> list[Work]:
        boot = self._clock.boot_ms()
        late: list[Work] = []
        for mark, begun in list(self._begun.items()):
            taken = self._taken.get(mark)
            if taken is None or mark in self._overdue:
                continue
            limit = taken[0].known.definition.timeout_ms
            if limit is not None and boot - begun > limit:
                self._overdue.add(mark)
                if mark in self._tasks:
                    self.cancel({taken[0].run_id})
                else:
                    late.append(taken[0])
        return late

    def cancel(self, run_ids: set[int]) -> None:
        """Async jobs are cancelled; a sync job sees it when it asks, since no thread can be ended from outside."""
        self._cancelled |= run_ids
        for (run_id, _), task in list(self._tasks.items()):
            if run_id in run_ids and self._loop is not None:
                self._loop.call_soon_threadsafe(task.cancel)

    def interrupt(self) -> int:
        return 0  # no thread can be ended from outside

    def is_cancelled(self, run_id: int) -> bool:
        return run_id in self._cancelled

    # -- in the job threads

    def _work(self) -> None:
        while (work := self._queue.get()) is not None:
            self._begun[work.mark] = self._clock.boot_ms()
            if work.mark in self._withdrawn:
                self._withdrawn.discard(work.mark)
                self._begun.pop(work.mark, None)
                continue
            self._end(work, run_job(self, work))

    def _end(self, work: Work, outcome: Outcome) -> None:
        self._begun.pop(work.mark, None)
        if work.mark in self._overdue:
            outcome = Outcome(False, error=outcome.error or "it ended after its limit", timed_out=True)
        elif work.run_id in self._cancelled and not outcome.succeeded:
            outcome = Outcome(False, error=outcome.error, cancelled=True)
        self._cancelled.discard(work.run_id)
        self._ended.put(Ended(work, self.meter.read(work, outcome) if self.meter.used else outcome))
        self._wake()

    # -- on the loop

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=_serve, args=(self._loop,), name="matins-async", daemon=True).start()
        return self._loop

    def _begin_all(self, works: list[Work]) -> None:
        assert self._loop is not None
        for work in works:
            self._begun[work.mark] = self._clock.boot_ms()
            self._tasks[work.mark] = self._loop.create_task(self._await(work))

    async def _await(self, work: Work) -> None:
        try:
            outcome = Outcome(True, await self.jobs[work.known.definition.job](JobContext(work, self)))
        except asyncio.CancelledError:
            outcome = Outcome(False, error="cancelled", cancelled=True)
        except BaseException as error:
            outcome = _failed(error)
        self._tasks.pop(work.mark, None)
        self._end(work, outcome)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


def _failed(error: BaseException) -> Outcome:
    limit = _limit(error) if isinstance(error, RateLimited) else None
    return Outcome(False, error=_told(error), limit=limit, over_budget=isinstance(error, OverBudget))


def _limit(error: RateLimited) -> ProviderLimit:
    """Jobs say all sorts of things: here it is as a store can hold it. When nobody knows the time, it is soon."""
    at: object = error.resets_at
    resets_at = to_ms(at) if isinstance(at, datetime) and at.tzinfo is not None else None
    provider = kept_reason(str(error.provider or "unknown"))[:MAX_NAME_LENGTH]
    return ProviderLimit(provider, resets_at, kept_reason(str(error.reason or "rate limited")))


def _told(error: BaseException) -> str:
    return "".join(traceback.format_exception(error, limit=-20))[-8_000:]
