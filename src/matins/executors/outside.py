"""Hands runs to an engine elsewhere, which has workers of its own: `OutsideEngine` is what one must do.

Rules: the other engine never repeats a run; each start is under a new epoch, which only Matins gives. An attempt has
one name there, so that a second start of it finds the first one. Any engine of the store follows it by that name.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from matins.engine.jobs import retries_unknown
from matins.engine.placement import OUTSIDE, Labels, queue_labels
from matins.engine.policies import Policies
from matins.errors import MatinsError, StoreUnavailable
from matins.executors.conclusions import not_started
from matins.executors.factory import OUTSIDE_KINDS
from matins.executors.orders import Order, OrderWriter, decode_outcome, encode_order
from matins.model.agent import Agent
from matins.model.clock import Clock
from matins.model.run import Outcome
from matins.plugins import installed
from matins.runtime.attempt import Attempt, AttemptEnd, Mark
from matins.runtime.catalog import CompiledSchedule
from matins.runtime.kept_output import Tails
from matins.runtime.signals import drained

if TYPE_CHECKING:
    from matins.executors.worker import Worker

log = logging.getLogger("matins")
MAX_RUNS = 500
_GRACE_MS = 5 * 60_000
"""How long after its timeout the other engine gives an attempt up. Its worker ends it before."""
_LOOK_S = 1.0
_NO_TIMEOUT_MS = 365 * 86_400_000
T = TypeVar("T")


class Unreachable(MatinsError):  # noqa: N818 - it is a state, which passes
    """The other engine does not answer now. Whatever was asked is asked again."""

    code = "outside_unreachable"


class Ended(NamedTuple):
    """A worker has reported the outcome."""

    outcome: bytes


class Lost(NamedTuple):
    """The worker of an attempt does not answer any more."""

    worker: Mapping[str, Any]
    """What it said last: `host`, and the evidence of its journals. Empty: nothing was begun."""


class NotStarted(NamedTuple):
    """No worker has begun it, and none ever will."""

    reason: str | None = None
    """Why the worker that took it did not; None: no worker took it."""
    cancelled: bool = False


class Stopped(NamedTuple):
    """People ended it in the other engine."""

    reason: str


class Unknown(NamedTuple):
    """The other engine does not know the name."""


Told = Ended | Lost | NotStarted | Stopped | Unknown


class Where(NamedTuple):
    """Which workers may take an attempt, and for how long."""

    labels: Labels
    timeout_ms: int
    patience_ms: int
    """How long it waits for a worker."""


class OutsideEngine(Protocol):
    """An engine elsewhere. Every method raises Unreachable when it does not answer."""

    async def start(self, name: str, order: bytes, where: Where) -> bool:
        """Start an attempt. False: the name exists, also of one that has ended."""
        ...

    async def follow(self, name: str) -> Told:
        """Wait for its end."""
        ...

    async def ask(self, name: str, order: bytes, worker: Mapping[str, Any], where: Where) -> bool:
        """Let the workers on that machine find the end of an attempt, and never start it."""
        ...

    async def end(self, name: str, reason: str) -> None:
        """Cancel it. `follow` reports its end."""
        ...

    async def fence(self, name: str) -> bool:
        """Use the name up, so that a late start finds it taken. False: it is taken already."""
        ...

    async def output(self, name: str) -> Tails:
        """The ends of what an attempt has printed, as its worker told last."""
        ...

    async def takers(self, labels: Labels) -> list[str]:
        """The workers that wait there."""
        ...


@dataclass(frozen=True)
class OutsideKind:
    """A kind of engine elsewhere. Its records are connections: `temporal:main` is the label of the one named main."""

    name: str
    connect: Callable[[str, Mapping[str, Any]], OutsideEngine]
    """Opens a connection by its name and stored record."""
    serve: Callable[[str, Worker], None]
    """Take orders from a URL until a signal comes."""
    check: Callable[[str, Mapping[str, Any]], list[tuple[bool, str, str | None]]]
    """What `doctor` finds out about a connection: whether it is fine, a sentence, and what to do."""


def outside_kinds() -> dict[str, OutsideKind]:
    return installed(OUTSIDE_KINDS)


@dataclass(frozen=True)
class OutsideTimes:
    lease_ms: int = 60_000
    """Lease of attempts that may be retried when their worker is lost."""
    lost_ms: int = 90_000
    """How long a machine has to answer for an attempt: longer than the lease and the grace of its processes."""
    patience_ms: int = 600_000
    """How long an attempt waits for a worker before it is taken back."""
    again_ms: int = 5_000
    """How long a run waits that no worker could start."""
    first_delay_s: float = 0.2
    max_delay_s: float = 30.0


@dataclass
class _Carried:
    attempt: Attempt
    label: str
    is_there: bool = False
    """Whether the other engine has it."""
    is_delayed: bool = False
    """Whether the other engine did not answer, so that it may have it."""
    name: str = ""
    """That of its last question, otherwise its own."""
    ending: set[str] = field(default_factory=set[str])


class _ReleasedError(Exception):
    """Nothing was started."""


class OutsideExecutor:
    """Hands attempts to engines elsewhere, and follows them, on a thread with an event loop. Runs continue when this
    process ends: another one follows them."""

    def __init__(
        self, writer: OrderWriter, clock: Clock, wake: Callable[[], None], times: OutsideTimes = OutsideTimes()
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._wake = wake
        self._times = times
        self._records: dict[str, tuple[OutsideKind, str, Any]] = {}
        self._engines: dict[str, tuple[Any, OutsideEngine]] = {}
        self._policies: Policies | None = None
        self._carried: dict[Mark, _Carried] = {}
        self._cancelled: set[int] = set()
        self._ended: SimpleQueue[AttemptEnd] = SimpleQueue()
        self._released: SimpleQueue[Attempt] = SimpleQueue()
        self._waiting = 0
        """Ends that `drain` and `withdraw` have yet to return."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._sending: asyncio.Task[None] | None = None

    # -- which attempts are for it

    def use(self, policies: Policies) -> None:
        """Use the connections of these policies."""
        self._policies = policies
        self._records = {
            f"{kind.name}:{name}": (kind, name, record)
            for kind in outside_kinds().values()
            for name, record in policies.records.get(kind.name, {}).items()
        }

    def label_of(self, item: CompiledSchedule) -> str | None:
        """The connection that runs of a schedule are for."""
        agent = self._agent(item) if item.wakes_agent else None
        needs = item.needs if agent is None else item.needs.union(agent.runs_on)
        kinds = {f"{name}:" for name in outside_kinds()} if needs else ()
        return next((need for need in sorted(needs) if any(need.startswith(kind) for kind in kinds)), None)

    def offers(self) -> frozenset[str]:
        return frozenset(f"{OUTSIDE}{label}" for label in self._records)

    # -- as an executor

    def start(self) -> None:
        """Do nothing: the thread starts with the first attempt."""

    def stop(self) -> None:
        """Stop following. Nothing ends elsewhere."""
        loop, thread = self._loop, self._thread
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(self._stop_following(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()
            self._loop = self._thread = None
            self._engines.clear()  # their clients belong to the loop

    def submit(self, batch: list[Attempt]) -> None:
        self._take(batch, adopted=False)

    def adoptable(self, attempt: Attempt) -> bool:
        return True

    def follows(self, item: CompiledSchedule) -> bool:
        return self.label_of(item) is not None

    def adopt(self, attempts: list[Attempt]) -> None:
        self._take(attempts, adopted=True)

    def drain(self) -> list[AttemptEnd]:
        ended = drained(self._ended)
        for end in ended:
            self._carried.pop(end.attempt.mark, None)
            self._cancelled.discard(end.attempt.run_id)
        return ended

    def withdraw(self, *, everything: bool = False) -> list[Attempt]:
        released = drained(self._released)
        for attempt in released:
            self._carried.pop(attempt.mark, None)
        return released

    def capacity(self, *, for_agents: bool = False) -> int:
        return MAX_RUNS - len(self._carried)

    def running(self) -> int:
        """Attempts that this process still has to hand over or to record; the others continue without it."""
        own = sum(not (one.is_there or one.is_delayed) for one in list(self._carried.values()))
        return own + self._ended.qsize() + self._released.qsize()

    def marks(self) -> set[Mark]:
        return set(self._carried)

    def busy(self) -> bool:
        return False

    def overdue(self) -> list[Attempt]:
        return []

    def renew(self, marks: set[Mark], since: int) -> None:
        """Do nothing: the worker renews what the other engine grants."""

    def interrupt(self) -> int:
        return 0

    def accept(self) -> None:
        """Do nothing: nothing was interrupted."""

    def cancel(self, run_ids: set[int]) -> None:
        self._cancelled |= run_ids
        for carried in list(self._carried.values()):
            if carried.attempt.run_id in run_ids and carried.is_there:
                self._spawn(self._end(carried))

    # -- on the thread

    def _take(self, attempts: list[Attempt], *, adopted: bool) -> None:
        for attempt in attempts:
            carried = self._carried[attempt.mark] = _Carried(
                attempt, self.label_of(attempt.compiled) or "", is_there=adopted
            )
            self._spawn(self._carry(carried))

    def _spawn(self, work: Awaitable[None]) -> None:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="matins-outside", daemon=True)
            self._thread.start()
        self._loop.call_soon_threadsafe(self._begin, work)

    def _begin(self, work: Any) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _stop_following(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _carry(self, carried: _Carried) -> None:
        attempt = carried.attempt
        if self._sending is None or self._sending.done():
            self._sending = self._begin(self._send_output())
        try:
            outcome = await self._outcome(carried)
            outcome = await self._again(lambda: asyncio.to_thread(self._writer.received, attempt, outcome))
        except _ReleasedError:
            await self._again(lambda: asyncio.to_thread(self._writer.give_back, attempt))
            self._released.put(attempt._replace(not_before=self._clock.now_ms() + self._times.again_ms))
        except Exception as error:
            log.exception("run %s cannot be followed at %s", attempt.run_id, carried.label)
            text = error.message if isinstance(error, MatinsError) else f"{type(error).__name__}: {error}"
            self._ended.put(AttemptEnd(attempt, Outcome(False, error=text, lost=carried.is_there)))
        else:
            self._ended.put(AttemptEnd(attempt, outcome))
        self._wake()

    async def _send_output(self) -> None:
        """Keep what workers tell of the output of runs that somebody reads now, each second. The rest comes at the
        end."""
        kept = self._writer.kept_output
        while self._carried:
            await asyncio.sleep(_LOOK_S)
            try:
                followed = await asyncio.to_thread(kept.followed)
                for mark, carried in list(self._carried.items()):
                    if mark[0] in followed and carried.is_there:
                        tails = await self._engine(carried).output(carried.name)
                        await asyncio.to_thread(kept.keep_tails, mark, tails)
            except (Unreachable, StoreUnavailable) as error:
                log.info("Output of workers is shown later: %s", error.message)

    async def _outcome(self, carried: _Carried) -> Outcome:
        attempt, times = carried.attempt, self._times
        lease = times.lease_ms if retries_unknown(attempt.compiled.definition) else None
        if carried.is_there:
            order = await self._again(lambda: asyncio.to_thread(self._writer.write_again, attempt, lease))
        else:
            try:
                order = await self._again(lambda: asyncio.to_thread(self._writer.write, attempt, lease))
            except Exception as error:
                return not_started(attempt, error)
            if order is None:
                raise _ReleasedError
        carried.name = name = f"{order.store}/{attempt.run_id}/{attempt.epoch}"
        if not carried.is_there:
            where = self._where(carried, times.patience_ms)
            await self._again(lambda: self._engine(carried).start(name, encode_order(order), where), carried)
            carried.is_there = True
        if attempt.run_id in self._cancelled:
            await self._end(carried)
        return await self._follow(carried, order)

    async def _follow(self, carried: _Carried, order: Order) -> Outcome:
        name, times, asked = carried.name, self._times, 0
        evidence: Mapping[str, Any] = {}
        while True:
            match await self._again(lambda: self._engine(carried).follow(carried.name)):
                case Ended(data):
                    outcome, tails = decode_outcome(data)
                    kept, mark = self._writer.kept_output, carried.attempt.mark
                    await self._again(lambda: asyncio.to_thread(kept.keep_tails, mark, tails))  # noqa: B023
                    return self._told(carried, outcome)
                case Stopped(reason):
                    return Outcome(False, interrupted=True, error=f"it was ended in {carried.label}: {reason}")
                case NotStarted(reason, cancelled):
                    if cancelled or carried.attempt.run_id in self._cancelled:
                        return Outcome(False, cancelled=True)
                    if asked and reason is None:  # nobody answers for its machine, and its lease is over by now
                        return Outcome(False, error="the worker is lost", lost=True)
                    log.warning("run %s was not started at %s: %s", order.run, carried.label, reason or "no worker")
                    raise _ReleasedError
                case Lost(worker) if (
                    worker or asked
                ):  # a poll of a machine that is cut off takes a question, and is silent
                    asked += 1
                    carried.name = f"{name}/ask/{asked}"
                    where = self._where(carried, times.lost_ms)
                    evidence = worker or evidence
                    await self._again(
                        lambda: self._engine(carried).ask(carried.name, encode_order(order), evidence, where)  # noqa: B023
                    )
                    if carried.attempt.run_id in self._cancelled:
                        await self._end(carried)
                case Lost():
                    raise _ReleasedError
                case Unknown():
                    if not await self._again(lambda: self._engine(carried).fence(name)):
                        continue
                    # Never started, or the other engine has lost its data: then processes live until their lease ends.
                    await asyncio.sleep(times.lost_ms / 1000)
                    return Outcome(False, error=f"{carried.label} does not know the run", lost=True)

    def _told(self, carried: _Carried, outcome: Outcome) -> Outcome:
        if outcome.interrupted and carried.attempt.run_id in self._cancelled:
            return Outcome(False, outcome.result, outcome.error, cancelled=True, usage=outcome.usage)
        return outcome

    async def _end(self, carried: _Carried) -> None:
        name = carried.name
        if name and name not in carried.ending:
            carried.ending.add(name)
            await self._again(lambda: self._engine(carried).end(name, "cancelled in Matins"))

    def _agent(self, item: CompiledSchedule) -> Agent | None:
        return None if self._policies is None else self._policies.agents.get(item.agent)

    def _where(self, carried: _Carried, patience_ms: int) -> Where:
        attempt = carried.attempt
        agent = self._agent(attempt.compiled)
        labels = queue_labels(attempt.compiled.definition, agent, carried.label)
        timeout_ms = attempt.compiled.definition.timeout_ms or (agent.timeout_ms if agent else None)
        return Where(labels, (timeout_ms or _NO_TIMEOUT_MS) + _GRACE_MS, patience_ms)

    def _engine(self, carried: _Carried) -> OutsideEngine:
        """The adapter of a connection; another one after its record was changed."""
        found = self._records.get(carried.label)
        if found is None:
            raise Unreachable(f"There is no connection {carried.label}.")
        kind, name, record = found
        known = self._engines.get(carried.label)
        if known is None or known[0] != record:
            known = self._engines[carried.label] = record, kind.connect(name, record)
        return known[1]

    async def _again(self, call: Callable[[], Awaitable[T]], carried: _Carried | None = None) -> T:
        """The answer of a call, however often it must be tried."""
        delay, warned = self._times.first_delay_s, False
        while True:
            try:
                return await call()
            except (Unreachable, StoreUnavailable) as error:
                if carried is not None:
                    carried.is_delayed = True
                if not warned:
                    log.warning("%s It is tried again.", error.message)
                    warned = True
            await asyncio.sleep(delay)
            delay = min(2 * delay, self._times.max_delay_s)
