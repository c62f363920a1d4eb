"""One simulated world: workers on one store, users, time and faults, all drawn from one seed in one thread."""

from __future__ import annotations

import logging
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import NamedTuple, cast

from sim_faults import Faults, SimulatedCrash, Trap, TrapKind
from sim_masks import both_ways
from sim_observer import Observer
from sim_people import People
from sim_users import Users
from sim_violation import Complaints, Violation, require
from sim_worker import Actor, Worker, WorkerSettings

from matins.errors import StoreUnavailable
from matins.model.access import OWNER
from matins.runtime.attempt import MAX_LEAD_MS, Attempt
from matins.runtime.engine import EngineOptions
from matins.service.audit import Audit
from matins.service.core import Core
from matins.store.sqlite.store import SqliteStore
from matins.testing import ManualClock, instant

START = "2026-03-28T23:58:30Z"
HOUR_MS = 3_600_000
YEAR_MS = 365 * 86_400_000
STEPS = 220
LEADS_MS = (0, MAX_LEAD_MS, 700)
"""How long before their slots runs are planned: not at all, as engines do, and so long that much happens meanwhile."""
PAIRS = ("leap+crash", "leap+stop", "disk_full+crash", "disk_full+stop", "lost_commit+crash", "lost_commit+stop")
"""Two faults at once: the one happens to a worker while it deals with the other."""
FAULTS = (
    "crash",
    "crash_in_transaction",
    "crash_after_commit",
    "io_error",
    "lost_commit",
    "slow_commit",
    "disk_full",
    "stall",
    "suspend",
    "beat_fails",
    "cut_off",
    "hour_forward",
    "hour_back",
    "year_forward",
    "year_back",
    "job_fails",
    "job_never_ends",
    "job_limited",
    "check_says_no",
    *PAIRS,
)
"""Every kind that is injected; over the standard seeds none of them may be zero."""
_LEAPS = {"hour_forward": HOUR_MS, "hour_back": -HOUR_MS, "year_forward": YEAR_MS, "year_back": -YEAR_MS}
_TRAPS: tuple[TrapKind, ...] = ("crash_in_transaction", "crash_after_commit", "io_error", "lost_commit", "slow_commit")
_CALM_ROUNDS = 600


class Result(NamedTuple):
    seed: int
    violation: str | None
    trace: str
    faults: Counter[str]
    actions: Counter[str]
    """What users did, without what was refused."""
    commits: int
    dispatches: int
    slots: int


def gated(seed: int) -> bool:
    """Whether this world has gates: without them more happens in the same time."""
    return seed % 3 > 0


class World:
    def __init__(self, seed: int, folder: Path, say: Callable[[str], None] = lambda line: None) -> None:
        self.rng = Random(seed)
        self.faults = Faults()
        self._say = say
        self._path = folder / f"{seed}.db"
        self._path.write_bytes(_empty_store())
        self.observer = Observer(self._path)
        self.shared = self.rng.random() < 0.75
        count = self.rng.randint(2, 4) if self.shared else 1
        gates = gated(seed)
        guarded = self.observer.gates.guarded = gates and self.rng.random() < 0.2
        engine = EngineOptions(history_days=None, history_runs=self.rng.choice((None, None, 6)))
        lead_ms = Random(f"{seed} lead").choice(LEADS_MS)
        self.observer.allow_lead(lead_ms)
        settings = WorkerSettings(engine, gates, guarded, lead_ms)
        self.workers = [Worker(f"w{n}", self._clock(), self.rng, self.faults, settings) for n in range(count)]
        self.users = (People if gates else Users)(self._clock(), self.rng)
        self._moves = _MOVES
        nodes = Random(f"{seed} nodes")
        if self.shared and nodes.random() < 0.3:
            self._tell_apart(nodes)
        self._complaints = Complaints()
        self._inside = False
        self._step = 0

    def _clock(self) -> ManualClock:
        """Clocks of different machines differ a little."""
        return ManualClock(instant(START) + self.rng.randint(-300, 300))

    def _tell_apart(self, nodes: Random) -> None:
        """The workers are on machines of their own: some lack a job or a label, or take few runs, and each may be
        cut off."""
        self._moves = {**_MOVES, World.cut_off: 2}
        self.users.rare = nodes
        self.workers[0].labels = ("gpu",)
        for worker in self.workers[2:]:  # the first two have all jobs: runs may have to be on one of them
            worker.jobs = frozenset(nodes.choice((["job"], ["rare"], ["job", "rare"])))
            worker.labels = nodes.choice(((), ("gpu",)))
        for worker in self.workers[1:]:
            worker.max_runs = nodes.choice((None, 1, 2))

    # -- life

    def run(self, steps: int) -> None:
        log = logging.getLogger("matins")
        log.addHandler(self._complaints)
        propagate, log.propagate = log.propagate, False
        try:
            self._connect(self.users)
            self.users.open()
            self.users.prepare()
            for worker in self.workers:
                self._boot(worker)
            for self._step in range(1, steps + 1):
                self.step()
                self._look(full=self._step % 50 == 0)
            self.calm_down()
        finally:
            log.removeHandler(self._complaints)
            log.propagate = propagate
            self._close()

    def step(self) -> None:
        self._note(self.rng.choices(list(self._moves), list(self._moves.values()))[0](self))

    def _look(self, *, full: bool) -> None:
        require(11, self._complaints.first is None, f"a turn failed by itself: {self._complaints.first}")
        if full:
            self.observer.check_everything()

    def _close(self) -> None:
        for actor in [self.users, *(worker for worker in self.workers if worker.up)]:
            actor.store.close()
        self.observer.close()

    def _note(self, line: str) -> None:
        self.observer.note(line)
        self._say(f"{self._step:4} {self.users.clock.now_ms() - instant(START):>10} {line}")

    def _connect(self, actor: Actor) -> None:
        actor.connect(self._path, self.shared, self.faults, self._committed)

    def _boot(self, worker: Worker) -> None:
        """Start a worker; it may crash over it, or find the store out of order, and is down again then."""
        self._connect(worker)
        try:
            worker.start(self._dispatched, self.observer.unknown.begun)
        except (SimulatedCrash, StoreUnavailable):
            self._note(f"{worker.name} does not start")
            worker.crash()

    def _committed(self, actor: Actor, changed: dict[str, set[int]]) -> None:
        self.observer.committed(actor.now, changed)

    def _dispatched(self, worker: Worker, work: Attempt) -> None:
        words, running = work.compiled.definition, worker.executor.running()
        offered = (
            words.job in worker.jobs and {*words.runs_on} <= {*worker.labels} and words.host in (None, worker.name)
        )
        require(13, offered, f"{worker.name} starts run {work.run_id}, and lacks what it needs: {words}")
        most = worker.max_runs
        require(13, most is None or running < most, f"{worker.name} has {running} runs, and starts {work.run_id}")
        self.observer.dispatched(worker.engine.worker, work.run_id, work.epoch)

    # -- moves

    def turn(self) -> str:
        worker = self._able()
        return self._turn(worker) if worker else "nobody can work"

    def _turn(self, worker: Worker) -> str:
        ok = worker.guarded(worker.turn)
        return f"{worker.name} turns" if ok else f"{worker.name} crashes in a turn"

    def trapped_turn(self) -> str:
        """A turn with a fault somewhere in it, mostly one in which something is due."""
        self._pass(self.rng.choice((0, 1_000, 5_000)))
        worker = self._able()
        if worker is None:
            return "nobody can work"
        trap = self._trap()
        worker.wire.trap = trap
        worker.wire.interlude = lambda: self._interlude(worker)
        return f"{trap.kind} at {trap.countdown}: {self._turn(worker)}"

    def _trap(self) -> Trap:
        kind = self.rng.choice(_TRAPS)
        return Trap(kind, self.rng.randint(1, 14) if kind in ("crash_in_transaction", "io_error") else self._commit())

    def _commit(self) -> int:
        """Which commit of a turn: mostly the first, which claims; then it seals and reaps."""
        return self.rng.choice((1, 1, 1, 2, 3))

    def pass_time(self) -> str:
        return self._pass(self.rng.choice((1, 40, 400, 1_000, 1_000, 3_000)))

    def _pass(self, milliseconds: int, beating: bool = True) -> str:
        for clock in self._clocks():
            clock.advance(milliseconds)
        for worker in self.workers:
            if worker.stalled and not self._inside and worker.clock.boot_ms() >= worker.stalled_until:
                worker.stalled = False
        for worker in self.workers if beating else ():
            if worker.able and worker.clock.boot_ms() >= worker.next_beat:
                worker.guarded(worker.beat)
        return f"{milliseconds} ms pass"

    def work_for_a_while(self) -> str:
        """Everybody does what it should, for some seconds."""
        self._work(self.rng.randint(2, 8))
        return "work goes on"

    def _work(self, seconds: int) -> None:
        for _ in range(seconds):
            self._pass(1_000)
            for worker in self.workers:
                if worker.able:
                    self._turn(worker)

    def user_acts(self) -> str:
        return self.users.act()

    def trapped_user(self) -> str:
        """Something fails on a user's way to the store; the process of the user survives."""
        kind: TrapKind = self.rng.choice(("io_error", "lost_commit"))
        self.users.wire.trap = Trap(kind, self.rng.randint(1, 8) if kind == "io_error" else 1)
        said = self.users.act()
        self.users.wire.trap = None
        return f"{kind}: {said}"

    def crash(self) -> str:
        worker = self._able()
        if worker is None:
            return "nobody to crash"
        self.faults.injected["crash"] += 1
        worker.crash()
        return f"{worker.name} crashes"

    def stop_and_start(self) -> str:
        """An orderly stop, as `Loop.stop` does it; jobs that do not end in time are left to others."""
        worker = self._able()
        if worker is None:
            return "nobody to stop"
        self._restart_in_order(worker)
        return f"{worker.name} stopped and starts again"

    def _restart_in_order(self, worker: Worker) -> None:
        try:
            worker.stop()
        except StoreUnavailable:
            self._note(f"{worker.name} cannot say goodbye")
        worker.crash()
        self._boot(worker)

    def restart(self) -> str:
        down = [worker for worker in self.workers if not worker.up]
        if not down:
            return "all are up"
        worker = self.rng.choice(down)
        self._boot(worker)
        return f"{worker.name} starts"

    def stall(self) -> str:
        worker = self._able()
        if worker is None:
            return "nobody to stall"
        self.faults.injected["stall"] += 1
        seconds = self.rng.choice((5, 17, 18, 19, 20, 22, 30))
        worker.stall(1_000 * seconds)
        self._work(seconds)
        return f"{worker.name} stalls for {seconds} s"

    def suspend(self) -> str:
        """The machine sleeps: time passes for all, and nobody does anything."""
        self.faults.injected["suspend"] += 1
        return "asleep: " + self._pass(self.rng.choice((8_000, 16_000, 40_000)), beating=False)

    def beat_fails(self) -> str:
        worker = self._able()
        if worker is None:
            return "nobody beats"
        self.faults.injected["beat_fails"] += 1
        worker.wire.trap = Trap(self.rng.choice(("io_error", "io_error", "lost_commit", "crash_after_commit")), 1)
        worker.guarded(worker.beat)
        return f"{worker.name} has trouble with a beat"

    def cut_off(self) -> str:
        """A machine does not reach the store for a while, and its jobs go on."""
        worker = self._able()
        if worker is None:
            return "nobody to cut off"
        self.faults.injected["cut_off"] += 1
        seconds = self.rng.choice((5, 17, 19, 30))
        wire = worker.wire
        wire.is_cut = True
        try:
            self._work(seconds)
        finally:
            wire.is_cut = False
        return f"{worker.name} is cut off for {seconds} s"

    def fill_disk(self) -> str:
        self.faults.disk_full = True
        self.faults.injected["disk_full"] += 1
        return "the disk is full"

    def make_room(self) -> str:
        self.faults.disk_full = False
        return "there is room on the disk"

    def leap(self) -> str:
        """The wall clock is set wrong, or right again; no time passes."""
        kind = self._set_clocks()
        self._see_the_clock()
        return kind

    def _set_clocks(self) -> str:
        kind = self.rng.choice(sorted(_LEAPS))
        self.faults.injected[kind] += 1
        for clock in self._clocks():
            clock.step(_LEAPS[kind])
        return kind

    def _see_the_clock(self) -> None:
        """An engine looks at the clock every second, so it sees every leap."""
        for worker in self.workers:
            if worker.able:
                self._turn(worker)

    def two_at_once(self) -> str:
        """Another fault happens to a worker while it deals with the first."""
        worker = self._able()
        if worker is None:
            return "nobody to trouble"
        pair = self.rng.choice(PAIRS)
        first, _, second = pair.partition("+")
        if first == "leap":
            self._note(self._set_clocks())
        elif first == "disk_full":
            self._note(self.fill_disk())
        else:
            worker.wire.trap = Trap("lost_commit", self._commit())
            self._turn(worker)
        self.faults.injected[pair] += 1
        (self._crash_in_a_turn if second == "crash" else self._restart_in_order)(worker)
        self._see_the_clock()
        return f"{pair}: {worker.name}"

    def _crash_in_a_turn(self, worker: Worker) -> None:
        """Somewhere in it, or at its end."""
        if worker.able:
            kind: TrapKind = self.rng.choice(("crash_in_transaction", "crash_after_commit"))
            worker.wire.trap = Trap(kind, self.rng.randint(1, 14) if kind == "crash_in_transaction" else 1)
            self._turn(worker)
        if worker.up:
            worker.crash()

    def _interlude(self, slow: Worker) -> None:
        """Others go on while one waits for the answer to its commit."""
        if self._inside:
            return
        self._inside = True
        slow.stalled = True
        try:
            for _ in range(self.rng.randint(1, 12)):
                self._note("  meanwhile: " + self._pass(self.rng.choice((400, 3_000))))
                other = self._able()
                if other is not None:
                    self._note("  meanwhile: " + self._turn(other))
        finally:
            slow.stalled = False
            self._inside = False

    # -- the end

    def calm_down(self) -> None:
        """Faults stop. After a while nothing of what there was may be left, and nothing may be due."""
        self._note("calm")
        self.faults.disk_full = False
        self.users.open_everything()
        for worker in self.workers:
            if not worker.up:
                self._boot(worker)
            worker.calm_down()
        planned = {run.id for run in self.observer.runs.values()}
        left: list[str] = ["nothing was tried"]
        for number in range(_CALM_ROUNDS):
            self._pass(1_000 if number < 60 else 2_500)  # an approval of 5 s can be used in between
            if number % 10 == 9:
                self.users.resolve_all(self.observer.held())
                self.users.open_everything()
            for worker in self.workers:
                self._turn(worker)
            self._look(full=False)
            left = self.observer.unfinished(planned, min(clock.now_ms() for clock in self._clocks()) - 1_000)
            left += [f"{worker.name} lives, but starts nothing" for worker in self.workers if worker.engine.fenced]
            if not left:
                break
        require(11, not left, f"left after the faults stopped: {left[:3]}")
        self.observer.check_the_end(max(clock.now_ms() for clock in self._clocks()))
        core = cast("Core", SimpleNamespace(store=self.users.store))  # nothing else of it is read
        problems = Audit(core).verify(OWNER).problems
        require(12, not problems, f"audit: {problems}")

    def _able(self) -> Worker | None:
        able = [worker for worker in self.workers if worker.able]
        return self.rng.choice(able) if able else None

    def _clocks(self) -> list[ManualClock]:
        return [self.users.clock, *(worker.clock for worker in self.workers)]


_MOVES: dict[Callable[[World], str], int] = {
    World.turn: 24,
    World.pass_time: 14,
    World.work_for_a_while: 20,
    World.trapped_turn: 12,
    World.user_acts: 11,
    World.trapped_user: 2,
    World.crash: 1,
    World.restart: 14,
    World.stall: 3,
    World.suspend: 2,
    World.beat_fails: 2,
    World.fill_disk: 2,
    World.make_room: 14,
    World.stop_and_start: 1,
    World.leap: 1,
    World.two_at_once: 2,
}


@cache
def _empty_store() -> bytes:
    """Migrated once, and the same for each seed."""
    with tempfile.TemporaryDirectory(prefix="matins-simulation-", dir=_memory()) as folder:
        path = Path(folder, "empty.db")
        SqliteStore(path, 0).close()
        return path.read_bytes()


def _memory() -> str | None:
    """Where a sync costs nothing; what a crash loses is simulated, not left to the disk."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def simulate(seed: int, steps: int = STEPS, say: Callable[[str], None] = lambda line: None) -> Result:
    """One seed, from its beginning to its end; the same every time."""
    with tempfile.TemporaryDirectory(prefix="matins-simulation-", dir=_memory()) as folder:
        world = World(seed, Path(folder), say)
        violation: str | None = None
        try:
            with both_ways(world.users.clock.now_ms):
                world.run(steps)
        except Violation as found:
            violation = str(found)
        except Exception:  # nothing of ours should raise here: the seed that did is to be told
            violation = traceback.format_exc(limit=-6)
        seen = world.observer
        return Result(
            seed,
            violation,
            seen.trace(),
            world.faults.injected,
            world.users.actions,
            seen.commits,
            seen.dispatches,
            seen.slots,
        )
