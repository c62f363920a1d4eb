"""A process under torture: an engine, a client of one, or the one that sets the stage."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import gc
import importlib
import logging
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import client
import planted
from cast import AGENTS, CAST, FEW, KEYED, LETTERBOXES, LIMIT, LIMITED, NOTES
from diary import Diary
from ledger import SCHEDULES, Rows
from points import Points
from stage import Orders, Stage
from stepped_clock import SteppedClock

from matins import Matins
from matins.delivery.destinations import Address, Answer, DestinationKind, Part, Receipt, destination_kinds
from matins.errors import Conflict, NotFound, StoreBusy, StoreUnavailable
from matins.executors.job_context import JobContext
from matins.executors.processes import proc
from matins.executors.python import PythonExecutor
from matins.runtime import recorder
from matins.runtime.attempt import Attempt, AttemptEnd
from matins.runtime.signals import Signals

BUSY = 3
UNAVAILABLE = 4
STACKS = ".stacks"
"""Where a process that gets SIGUSR1 writes what its threads are doing."""
_STANDSTILL_S = 90
"""Nothing that was there has ended for so long: it never will."""
_LOOK_S = 0.05
_GENERATIONS = 4
_AGENT = 'echo "begin $MATINS_KEY" >> {0}; sleep 0.4; echo "end $MATINS_KEY" >> {0}'


def fork(stage: Stage, orders: Orders, path: Path) -> int:
    """Start a process of its own; the pid."""
    _traced(stage)  # imported once, before the fork
    pid = os.fork()
    if pid:
        return pid
    gc.freeze()  # what the parent knows is nothing to look through, page by page
    diary = Diary(path)
    faulthandler.register(signal.SIGUSR1, path.with_suffix(STACKS).open("w"))
    try:
        code = _live(stage, orders, diary)
    except BaseException:
        diary.tell("crash", error=traceback.format_exc())
        code = 1
    os._exit(code)


def _live(stage: Stage, orders: Orders, diary: Diary) -> int:
    _report_errors(diary)
    points = Points(diary, orders.at, orders.passage, orders.unless)
    traced = _traced(stage)
    traced.trace(points)
    _trace_jobs(points)
    take_letters(diary, points)
    _count_refusals(diary)
    if orders.planted:
        planted.FAULTS[orders.planted](traced)
    if (boot := orders.boot) is not None:
        proc.boot_id = lambda: boot
    try:
        clock = SteppedClock(stage.offset)
        with contextlib.closing(Matins(stage.url, clock=clock, threads=orders.threads, **stage.settings())) as matins:
            _register(matins, diary, points)
            _ROLES[orders.role](matins, stage, orders, diary, points)
    except StoreBusy:
        diary.tell("busy")
        return BUSY
    except StoreUnavailable as error:
        diary.tell("unavailable", error=str(error))
        return UNAVAILABLE
    return 0


# -- roles


def set_stage(matins: Matins, stage: Stage, orders: Orders, diary: Diary, points: Points) -> None:
    """Comes again when it was killed before."""
    matins.limits.set(LIMITED, size=LIMIT)
    for name in LETTERBOXES:
        matins.destinations.set(name, kind=f"torture-{name}", to=["here"], max_per_hour=1_000)
    matins.destinations.set(NOTES, kind="file", to=[str(stage.notes)], keep=100_000)
    matins.notify.set(to=["none"])
    if stage.name == "agents":
        matins.agents.set("hand", runner="shell", command=["sh", "-c", _AGENT.format(stage.effects)], isolation="none")
    with contextlib.suppress(Conflict):
        matins.add_many(AGENTS if stage.name == "agents" else FEW if stage.few else CAST)


def engine(matins: Matins, stage: Stage, orders: Orders, diary: Diary, points: Points) -> None:
    """Until it is killed, or asked to stop."""
    _begin(matins, diary, points)
    done = threading.Event()
    with Signals((signal.SIGTERM,), lambda number: done.set()):
        if orders.full_disk or orders.stays_full:
            _full_disk(stage, Random(orders.seed), diary, done, stays=orders.stays_full)
        if orders.unsound_disk:
            _traced(stage).lose_answers(matins, diary)
        done.wait()
        matins.stop()


def settle(matins: Matins, stage: Stage, orders: Orders, diary: Diary, points: Points) -> None:
    """An engine without faults, until everything that was there before it is over."""
    began = matins.clock.now_ms()
    _begin(matins, diary, points)
    rows, since = Rows(stage.url), time.monotonic()
    left = rows.unsettled(began)
    while left and time.monotonic() - since < _STANDSTILL_S:
        time.sleep(_LOOK_S)
        if (now := rows.unsettled(began)) != left:
            left, since = now, time.monotonic()
    diary.tell("settled", began=began)
    rows.close()
    matins.stop()


def play_client(matins: Matins, stage: Stage, orders: Orders, diary: Diary, points: Points) -> None:
    client.play(matins, Random(orders.seed), diary)


def newcomers(matins: Matins, stage: Stage, orders: Orders, diary: Diary, points: Points) -> None:
    """Schedules that begin at the present time of a clock that was stepped; those of a few steps before are retired,
    and it is told how far they were."""
    light = [words for words in FEW if "steps" not in words]
    with contextlib.suppress(Conflict):
        matins.add_many([{**words, "name": f"{words['name']}-{orders.seed}"} for words in light])
    rows = Rows(stage.url)
    cursors = {name: (number, slot) for number, name, _, _, slot, *_ in rows.all(SCHEDULES)}
    rows.close()
    for name in (f"{words['name']}-{int(orders.seed) - _GENERATIONS}" for words in light):
        if name in cursors:
            diary.tell("retired", schedule=cursors[name][0], cursor=cursors[name][1])
            with contextlib.suppress(NotFound):  # by the one that was killed over it
                matins.delete(name)


_ROLES: dict[str, Callable[[Matins, Stage, Orders, Diary, Points], None]] = {
    "set_stage": set_stage,
    "engine": engine,
    "settle": settle,
    "client": play_client,
    "newcomers": newcomers,
}


def _begin(matins: Matins, diary: Diary, points: Points) -> None:
    while True:
        try:
            matins.start(strict=True)  # a second engine on one file answers instead of standing by
            break
        except Conflict as error:
            if error.field != "name":
                raise
            time.sleep(_LOOK_S)  # the node of before the power cut counts for a few beats; an init system tries again
    diary.tell("started")


def _full_disk(stage: Stage, rng: Random, diary: Diary, done: threading.Event, *, stays: bool) -> None:
    """Full for a while; then there is room again and the engine must go on by itself. Or full until the end."""
    disk = _disk(stage)
    done.wait(rng.uniform(0.1, 0.8))
    disk.fill()
    diary.tell("full")
    if stays:
        return
    done.wait(rng.uniform(0.3, 1.0))
    disk.clear()
    diary.tell("room")


def _disk(stage: Stage) -> Any:
    return _traced(stage).FullDisk(stage)


def _traced(stage: Stage) -> Any:
    return importlib.import_module("traced_sqlite" if stage.sqlite else "traced_postgres")


# -- jobs


def _register(matins: Matins, diary: Diary, points: Points) -> None:
    @matins.job("work")
    def work(run: JobContext) -> dict[str, int]:
        fact = _begun(run, diary, points)
        deadline = time.monotonic() + (run.payload or {}).get("ms", 0) / 1000
        while time.monotonic() < deadline and not run.cancelled:
            time.sleep(0.01)
        return _ended(run, fact, diary, points)

    @matins.job("await")
    async def awaited(run: JobContext) -> dict[str, int]:
        fact = _begun(run, diary, points)
        await asyncio.sleep((run.payload or {}).get("ms", 0) / 1000)
        return _ended(run, fact, diary, points)


def _begun(run: JobContext, diary: Diary, points: Points) -> dict[str, int]:
    fact = {"run": run.id, "epoch": run._attempt.epoch}
    points.passed("job: before its effect")
    slow = (run.payload or {}).get("ms", 0) >= 250
    diary.tell("begin", schedule=run.schedule, slot=run._attempt.slot, at=time.monotonic_ns(), pid=os.getpid(),
               key=run.key, slow=slow, **fact)  # fmt: skip
    points.passed("job: after its effect")
    return fact


def _ended(run: JobContext, fact: dict[str, int], diary: Diary, points: Points) -> dict[str, int]:
    diary.tell("end", at=time.monotonic_ns(), **fact)
    points.passed("job: over")
    if run.attempt <= (run.payload or {}).get("fails", 0):
        raise RuntimeError(f"attempt {run.attempt} fails, as it should")
    if run.cancelled:
        raise RuntimeError("ended because it was cancelled")
    text = {"text": f"answer of {run.id}"} if (run.payload or {}).get("says") else {}
    return {"epoch": fact["epoch"], **text}


def take_letters(diary: Diary, points: Points) -> None:
    """Destinations that write down what arrives: one whose receiver knows keys, and one that cannot tell copies."""

    def parts(address: Address, answer: Answer) -> list[Part]:
        return [Part((answer.facts["run_id"], number, answer.again)) for number in range(2)]

    def take(address: Address, part: Part, key: str) -> Receipt:
        run, number, again = part.body
        name = address.destination.name
        points.passed(f"answer to {name}: leaves")
        diary.tell("letter", to=name, run=int(run), part=number, key=key, again=again)
        points.passed(f"answer to {name}: arrived")
        return Receipt(key)

    file = destination_kinds()["file"]

    def write(address: Address, part: Part, key: str) -> Receipt:
        points.passed("answer to a file: leaves")
        receipt = file.answer(address, part, key)
        points.passed("answer to a file: arrived")
        return receipt

    destination_kinds()["file"] = replace(file, answer=write)
    for name in LETTERBOXES:
        kind = f"torture-{name}"
        destination_kinds()[kind] = DestinationKind(
            kind, "For torture.", lambda address, message: None, parts=parts, answer=take, keyed=name == KEYED,
            limited=False,
        )  # fmt: skip


def _trace_jobs(points: Points) -> None:
    """Points between a commit and the start of what it promised, and between the end of a job and its record."""
    submit, drain = PythonExecutor.submit, PythonExecutor.drain

    def traced_submit(executor: PythonExecutor, batch: list[Attempt]) -> None:
        points.passed("dispatch: committed, not handed over")
        submit(executor, batch)
        points.passed("dispatch: handed over")

    def traced_drain(executor: PythonExecutor) -> list[AttemptEnd]:
        ended = drain(executor)
        if ended:
            points.passed("record: ended, not written")
        return ended

    PythonExecutor.submit, PythonExecutor.drain = traced_submit, traced_drain


def _count_refusals(diary: Diary) -> None:
    """Tell when an outcome was refused because the run had gone to another epoch."""
    record = recorder.record

    def counted(*arguments: Any, **options: Any) -> int:
        refused = record(*arguments, **options)
        if refused:
            diary.tell("stale", refused=refused)
        return refused

    recorder.record = counted


def _report_errors(diary: Diary) -> None:
    """What Matins logs as an error is a finding, also while its store is away; its warnings are part of the story."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            trace = "".join(traceback.format_exception(*record.exc_info)) if record.exc_info else ""
            kind = "error" if record.levelno >= logging.ERROR else "warning"
            diary.tell(kind, text=record.getMessage()[:300], trace=trace[-3000:])

    logger = logging.getLogger("matins")
    logger.addHandler(Handler())
    logger.propagate = False
    threading.excepthook = lambda told: diary.tell(
        "crash", error="".join(traceback.format_exception(told.exc_type, told.exc_value, told.exc_traceback))
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
