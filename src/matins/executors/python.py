"""The executor for Python jobs, sync and async, in this process.

The event loop of async jobs: that of the program, or one in a thread of its own.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from datetime import datetime
from itertools import takewhile
from queue import Empty, SimpleQueue
from types import CodeType
from typing import TYPE_CHECKING, Any

from matins.engine.policies import Policies
from matins.engine.when.triggers import to_ms
from matins.errors import OverBudget, RateLimited
from matins.executors.check_executor import awaited
from matins.executors.commands import storable_reason
from matins.executors.job_context import JobContext, NotBegun
from matins.executors.metering import UsageMeter
from matins.executors.registry import JobRegistry
from matins.executors.work_items import NoWork
from matins.model.clock import Clock
from matins.model.rows import from_tuple
from matins.model.run import DONE, Outcome, ProviderLimit
from matins.model.settings import MAX_NAME_LENGTH
from matins.runtime.agent_folders import folder_of
from matins.runtime.attempt import MAX_LEAD_MS, Attempt, AttemptEnd, Mark, mark_of
from matins.runtime.catalog import CompiledSchedule
from matins.runtime.clock import seconds_left
from matins.runtime.run_context import RunContexts

if TYPE_CHECKING:
    import asyncio

GONE = "the event loop of the program has ended"
_CLEAN_UP_S = 5


class JobLoop:
    """`of_program` is a loop that runs as long as the program wants; it is never stopped here."""

    def __init__(self, of_program: asyncio.AbstractEventLoop | None = None) -> None:
        self._of_program = of_program
        self._own: asyncio.AbstractEventLoop | None = None

    @property
    def is_gone(self) -> bool:
        """Whether the program has closed its loop. What was on it never ends."""
        return self._of_program is not None and self._of_program.is_closed()

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call it on the loop soon; never, if the loop is gone."""
        try:
            self._loop().call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            if not self.is_gone:
                raise

    def stop(self) -> None:
        if self._own is not None:
            self._own.call_soon_threadsafe(self._own.stop)
            self._own = None

    def _loop(self) -> asyncio.AbstractEventLoop:
        if self._of_program is not None:
            return self._of_program
        if self._own is None:
            import asyncio  # here and below: programs without async jobs need not load it

            self._own = asyncio.new_event_loop()
            threading.Thread(target=_serve, args=(self._own,), name="matins-async", daemon=True).start()
        return self._own


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    import asyncio

    try:
        loop.run_forever()
    finally:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:  # jobs that still run clean up; their outcome is no longer used
            loop.run_until_complete(asyncio.wait(tasks, timeout=_CLEAN_UP_S))
        loop.close()


Job = Callable[[JobContext], Any]
MAX_CLAIMED_AHEAD = 1_024
"""Two batches: one can be claimed while the previous one runs."""
MAX_ASYNC_TASKS = 5_000
_INITIAL_AHEAD = 4
_SLOW_START_MS = 1_000
_CANCELLED_BY_PROGRAM = "the program cancelled the job; perhaps its event loop was ending"
_ended = from_tuple(AttemptEnd)
_MAX_FRAMES, _MAX_REMEMBERED = 20, 1_000
_TOLD_WITH_FRAMES = (BaseExceptionGroup, NameError, ImportError, SyntaxError)
"""Exceptions whose text depends on more than their message."""
_FRAMES: dict[tuple[int, int], tuple[CodeType, str]] = {}
"""The lines of a traceback by the code that raised and the place in it. The code is kept, so that its id is not given
again."""


def run_job(executor: PythonExecutor, attempt: Attempt) -> Outcome:
    """Call a sync job and return the outcome. An exception is a failure."""
    job = executor.jobs.get(attempt.compiled.shared.definition.job)
    if job is None or job.run is None:
        return Outcome(
            False, error=f'the job "{attempt.compiled.shared.definition.job}" is not registered in this process'
        )
    if job.services and (missing := executor.jobs.unavailable(job)) is not None:
        return Outcome(False, error=missing)
    try:
        result = job.run(JobContext(attempt, executor))
        if result is None:
            return DONE
        return Outcome(True, awaited(result))
    except BaseException as error:  # a job may raise anything, even SystemExit; the thread continues
        return _failed(error)


class PythonExecutor:
    """Runs sync jobs on a few threads, and async jobs on the loop of the program, or on one of its own."""

    def __init__(
        self,
        jobs: JobRegistry,
        clock: Clock,
        wake: Callable[[], None],
        loader: RunContexts,
        *,
        threads: int,
        api: Any = None,
        workdir: str | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.jobs = jobs
        self.api = api
        self._workdir = workdir or "."
        self._clock = clock
        self._wake = wake
        self._threads = threads
        self.loader = loader
        self.meter = UsageMeter(loader)
        self._queue: SimpleQueue[Attempt | None] = SimpleQueue()
        self._ended: SimpleQueue[AttemptEnd] = SimpleQueue()
        # By (run, epoch): a held run may be retried while the first attempt still has a thread.
        self._active: dict[Mark, tuple[Attempt, int]] = {}
        self._started: dict[Mark, int] = {}
        """Until the end has been drained: a job that has ended meanwhile is not given back."""
        self._overdue: set[Mark] = set()
        self._not_begun: set[Mark] = set()
        """Attempts whose jobs gave them back: the next turn releases their runs."""
        self._withdrawn: set[Mark] = set()
        self._cancelled: set[Mark] = set()
        self._max_ahead = threads * _INITIAL_AHEAD
        self._submitted_at = 0
        """The time of the last submission. An attempt that starts later was planned ahead."""
        self._pool: list[threading.Thread] = []
        self._loop = JobLoop(loop)
        self._tasks: dict[Mark, asyncio.Task[None]] = {}

    def start(self) -> None:
        if not self._pool:
            self._pool = [
                threading.Thread(target=self._run_jobs, name=f"matins-job-{n}", daemon=True)
                for n in range(self._threads)
            ]
            for thread in self._pool:
                thread.start()

    def stop(self) -> None:
        for _ in self._pool:
            self._queue.put(None)
        self._loop.stop()
        self._pool = []

    def submit(self, batch: list[Attempt]) -> None:
        boot, active, put = self._clock.boot_ms(), self._active, self._queue.put
        self._submitted_at = self._clock.now_ms()
        on_loop: list[Attempt] = []
        is_async: dict[str, bool] = {}
        for attempt in batch:
            active[mark_of(attempt)] = attempt, boot
            name = attempt.compiled.shared.definition.job
            if name not in is_async:
                job = self.jobs.get(name)
                is_async[name] = job is not None and job.is_async
            if is_async[name]:
                on_loop.append(attempt)
            else:
                put(attempt)
        if on_loop:
            self._loop.call(self._begin_all, on_loop)

    def adoptable(self, attempt: Attempt) -> bool:
        return False  # the job ended with its process

    def follows(self, item: CompiledSchedule) -> bool:
        return False

    def use(self, policies: Policies) -> None:
        """Do nothing: attempts come with what they need."""

    def adopt(self, attempts: list[Attempt]) -> None:
        raise AssertionError("there is nothing to adopt")

    def drain(self) -> list[AttemptEnd]:
        if self._tasks and self._loop.is_gone:
            self._give_up_tasks()
        ended: list[AttemptEnd] = []
        get, pop, forget = self._ended.get_nowait, self._active.pop, self._started.pop
        try:
            while True:
                ended.append(get())
        except Empty:
            pass
        for attempt, _ in ended:
            mark = mark_of(attempt)
            pop(mark, None)
            forget(mark, None)
        if self._overdue:
            self._overdue.difference_update([attempt.mark for attempt, _ in ended])
        if self._cancelled:
            self._cancelled.difference_update([attempt.mark for attempt, _ in ended])
        if ended and self._queue.qsize() < self._threads:
            # The threads have almost finished the claimed attempts: jobs are short, so more may be claimed at a time.
            self._max_ahead = min(self._max_ahead * 2, MAX_CLAIMED_AHEAD)
        return ended

    def capacity(self, *, for_agents: bool = False) -> int:
        on_loop = len(self._tasks)  # async jobs need no thread, so they take no capacity from sync jobs
        return min(self._max_ahead - (len(self._active) - on_loop), MAX_ASYNC_TASKS - on_loop)

    def running(self) -> int:
        return len(self._active)

    def marks(self) -> set[Mark]:
        return set(self._active)

    def busy(self) -> bool:
        return len(self._active) > self._ended.qsize()

    def withdraw(self, *, everything: bool = False) -> list[Attempt]:
        latest = self._clock.boot_ms() - (-1 if everything else _SLOW_START_MS)
        late = [
            attempt
            for attempt, _ in takewhile(lambda one: one[1] < latest, self._active.values())  # the oldest are first
            if attempt.mark not in self._started and attempt.mark not in self._overdue
        ]
        if late:
            self._max_ahead = self._threads  # jobs are long: claim no more than can start
        withdrawn = [self._active.pop(mark)[0] for mark in list(self._not_begun) if mark in self._active]
        self._not_begun.difference_update(attempt.mark for attempt in withdrawn)
        for attempt in late:
            if attempt.mark not in self._active:
                continue
            self._withdrawn.add(attempt.mark)
            if attempt.mark in self._started:  # it started just now
                self._withdrawn.discard(attempt.mark)
            else:
                self._active.pop(attempt.mark, None)
                withdrawn.append(attempt)
        return withdrawn

    def overdue(self) -> list[Attempt]:
        boot = self._clock.boot_ms()
        late: list[Attempt] = []
        for mark, started in list(self._started.items()):
            submitted = self._active.get(mark)
            if submitted is None or mark in self._overdue:
                continue
            limit = submitted[0].compiled.shared.definition.timeout_ms
            if limit is not None and boot - started > limit:
                self._overdue.add(mark)
                if mark in self._tasks:
                    self.cancel({submitted[0].run_id})
                else:
                    late.append(submitted[0])
        return late

    def cancel(self, run_ids: set[int]) -> None:
        """Cancel async jobs. A sync job sees it in `cancelled`: threads cannot be ended from outside."""
        self._cancelled |= {mark for mark in list(self._active) if mark[0] in run_ids}
        for (run_id, _), task in list(self._tasks.items()):
            if run_id in run_ids:
                self._loop.call(task.cancel)

    def offers(self) -> frozenset[str]:
        """The jobs. Without the loop of the program, async ones are left to another engine, or to the next start."""
        if not self._loop.is_gone:
            return self.jobs.offers
        return self.jobs.offers - {f"job:{job.name}" for job in self.jobs if job.is_async}

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def folder_of(self, attempt: Attempt) -> str:
        agent = self.loader.policies(attempt).agents.get(attempt.compiled.agent)
        return self._workdir if agent is None else folder_of(agent, self._workdir)

    def renew(self, marks: set[Mark], since: int) -> None:
        """Do nothing: no lease ends a function."""

    def interrupt(self) -> int:
        return 0  # threads cannot be ended from outside

    def accept(self) -> None:
        """Do nothing: nothing was interrupted."""

    def is_cancelled(self, mark: Mark) -> bool:
        return mark in self._cancelled

    # -- in the job threads

    def _run_jobs(self) -> None:
        get, wait = self._queue.get, self._wait_s
        while (attempt := get()) is not None:
            while attempt.started_at > self._submitted_at and (wait_s := wait(attempt)) > 0:
                time.sleep(wait_s)
            if self._begins(attempt):
                self._end(attempt, run_job(self, attempt))

    def _wait_s(self, attempt: Attempt) -> float:
        """The seconds until the start of an attempt that was planned ahead. If the clock was set back meanwhile, it
        starts now."""
        left = attempt.started_at - self._clock.now_ms()
        if left <= 0 or left > MAX_LEAD_MS or attempt.mark in self._withdrawn:
            return 0
        return seconds_left(self._clock, left)

    def _begins(self, attempt: Attempt) -> bool:
        """Mark it as started, unless it was withdrawn."""
        mark = mark_of(attempt)
        self._started[mark] = self._clock.boot_ms()
        if mark not in self._withdrawn:
            return True
        self._withdrawn.discard(mark)
        self._started.pop(mark, None)
        return False

    def _end(self, attempt: Attempt, outcome: Outcome) -> None:
        mark = mark_of(attempt)
        if mark in self._overdue:
            outcome = Outcome(False, error=outcome.error or "the job ended after its timeout", timed_out=True)
        elif mark in self._cancelled:  # also a job that returns: it was asked to, and its work is not done
            outcome = Outcome(False, outcome.result, outcome.error or "cancelled", cancelled=True)
        if self._cancelled:
            self._cancelled.discard(mark)
        self._ended.put(_ended((attempt, self.meter.read(attempt, outcome) if self.meter.used else outcome)))
        self._wake()

    # -- on the loop

    def _begin_all(self, attempts: list[Attempt]) -> None:
        import asyncio

        loop = asyncio.get_running_loop()
        for attempt in attempts:
            wait_s = self._wait_s(attempt)
            if wait_s > 0:
                loop.call_later(wait_s, self._begin_all, [attempt])
            elif self._begins(attempt):
                self._tasks[attempt.mark] = asyncio.create_task(self._await(attempt))

    async def _await(self, attempt: Attempt) -> None:
        import asyncio

        try:
            job = self.jobs.get(attempt.compiled.shared.definition.job)
            assert job is not None
            assert job.run is not None
            outcome = Outcome(True, await job.run(JobContext(attempt, self)))
        except asyncio.CancelledError:
            asked = attempt.mark in self._cancelled or attempt.mark in self._overdue
            outcome = Outcome(False, error="cancelled" if asked else _CANCELLED_BY_PROGRAM)
        except NotBegun:
            self._tasks.pop(attempt.mark, None)
            self._started.pop(attempt.mark, None)
            self._not_begun.add(attempt.mark)
            return
        except GeneratorExit:
            raise  # the loop is gone, and the coroutine is thrown away: `_give_up_tasks` ends the attempt
        except BaseException as error:
            outcome = _failed(error)
        self._tasks.pop(attempt.mark, None)
        self._end(attempt, outcome)

    def _give_up_tasks(self) -> None:
        """End the jobs whose loop is gone. Nothing more is heard of them."""
        for mark in list(self._tasks):
            del self._tasks[mark]
            self._end(self._active[mark][0], Outcome(False, error=GONE))


def _failed(error: BaseException) -> Outcome:
    if isinstance(error, NoWork):
        return Outcome(False, no_work=True)
    limit = _limit(error) if isinstance(error, RateLimited) else None
    text = (plain_traceback(error) or "".join(full_traceback(error).format()))[-8_000:]
    return Outcome(False, error=text, limit=limit, over_budget=isinstance(error, OverBudget))


def full_traceback(error: BaseException) -> traceback.TracebackException:
    shown = traceback.TracebackException.from_exception(error, limit=-_MAX_FRAMES)
    shown.__notes__ = []  # the last line is the exception, which `why` and notes of runs show
    return shown


def plain_traceback(error: BaseException) -> str:
    """The same text from remembered lines, for an exception alone; empty for others. Finding a line and what of it to
    underline takes ten times as long."""
    alone = error.__cause__ is None and (error.__context__ is None or error.__suppress_context__)
    if not alone or isinstance(error, _TOLD_WITH_FRAMES) or hasattr(error, "__notes__"):
        return ""
    frames: list[str] = []
    at = error.__traceback__
    while at is not None:
        key = id(at.tb_frame.f_code), at.tb_lasti
        known = _FRAMES.get(key)
        if known is None:
            known = at.tb_frame.f_code, "".join(traceback.extract_tb(at, 1).format())
            if len(_FRAMES) >= _MAX_REMEMBERED:
                _FRAMES.clear()
            _FRAMES[key] = known
        frames.append(known[1])
        at = at.tb_next
    del frames[:-_MAX_FRAMES]
    if len(set(frames)) < len(frames):  # repeated lines are shown as one
        return ""
    return "".join(
        ["Traceback (most recent call last):\n", *frames, *traceback.format_exception_only(type(error), error)]
    )


def _limit(error: RateLimited) -> ProviderLimit:
    """The limit, with values that a store can hold. Jobs may pass anything; an unusable time becomes None."""
    at: object = error.resets_at
    resets_at = to_ms(at) if isinstance(at, datetime) and at.tzinfo is not None else None
    provider = storable_reason(str(error.provider or "unknown"))[:MAX_NAME_LENGTH]
    reason = storable_reason(str(error.reason or "rate limited"))
    return ProviderLimit(provider, resets_at, reason, bool(error.outage))
