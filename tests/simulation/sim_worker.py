"""A worker in the simulation: the production engine and heart, jobs that take virtual time, a clock of its own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from sim_checks import SimulatedChecks
from sim_faults import Faults, SimulatedCrash, Wire

from matins.model.run import Outcome, ProviderLimit, Usage
from matins.runtime.attempt import Attempt, AttemptEnd, Mark
from matins.runtime.catalog import Catalog, CompiledSchedule
from matins.runtime.engine import Engine, EngineOptions
from matins.runtime.heartbeat import Heartbeat
from matins.store.sqlite.store import SqliteStore
from matins.store.sqlite.transaction import SqliteTransaction
from matins.testing import ManualClock

PLACES = 3
_AHEAD = 5
_PATIENCE_MS = 1_000
BOTH_JOBS = frozenset(["job", "rare"])
"""All jobs. Only some machines have the second one."""


class Job:
    """An attempt in a worker's hands. Its end is fixed when it begins."""

    def __init__(self, work: Attempt, taken: int) -> None:
        self.attempt = work
        self.taken = taken
        self.begun: int | None = None
        self.ends: int | None = None
        self.succeeds = True
        self.usage: Usage | None = None
        self.limit: ProviderLimit | None = None
        self.overdue = False
        self.cancelled = False


class Heard(NamedTuple):
    """Who hears that an attempt was handed over, and that its job began."""

    dispatched: Callable[[Attempt], None]
    begun: Callable[[int, int], None]


class SimulatedExecutor:
    """Jobs that succeed, fail, or never end; as in the Python executor, a few run and a few wait for a place."""

    def __init__(
        self, clock: ManualClock, rng: Random, faults: Faults, heard: Heard, jobs: frozenset[str] = BOTH_JOBS
    ) -> None:
        self._clock = clock
        self._offers = frozenset(f"job:{name}" for name in jobs)
        self._rng = rng
        self._faults = faults
        self._heard = heard
        self._jobs: dict[tuple[int, int], Job] = {}
        self.spending = False
        """Whether jobs cost something, and providers refuse them now and then."""
        self.lead_ms = 0
        self.calm = False

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def use(self, policies: Any) -> None: ...

    def submit(self, batch: list[Attempt]) -> None:
        for work in batch:
            self._heard.dispatched(work)
            self._jobs[work.run_id, work.epoch] = Job(work, self._clock.boot_ms())
        self._begin()

    def drain(self) -> list[AttemptEnd]:
        boot = self._clock.boot_ms()
        ended = [job for job in self._jobs.values() if job.begun is not None and self._over(job, boot)]
        for job in ended:
            del self._jobs[job.attempt.run_id, job.attempt.epoch]
        self._begin()
        return [AttemptEnd(job.attempt, _outcome(job)) for job in ended]

    def capacity(self, *, for_agents: bool = False) -> int:
        return _AHEAD - len(self._jobs)

    def offers(self) -> frozenset[str]:
        return self._offers

    def follows(self, compiled: CompiledSchedule) -> bool:
        return False

    def running(self) -> int:
        return len(self._jobs)

    def marks(self) -> set[Mark]:
        return set(self._jobs)

    def busy(self) -> bool:
        return bool(self._jobs)

    def withdraw(self, *, everything: bool = False) -> list[Attempt]:
        before = self._clock.boot_ms() - (0 if everything else _PATIENCE_MS)
        late = [job.attempt for job in self._jobs.values() if job.begun is None and job.taken < before]
        for work in late:
            del self._jobs[work.run_id, work.epoch]
        return late

    def overdue(self) -> list[Attempt]:
        boot = self._clock.boot_ms()
        late: list[Attempt] = []
        for job in self._jobs.values():
            limit = job.attempt.compiled.definition.timeout_ms
            if limit is not None and job.begun is not None and not job.overdue and boot - job.begun > limit:
                job.overdue = True
                late.append(job.attempt)
        return late

    def cancel(self, run_ids: set[int]) -> None:
        for job in self._jobs.values():
            if job.attempt.run_id in run_ids:
                job.cancelled = True

    def _over(self, job: Job, boot: int) -> bool:
        return self.calm or job.cancelled or (job.ends is not None and job.ends <= boot)

    def _begin(self) -> None:
        running = sum(job.begun is not None for job in self._jobs.values())
        for job in list(self._jobs.values()):
            if job.begun is None and running < PLACES and not self._waits(job):
                running += 1
                job.begun = self._clock.boot_ms()
                self._heard.begun(*job.attempt.mark)
                self._decide(job)

    def _waits(self, job: Job) -> bool:
        """For its instant, if it was planned ahead; not if the clock was set back meanwhile."""
        return 0 < job.attempt.started_at - self._clock.now_ms() <= self.lead_ms

    def _decide(self, job: Job) -> None:
        chance = 1.0 if self.calm else self._rng.random()
        job.ends = self._clock.boot_ms() + self._rng.choice((0, 50, 700, 3_000, 9_000, 14_000))
        if chance < 0.06:
            job.ends = None
            self._faults.injected["job_never_ends"] += 1
        elif chance < 0.25:
            job.succeeds = False
            self._faults.injected["job_fails"] += 1
        if self.spending:
            self._spend(job)

    def _spend(self, job: Job) -> None:
        """It costs something, and its provider may be tired of it."""
        if self._rng.random() < 0.7:
            job.usage = Usage(self._rng.randrange(0, 400_000, 1_000), self._rng.randrange(0, 90_000, 1_000))
        provider = job.attempt.compiled.definition.provider
        if provider is not None and not self.calm and self._rng.random() < 0.12:
            resets_at = self._rng.choice((None, self._clock.now_ms() + 90_000))
            job.limit = ProviderLimit(provider, resets_at, "429")
            self._faults.injected["job_limited"] += 1


def _outcome(job: Job) -> Outcome:
    """Carries its epoch, so that the observer sees whose outcome was written."""
    told, error = {"epoch": job.attempt.epoch}, f"epoch {job.attempt.epoch}"
    words, usage = job.attempt.compiled.definition, job.usage
    if job.overdue:
        return Outcome(False, error=error, timed_out=True, usage=usage)
    if usage is not None and usage.exceeds(words.max_cost, words.max_tokens):
        return Outcome(False, error=error, over_budget=True, usage=usage)
    if job.limit is not None:
        return Outcome(False, error=error, limit=job.limit, usage=usage)
    if job.cancelled or not job.succeeds:
        return Outcome(False, error=error, cancelled=job.cancelled, usage=usage)
    return Outcome(True, told, usage=usage)


class Actor:
    """Somebody with a connection and a clock: a worker, or the users."""

    def __init__(self, name: str, clock: ManualClock) -> None:
        self.name = name
        self.clock = clock
        self.now = 0
        """The instant of its present transaction."""
        self.wire: Wire
        self.store: SqliteStore

    def connect(self, path: Path, shared: bool, faults: Faults, committed: Callable[[Actor, Any], None]) -> None:
        store = SqliteStore(path, self.clock.now_ms())
        store.shared = shared
        self.wire = Wire(store._connection, faults, lambda changed: committed(self, changed))
        store._connection = self.wire
        transaction = store.transaction

        def noted(now: int) -> AbstractContextManager[SqliteTransaction]:
            self.now = now
            return transaction(now)

        store.transaction = noted
        self.store = store


class WorkerSettings(NamedTuple):
    engine: EngineOptions
    gates: bool
    """Whether this world has gates."""
    guarded: bool
    """Whether every run must pass a guard."""
    lead_ms: int = 0
    """How long before their slots runs are planned."""


class Worker(Actor):
    jobs = BOTH_JOBS
    """The jobs that its machine has."""
    labels: tuple[str, ...] = ()
    max_runs: int | None = None
    """How many runs its machine has at once."""

    def __init__(self, name: str, clock: ManualClock, rng: Random, faults: Faults, settings: WorkerSettings) -> None:
        super().__init__(name, clock)
        self._settings, self._gates, self._guarded, self._lead_ms = settings
        self._rng = rng
        self._faults = faults
        self.up = False
        self.stalled = False
        self.stalled_until = 0
        self.next_beat = 0
        self.engine: Engine
        self.executor: SimulatedExecutor
        self.checks: SimulatedChecks
        self.heart: Heartbeat

    @property
    def able(self) -> bool:
        return self.up and not self.stalled

    def start(self, dispatched: Callable[[Worker, Attempt], None], begun: Callable[[int, int], None]) -> None:
        """As `Loop.start` does it, without its threads."""
        settings = replace(self._settings, name=self.name, labels=self.labels, max_runs=self.max_runs)
        self.engine = Engine(self.store, self.clock, Catalog(), settings)
        self.engine.lead_ms = self._lead_ms
        self.executor = SimulatedExecutor(
            self.clock, self._rng, self._faults, Heard(lambda work: dispatched(self, work), begun), self.jobs
        )
        self.executor.spending = self._gates
        self.executor.lead_ms = self._lead_ms
        self.checks = SimulatedChecks(self.clock, self._rng, self._faults, guarded=self._guarded)
        self.up, self.stalled = True, False
        self.engine.open(self.executor, {"name": self.name}, self.checks)
        self.heart = Heartbeat(
            self.store,
            self.clock,
            worker=lambda: self.engine.worker,
            every_ms=self._settings.beat_ms,
            lease_ms=self._settings.lease_ms,
            cancel=self.executor.cancel,
            renew=lambda marks, since: None,
            fenced=self._fence,
            outdated=lambda: None,
        )
        self.next_beat = self.clock.boot_ms() + self._settings.beat_ms

    def stall(self, milliseconds: int) -> None:
        """Gets no time at all; others may take it for dead until it comes back."""
        self.stalled = True
        self.stalled_until = self.clock.boot_ms() + milliseconds

    def turn(self) -> None:
        self.engine.run_once()

    def beat(self) -> None:
        self.next_beat = self.clock.boot_ms() + self._settings.beat_ms
        self.heart.beat()

    def stop(self) -> None:
        self.engine.accepting = False
        self.engine.release_unstarted()
        self.engine.run_once()
        self.engine.close()

    def crash(self) -> None:
        """Nothing is flushed: an open transaction is rolled back, what was in memory is gone."""
        self.up = self.stalled = False
        self.wire.trap = None
        self.store.close()

    def calm_down(self) -> None:
        self.stalled = False
        self.executor.calm = self.checks.calm = True

    def guarded(self, act: Callable[[], Any]) -> bool:
        """Do it; False when the worker crashed over it."""
        try:
            act()
        except SimulatedCrash:
            self.crash()
            return False
        finally:
            self.wire.trap = None
        return True

    def _fence(self, fenced: bool) -> None:
        self.engine.fenced = fenced
