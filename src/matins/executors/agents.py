"""The executor for agents: a prompt goes to a tool in its own process tree, or to an endpoint.

Whether this machine can start agents. If it cannot, the engine says so and leaves them to other engines.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from queue import SimpleQueue
from typing import NamedTuple

from matins.engine.policies import Policies
from matins.errors import StoreUnavailable
from matins.executors.agent_checks import MAX_AGENTS, RunnersHere
from matins.executors.commands import Commands
from matins.executors.conclusions import conclude, not_started, nowhere, read_result, unreadable, usage_by, with_report
from matins.executors.endpoint_requests import EndpointCall, EndpointRequests, SpendingAllowance
from matins.executors.isolation import Isolation, Places
from matins.executors.metering import SpendingWatch
from matins.executors.output_sender import OutputSender
from matins.executors.preparation import Preparation, Prepared
from matins.executors.processes.launch import ProcessOutcome
from matins.executors.processes.recovery import machine_error
from matins.executors.processes.supervisor import SharedSupervisor
from matins.executors.registry import JobRegistry
from matins.executors.runners.protocol import AnyRunner, EndpointRunner, RunnerResult
from matins.executors.secrets import MissingHere
from matins.executors.work_items import ItemChanged
from matins.model.clock import Clock
from matins.model.run import Outcome
from matins.net.outbound import HttpClient, Resolve
from matins.runtime.attempt import Attempt, AttemptEnd, Mark
from matins.runtime.capacity import TROUBLE
from matins.runtime.catalog import CompiledSchedule
from matins.runtime.run_context import RunContexts
from matins.runtime.signals import drained

log = logging.getLogger("matins")
_FIRST_TEST_MS, _MAX_TEST_MS = 5_000, 300_000
_TEST_BYTES = 1 << 16
_TEST_S = 30


class Fitness:
    """After a start failed because of the machine, no agents start until a test passes: writing a file where it failed,
    and starting a process. The delay between tests doubles, up to five minutes."""

    def __init__(self, clock: Clock, test: Callable[[Iterable[str]], str | None] | None = None) -> None:
        self._clock = clock
        self._test = test or reason_now
        self._lock = threading.Lock()
        self._folders: set[str] = set()
        self._test_at = 0
        self._delay = _FIRST_TEST_MS
        self._testing = False
        self.reason: str | None = None
        """Why no agent can be started; None if they can."""

    def fail(self, reason: str, folders: Iterable[str]) -> None:
        """A start in these folders has failed."""
        with self._lock:
            if self.reason is None:
                log.error("This machine cannot start agents now; they are left to other engines: %s", reason)
                self._folders, self._delay = set(), _FIRST_TEST_MS
                self._test_at = self._clock.boot_ms() + self._delay
            self.reason = reason
            self._folders.update(folders)

    def is_test_due(self) -> bool:
        """Whether `test` is to be called now. True for one caller only."""
        with self._lock:
            due = self.reason is not None and not self._testing and self._clock.boot_ms() >= self._test_at
            self._testing |= due
            return due

    def test(self) -> None:
        reason = self._test(tuple(self._folders))
        with self._lock:
            self._testing = False
            if reason is None:
                log.warning("This machine starts agents again.")
                self.reason = None
                return
            self.reason = reason
            self._delay = min(2 * self._delay, _MAX_TEST_MS)
            self._test_at = self._clock.boot_ms() + self._delay

    def offers(self) -> frozenset[str]:
        """What this engine announces to other engines and to people."""
        reason = self.reason
        return frozenset() if reason is None else frozenset([f"{TROUBLE}{reason}"])


def reason_now(folders: Iterable[str]) -> str | None:
    """Why a run could not be started now in one of these folders; None if it could."""
    try:
        for folder in folders:
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(bytes(_TEST_BYTES))
                file.flush()
        subprocess.run([sys.executable, "-I", "-S", "-c", ""], check=True, timeout=_TEST_S, capture_output=True)
    except OSError as error:  # a folder that is closed to Matins says nothing about the machine
        return machine_error(error.errno)
    except subprocess.SubprocessError as error:
        return str(error)
    return None


_THREADS = 4
_MAX_WAIT_MS = 10_000
"""An attempt that waits longer is released: another engine may have capacity."""
_CANCELLED = Outcome(False, error="the run was cancelled before it started", cancelled=True)
_LOST = Outcome(False, error="the worker ended during the call, and the outcome is unknown", lost=True)


class WaitingAttempt(NamedTuple):
    attempt: Attempt
    since: int


class UnreadAttempt(NamedTuple):
    """A run that continues although its agent cannot be found."""

    attempt: Attempt
    error: Exception


StartedAttempt = Prepared | UnreadAttempt


class AgentExecutor:
    """Runs agents. A few threads prepare runs and read their results. The supervisor owns the processes; each call to
    an endpoint has its own thread."""

    def __init__(
        self,
        runners: Mapping[str, AnyRunner],
        supervisor: SharedSupervisor,
        clock: Clock,
        wake: Callable[[], None],
        loader: RunContexts,
        *,
        workdir: str,
        places: Callable[[], Places],
        url: str | None = None,
        jobs: JobRegistry | None = None,
        resolve: Resolve | None = None,
        here: RunnersHere | None = None,
    ) -> None:
        self._runners = runners
        self._here = here or RunnersHere(runners, clock)
        self.fitness = Fitness(clock)
        isolation = Isolation(places, lambda: supervisor().probe())
        self._preparation = Preparation(
            runners, clock, loader, workdir, isolation, Commands(supervisor), url, jobs or JobRegistry()
        )
        self._supervisor = supervisor
        self._clock = clock
        self._wake = wake
        self._loader = loader
        self._resolve = resolve
        self._endpoint_requests = EndpointRequests(clock, self._call_ended)
        self._spending_watch = SpendingWatch(supervisor, loader.spending_limits)
        self._output_sender = OutputSender(loader.kept_output, lambda: supervisor().files, clock)
        self._waiting: dict[Mark, WaitingAttempt] = {}
        """Attempts beyond the capacity."""
        self._active: dict[Mark, Attempt] = {}
        self._started: dict[Mark, StartedAttempt] = {}
        self._ended: SimpleQueue[AttemptEnd] = SimpleQueue()
        self._released: SimpleQueue[Attempt] = SimpleQueue()
        self._cancelled: set[Mark] = set()
        self._renewed_at = clock.boot_ms()
        """Until then, what this engine has was its own."""
        self._interrupting = False
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._deferred: SimpleQueue[Callable[[], None]] = SimpleQueue()
        """Tasks that need the store and did not reach it. The next turn tries them again; their output stays."""
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        if not self._threads:
            self._threads = [
                threading.Thread(target=self._run_tasks, name=f"matins-agents-{n}", daemon=True)
                for n in range(_THREADS)
            ]
            for thread in self._threads:
                thread.start()

    def stop(self) -> None:
        for _ in self._threads:
            self._tasks.put(None)
        self._threads = []
        self._spending_watch.close()
        self._output_sender.close()
        self._endpoint_requests.end_all()

    def interrupt(self) -> int:
        self._interrupting = True
        running = list(self._started)
        for mark in running:
            self._end_early(mark)
        return len(running)

    def accept(self) -> None:
        self._interrupting = False

    def submit(self, batch: list[Attempt]) -> None:
        for attempt in batch:
            self._waiting[attempt.mark] = WaitingAttempt(attempt, self._clock.boot_ms())
        self._admit()

    def _admit(self) -> None:
        """Start waiting attempts while there is capacity. Cancelled attempts end at once."""
        for mark, (attempt, _) in list(self._waiting.items()):
            if mark in self._cancelled:
                self._end(self._waiting.pop(mark).attempt, _CANCELLED)
            elif len(self._active) < MAX_AGENTS:
                self._active[mark] = self._waiting.pop(mark).attempt
                self._tasks.put(lambda attempt=attempt: self._begin(attempt))

    def adoptable(self, attempt: Attempt) -> bool:
        return True

    def follows(self, item: CompiledSchedule) -> bool:
        return False

    def use(self, policies: Policies) -> None:
        """Do nothing: attempts come with what they need."""

    def adopt(self, attempts: list[Attempt]) -> None:
        """Take over runs of a dead worker. Their journals hold the outcomes."""
        for attempt in attempts:
            self._active[attempt.mark] = attempt
            self._tasks.put(lambda attempt=attempt: self._adopt_one(attempt))

    def drain(self) -> list[AttemptEnd]:
        for task in drained(self._deferred):
            self._tasks.put(task)
        supervisor = self._supervisor.started
        for run_id, epoch, process in supervisor.ended() if supervisor else ():
            started = self._started.pop((run_id, epoch), None)
            if started is not None:
                self._tasks.put(lambda started=started, process=process: self._finish(started, process))
        done = drained(self._ended)
        for item in done:
            mark = item.attempt.mark
            self._active.pop(mark, None)
            self._cancelled.discard(mark)
        self._admit()
        return done

    def capacity(self, *, for_agents: bool = False) -> int:
        return 0 if self.fitness.reason is not None else MAX_AGENTS - self.running()

    def running(self) -> int:
        return len(self._active) + len(self._waiting)

    def marks(self) -> set[Mark]:
        return {*self._active, *self._waiting}

    def busy(self) -> bool:
        return bool(self._active)

    def offers(self) -> frozenset[str]:
        """The runners that this machine has, and why it cannot start agents, if it cannot."""
        if self.fitness.is_test_due():
            self._tasks.put(self._test_machine)
        return self._here.offers() | self.fitness.offers()

    def withdraw(self, *, everything: bool = False) -> list[Attempt]:
        released = drained(self._released)
        for attempt in released:
            self._active.pop(attempt.mark, None)
        for mark, (attempt, since) in list(self._waiting.items()):
            if everything or self._clock.boot_ms() - since > _MAX_WAIT_MS:
                del self._waiting[mark]
                released.append(attempt)
        return released

    def overdue(self) -> list[Attempt]:
        """Calls to endpoints that ignore their limit. Processes are limited by their wardens."""
        return [self._active[mark] for mark in self._endpoint_requests.unresponsive() if mark in self._active]

    def cancel(self, run_ids: set[int]) -> None:
        here = {mark for mark in self.marks() if mark[0] in run_ids}  # no later attempt, which may come to this node
        self._cancelled |= here
        for mark in here.intersection(list(self._started)):
            self._end_early(mark)

    def renew(self, marks: set[Mark], since: int) -> None:
        self._renewed_at = since
        for mark in marks.intersection(self._started):
            self._supervisor().renew(*mark, since)

    def _end_early(self, mark: Mark) -> None:
        if not self._endpoint_requests.end(mark):
            self._supervisor().end(*mark)

    # -- in the threads

    def _run_tasks(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()

    def _begin(self, attempt: Attempt) -> None:
        """Start the attempt. Problems are found before anything is spent."""
        if self._interrupting:
            self._release(attempt)
            return
        try:
            context = self._loader.run_context(attempt)
            lease, age = context.lease_ms, self._clock.boot_ms() - self._renewed_at
            # The agent changed after the claim, so that the run needs approval again; or it may have started elsewhere.
            if not context.approved or (lease is not None and age >= lease):
                self._release(attempt)
                return
            self._launch(self._preparation.prepare(attempt, context))
            if attempt.mark in self._cancelled:
                self._end_early(attempt.mark)
        except ItemChanged:  # the item stays claimed, and is shown
            self._loader.void_approval(attempt, "its work item has changed")
            self._release(attempt)
        except StoreUnavailable as error:  # nothing has been started, and the run can be claimed again
            log.warning("run %s is not started now: %s", attempt.run_id, error)
            self._started.pop(attempt.mark, None)
            self._release(attempt)
        except Exception as error:
            started = self._started.pop(attempt.mark, None)
            if isinstance(error, OSError) and (reason := machine_error(error.errno)) is not None:
                self._leave(attempt, started, reason)
            elif isinstance(error, MissingHere):
                self._turn_away(attempt, error)
            else:
                self._end(attempt, not_started(attempt, error))

    def _leave(self, attempt: Attempt, started: StartedAttempt | None, reason: str) -> None:
        """Leave a run to other engines, because this machine cannot start it."""
        supervisor, folders = self._supervisor.started, set[str]()
        if supervisor is not None:
            folders.add(supervisor.files.folder)
        if isinstance(started, Prepared):
            folders.add(started.call.workdir)
            if started.held_item is not None:  # no run works on the item now
                started.held_item.report(Outcome(False, cancelled=True), self._clock)
        self.fitness.fail(reason, folders)
        self._release(attempt)

    def _test_machine(self) -> None:
        self.fitness.test()
        self._wake()

    def _turn_away(self, attempt: Attempt, error: MissingHere) -> None:
        """Leave a run to other nodes, which may have what is missing here. When none is left, the run fails."""
        elsewhere = self._loader.elsewhere(attempt)
        if elsewhere.may_start:
            self._release(attempt._replace(not_here=error.message))
        else:
            self._end(attempt, not_started(attempt, nowhere(error, elsewhere)))

    def _launch(self, prepared: Prepared) -> None:
        mark, runner = prepared.attempt.mark, prepared.runner
        self._started[mark] = prepared
        self._output_sender.watch(mark)
        if prepared.launch is not None:
            self._watch(prepared)
            leased = prepared.context.lease_ms is not None
            self._supervisor().start(
                prepared.launch._replace(leased_at=self._renewed_at) if leased else prepared.launch
            )
        elif isinstance(runner, EndpointRunner):
            client, secrets = HttpClient(prepared.call.allowed_hosts, self._resolve), prepared.call.secrets
            allowance = SpendingAllowance(
                self._clock, lambda: self._loader.spending_limits(prepared.attempt), usage_by(prepared)
            )
            output = self._supervisor().files.open_output(*mark, secrets)
            call = EndpointCall(self._clock, client, prepared.limits, allowance, secrets, output)
            self._endpoint_requests.begin(mark, runner, prepared.call, call)

    def _call_ended(self, mark: Mark, result: RunnerResult, process: ProcessOutcome, end_reason: str | None) -> None:
        prepared = self._started.pop(mark, None)
        if isinstance(prepared, Prepared):
            self._conclude(prepared, process, lambda: result, end_reason)

    def _release(self, attempt: Attempt) -> None:
        self._spending_watch.unwatch(attempt.mark)
        self._output_sender.forget(attempt.mark)
        self._released.put(attempt)
        self._wake()

    def _adopt_one(self, attempt: Attempt) -> None:
        """The journal holds the outcome, even when the agent cannot run any more."""
        started = self._started[attempt.mark] = self._recall(attempt)
        try:
            worker = self._loader.worker_of(attempt)
            process = self._supervisor().reap(
                attempt.run_id,
                attempt.epoch,
                boot=worker.get("boot", ""),
                nonce=worker.get("nonce", ""),
                incarnation=worker.get("incarnation", ""),
            )
        except StoreUnavailable:
            del self._started[attempt.mark]
            self._deferred.put(lambda: self._adopt_one(attempt))
            return
        except Exception as error:  # an unknown outcome is an outcome too
            log.exception("run %s could not be adopted", attempt.run_id)
            del self._started[attempt.mark]
            self._end(attempt, Outcome(False, error=f"the run could not be adopted: {error}", lost=True))
            return
        if process.kind == "running":
            self._output_sender.watch(attempt.mark)
            return  # its end arrives like any other
        del self._started[attempt.mark]
        if process.kind != "never_started":
            self._finish(started, process)
        elif isinstance(started, Prepared) and isinstance(started.runner, EndpointRunner):
            self._end(attempt, _LOST)
        else:
            self._release(attempt)

    def _recall(self, attempt: Attempt) -> StartedAttempt:
        try:
            started = self._preparation.recall(attempt, self._loader.run_context(attempt))
            if started.command is not None:
                self._watch(started)
        except Exception as error:  # the process can be followed to its end, and its output may be readable then
            log.warning("the output of run %s, which continues, cannot be read now: %s", attempt.run_id, error)
            return UnreadAttempt(attempt, error)
        return started

    def _watch(self, started: Prepared) -> None:
        self._spending_watch.watch(started.attempt, started.reader(), usage_by(started))

    def _finish(self, started: StartedAttempt, process: ProcessOutcome) -> None:
        if process.machine_error is not None:
            self._leave(started.attempt, started, process.machine_error)
            return
        if isinstance(started, UnreadAttempt):
            started = self._recall(started.attempt)
        if isinstance(started, UnreadAttempt) and isinstance(started.error, StoreUnavailable):
            self._deferred.put(lambda: self._finish(started, process))
        elif isinstance(started, UnreadAttempt):
            self._end(started.attempt, unreadable(started.error, process))
        else:
            end_reason = self._spending_watch.unwatch(started.attempt.mark)
            self._conclude(
                started, process, lambda: read_result(self._supervisor().files, started, process), end_reason
            )

    def _conclude(
        self, started: Prepared, process: ProcessOutcome, read: Callable[[], RunnerResult], end_reason: str | None
    ) -> None:
        attempt = started.attempt
        try:
            reported = self._loader.reported(attempt)  # first: it needs the store
            self._output_sender.finish(attempt.mark)
            result = with_report(read(), reported)
            outcome = conclude(started, process, result, self._supervisor().files, self._clock, end_reason)
        except StoreUnavailable as error:
            log.warning("the output of run %s is read when the store is back: %s", attempt.run_id, error)
            self._deferred.put(lambda: self._conclude(started, process, read, end_reason))
            return
        except Exception as error:  # the run is over: unreadable output must not hold it forever
            log.exception("the output of run %s cannot be read", attempt.run_id)
            outcome = unreadable(error, process)
        self._end(attempt, outcome)

    def _end(self, attempt: Attempt, outcome: Outcome) -> None:
        mark = attempt.mark
        if outcome.cancelled and self._interrupting and mark not in self._cancelled:
            outcome = replace(outcome, cancelled=False, interrupted=True)
        self._cancelled.discard(mark)
        self._spending_watch.unwatch(mark)
        self._output_sender.forget(mark)
        self._ended.put(AttemptEnd(attempt, outcome))
        self._wake()
