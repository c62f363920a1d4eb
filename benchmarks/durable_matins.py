"""Matins, through its library and its command alone.

It measures earlier commits, too: what only some of them have is imported where it is used.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import durable_adapter as adapter
from durable_adapter import Observer, Task, at, in_own_process

from matins import Matins
from matins.runtime.clock import SystemClock

OWN_PAYLOAD = "a payload each"
OWN_CRON = "a cron and a payload each"
ONE_INSTANT = "one-shots of one instant, a payload each"
ONE_SHOTS = "one-shots, an instant and a payload each"
INTERVAL = "interval from completion"
RESULT = "a small result"
FAILING = "failing"
LIMITED = "limit of 64"
NO_GATES = "without gates"
WITH_PAYLOAD = (OWN_PAYLOAD, OWN_CRON, ONE_INSTANT, ONE_SHOTS)
CHUNK = 50_000
TICK_MS = 10
SLOTS = 1_000
"""Of each schedule, in a catch-up: the most that one window may have."""
LATE_S, LATE_FIRES, LATE_LEAD_S = 0.025, 60, 0.5
"""Fires while a backlog is read: one each so many seconds, how many, the first after so long."""
ERRORS = ("no disk left", "no route to host", "permission denied", "it was refused")
INCIDENTS = "SELECT {count} - count(*) FROM incidents"


class EarlierClock(SystemClock):
    """What is added by this clock is due as long after it as this clock is behind."""

    def __init__(self, behind: timedelta = timedelta(minutes=2)) -> None:
        super().__init__()
        self._behind_ms = int(behind.total_seconds() * 1000)

    def now_ms(self) -> int:
        return super().now_ms() - self._behind_ms


def a_minute_ago() -> str:
    """A daily cron expression whose minute has just passed."""
    minute = datetime.now(UTC) - timedelta(minutes=1)
    return f"{minute.minute} {minute.hour} * * *"


def instant(nth: int = 0) -> str:
    """One of the instants of the last minute."""
    at = datetime.now(UTC) - timedelta(minutes=1) + timedelta(milliseconds=nth)
    return at.isoformat(timespec="milliseconds")


def fail(run: Any) -> None:
    raise ValueError("no disk left")


def with_jobs(matins: Matins) -> Matins:
    """Schedules name only jobs that are known; what they do is decided where they run."""
    for name in ("nothing", "look", "ready", "result", "fail", "write"):
        matins.job(name)(lambda run: None)
    return matins


class OfMatins(adapter.Contestant):
    left = """SELECT (SELECT count(*) FROM runs WHERE state BETWEEN 0 AND 5)
      + (SELECT count(*) FROM (SELECT 1 FROM due WHERE due_at <= {now} LIMIT 1) waiting)"""
    recorded = "SELECT count(*) FROM runs WHERE state = 10"
    poll_s = 0.005

    @property
    def url(self) -> str:
        return self.task.url or f"sqlite:///{self.task.file}"

    def schedules(self, when: str, job: str, count: int) -> Iterator[dict[str, Any]]:
        variant = self.task.variant
        moment = instant()
        for nth in range(count):
            payload = {"payload": {"nth": nth}} if variant in WITH_PAYLOAD else {}
            if variant == ONE_INSTANT:
                when = moment
            elif variant == ONE_SHOTS:
                when = instant(nth)
            elif variant == OWN_CRON:
                when = f"{nth % 60} {nth // 60 % 24} * * *"
            yield {"name": f"schedule {nth}", "when": when, "timezone": "UTC", "job": job, **payload}

    def prepare(self) -> None:
        job = {RESULT: "result", FAILING: "fail"}.get(self.task.variant, "nothing")
        hourly = self.task.variant == INTERVAL
        behind = timedelta(minutes=61 if hourly else 2)
        matins = with_jobs(Matins(self.url, clock=EarlierClock(behind)))
        if self.task.variant == LIMITED:
            matins.limits.set("global", size=64)
        when = "every 1h" if hourly else a_minute_ago()
        matins.add_many(list(self.schedules(when, job, self.task.count)))
        matins.close()

    def prepare_lines(self) -> None:
        matins = with_jobs(Matins(self.url, clock=EarlierClock()))
        matins.add_many(list(self.schedules("", "write", self.task.count)))
        matins.close()

    def prepare_latency(self) -> None:
        matins = with_jobs(Matins(self.url))
        instants = [datetime.fromtimestamp(due, UTC).isoformat(timespec="milliseconds") for due in self.task.dues()]
        matins.add_many(
            [
                {"name": f"{nth} at {instant}", "when": instant, "timezone": "UTC", "job": "look"}
                for nth, instant in enumerate(instants)
            ]
        )
        matins.close()

    def open(self) -> None:
        if self.task.variant == NO_GATES:
            take_gates_out()
        self.matins = Matins(self.url)
        self.matins.job("nothing")(lambda run: None)
        self.matins.job("result")(lambda run: {"rows": 3})
        self.matins.job("fail")(fail)
        self.matins.job("look")(lambda run: self.started(run.slot.timestamp()))
        self.matins.job("write")(lambda run: self.write_line(run.key, run.payload["nth"]))

    def start(self) -> None:
        self.matins.start()

    def stop(self) -> None:
        self.matins.close()

    def adding_one_by_one(self) -> Callable[[int], Any]:
        matins = with_jobs(Matins(self.url))
        return lambda nth: matins.add(f"one by one {nth}", when="0 9 * * *", timezone="UTC", job="nothing")

    def adding_in_bulk(self) -> Callable[[], Any]:
        matins = with_jobs(Matins(self.url, clock=EarlierClock()))  # for one-shots of the minute before
        rows = list(self.schedules("0 9 * * *", "nothing", self.task.count))
        return lambda: matins.add_many(rows)


def take_gates_out() -> None:
    """What is left of the engine when nothing is asked between due and started: policies, gates, checks and waits."""
    from matins.engine.policies import NO_POLICIES
    from matins.runtime.catalog import Catalog
    from matins.runtime.clearance import Clearance
    from matins.runtime.timers import Timers

    Catalog.policies = lambda self, transaction: NO_POLICIES
    Clearance.begin = lambda self, policies, *, guarded, capacity: None
    Clearance.gates_to_start = lambda self, item: 0
    Timers.turn = lambda self, transaction, now: None
    Timers.next_due = lambda self, transaction: None


class OfFailures(OfMatins):
    """Jobs that fail. One is done when its incident is open."""

    left = INCIDENTS
    recorded = "SELECT count(*) FROM runs WHERE state = 11"


def failing(kind: type[adapter.Contestant], script: str, task: Task) -> dict[str, Any]:
    """Failures a second, until their incidents are open, and the CPU time of each."""
    reached = adapter.drain(OfFailures, script, task)
    adapter.count_afresh(OfFailures, task)
    return {"failures_per_s": reached["fires_per_s"], "cpu_us": reached["cpu_us"], "count": task.count}


class OfMissed(OfMatins):
    def prepare(self) -> None:
        """Schedules of which each has missed `SLOTS` minutes."""
        matins = with_jobs(Matins(self.url, clock=EarlierClock(timedelta(minutes=SLOTS, seconds=1))))
        settings = {"catch_up": "run_all_capped", "catch_up_limit": SLOTS, "queue_limit": SLOTS, "job": "nothing"}
        count = self.task.count // SLOTS
        matins.add_many(
            [{"name": f"missed {n}", "when": "* * * * *", "timezone": "UTC"} | settings for n in range(count)]
        )
        matins.close()


def catch_up(kind: type[adapter.Contestant], script: str, task: Task) -> dict[str, Any]:
    """Slots a second, until all that were missed have run."""
    reached = adapter.drain(OfMissed, script, task, "prepare_missed")
    observer = Observer(task)
    recorded = observer.ask(OfMissed.recorded)
    observer.close()
    if not task.count <= recorded <= task.count + 2 * task.count // SLOTS:  # a minute may pass meanwhile
        raise RuntimeError(f"{recorded} records for {task.count} slots")
    return {"slots_per_s": reached["fires_per_s"], "cpu_us": reached["cpu_us"], "count": task.count}


def starting(kind: type[adapter.Contestant], script: str, task: Task) -> dict[str, Any]:
    """What a process takes before it does anything: each the least of `count`, with compiled bytecode."""
    bare, imports = (least(task.count, [sys.executable, "-c", do]) for do in ("pass", "from matins import Matins"))
    home = {"MATINS_HOME": task.folder, "TZ": "UTC"}
    command = [str(Path(sys.executable).with_name("matins")), "add", "every day at 9am", "--json"]
    in_own_process(script, "open_store", task)  # the first makes the tables
    adds = [
        least(1, [*command, "--name", f"n{nth}", "--agent", "demo", "Say hello"], home) for nth in range(task.count)
    ]
    return {
        "import_s": round(imports - bare, 3),
        "command_add_s": round(min(adds), 3),
        **in_own_process(script, "open_store", task),
        **in_own_process(script, "preview", task),
    }


def least(count: int, command: list[str], environment: dict[str, str] | None = None) -> float:
    """Seconds of CPU that a process takes, in user and system mode: the least of so many."""
    taken: list[float] = []
    for _ in range(count):
        before = os.times()
        subprocess.run(command, env=os.environ | (environment or {}), stdout=subprocess.DEVNULL, check=True)
        after = os.times()
        taken.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return min(taken)


def open_store(contestant: OfMatins) -> dict[str, Any]:
    before = time.process_time()
    matins = Matins(contestant.url)
    matins.list(limit=1)
    used = time.process_time() - before
    matins.close()
    return {"open_ms": round(1000 * used, 1)}


def preview(contestant: OfMatins) -> dict[str, Any]:
    """Of a schedule that fires every second."""
    matins = with_jobs(Matins(contestant.url))
    matins.add("every second", when="every 1s", job="nothing")
    taken: list[float] = []
    told: Any = None
    for _ in range(20):
        before = time.process_time()
        told = matins.preview("every second")
        taken.append(1000 * (time.process_time() - before))
    matins.close()
    return {"preview_ms": round(median(taken), 2), "preview_runs_per_day": told.runs_per_day}


def idle(kind: type[adapter.Contestant], script: str, task: Task) -> dict[str, Any]:
    """What a store full of schedules costs when none of them is due, and how soon it is ready."""
    in_own_process(script, "fill", task)
    return in_own_process(script, "rest", task) | {"tick_us": in_own_process(script, "tick", task), "count": task.count}


def fill(contestant: OfMatins) -> None:
    """Schedules that are not due for hours, and one that is: whoever starts it is ready."""
    matins = with_jobs(Matins(contestant.url, clock=EarlierClock()))
    far = datetime.now(UTC) - timedelta(hours=1)
    rows = list(contestant.schedules(f"{far.minute} {far.hour} * * *", "nothing", contestant.task.count))
    for first in range(0, len(rows), CHUNK):
        matins.add_many(rows[first : first + CHUNK])
    matins.add("due", when=a_minute_ago(), timezone="UTC", job="ready")
    matins.close()


def fill_far(contestant: OfMatins) -> None:
    """Schedules that are not due for hours."""
    matins = with_jobs(Matins(contestant.url))
    far = datetime.now(UTC) - timedelta(hours=1)
    matins.add("far 1", when=f"{far.minute} {far.hour} * * *", timezone="UTC", job="nothing")
    matins.close()


def fill_history(contestant: OfMatins) -> None:
    """Schedules whose runs another statement adds."""
    matins = with_jobs(Matins(contestant.url))
    matins.add_many(list(contestant.schedules("0 9 1 1 *", "nothing", contestant.task.count)))
    matins.close()


def read_history(contestant: OfMatins) -> dict[str, Any]:
    """Milliseconds of what people look at in a long history, the middle of five, and of a batch of pruning."""
    matins = with_jobs(Matins(contestant.url))
    (newest,) = matins.runs.list(limit=1)
    looks: dict[str, Callable[[], Any]] = {
        "runs_ms": lambda: matins.runs.list(limit=100),
        "runs_of_one_ms": lambda: matins.runs.list(schedule="schedule 7", limit=100),
        "schedules_ms": lambda: matins.list(limit=100),
        "run_ms": lambda: matins.runs.get(newest.id),
        "why_ms": lambda: matins.why("schedule 7"),
        "timeline_ms": lambda: matins.timeline(),
        "stats_ms": lambda: matins.system.stats(),
    }
    told: dict[str, Any] = {}
    for name, look in looks.items():
        taken: list[float] = []
        for _ in range(5):
            before = time.perf_counter()
            look()
            taken.append(1000 * (time.perf_counter() - before))
        told[name] = round(median(taken), 1)
    from matins.runtime.maintenance import Maintenance

    maintenance = Maintenance(matins.store, 90, None)
    taken, pruned = [], 0
    for _ in range(5):
        before = time.perf_counter()
        pruned += maintenance.prune(matins.clock.now_ms())
        taken.append(1000 * (time.perf_counter() - before))
    matins.close()
    return told | {"prune_ms": round(median(taken), 1), "pruned": pruned}


def rest(contestant: OfMatins) -> dict[str, Any]:
    ready: list[float] = []
    began = time.perf_counter()
    matins = Matins(contestant.url)
    matins.job("ready")(lambda run: ready.append(time.perf_counter()))
    matins.start()
    while not ready:
        time.sleep(0.001)
    time.sleep(2)
    before = time.process_time()
    time.sleep(contestant.task.seconds)
    used = time.process_time() - before
    memory = resident_mb()
    matins.close()
    return {
        "ready_s": round(ready[0] - began, 3),
        "cpu_percent": round(100 * used / contestant.task.seconds, 2),
        "rss_mb": round(memory, 1),
    }


def tick(contestant: OfMatins) -> float:
    """CPU time of one look at a store in which nothing is due, in µs; the sleep before it is in it."""
    matins = Matins(contestant.url, check_interval_ms=TICK_MS)
    matins.start()
    time.sleep(1)
    before, began = time.process_time(), time.perf_counter()
    time.sleep(3)
    used, ticks = time.process_time() - before, (time.perf_counter() - began) * 1000 / TICK_MS
    matins.close()
    return round(1e6 * used / ticks, 1)


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def backlog(kind: type[adapter.Contestant], script: str, task: Task) -> dict[str, Any]:
    """How late fires are while incidents read a backlog of `count` events, and how soon a stop ends."""
    in_own_process(script, "fail_before", task)
    return in_own_process(script, "fire_beside", task) | {"count": task.count}


def fail_before(contestant: OfMatins) -> None:
    """Failures with several errors, and a success now and then, of schedules that are not due."""
    from matins.model.rows import NewEvent

    matins = with_jobs(Matins(contestant.url))
    ids = [int(made) for made in matins.add_many(list(contestant.schedules("0 9 1 1 *", "nothing", 1_000)))]
    now = matins.clock.now_ms()

    def event(nth: int) -> NewEvent:
        turn, schedule = divmod(nth, len(ids))
        if turn % 10 == 9:
            return NewEvent(now, "run.succeeded", ids[schedule], None, None)
        why = {"epoch": 1, "reason": "failed", "error": ERRORS[turn % len(ERRORS)]}
        return NewEvent(now, "run.failed", ids[schedule], None, why)

    for first in range(0, contestant.task.count, 5_000):
        with matins.store.transaction(now) as transaction:
            transaction.events.extend(map(event, range(first, min(first + 5_000, contestant.task.count))))
    matins.close()


def fire_beside(contestant: OfMatins) -> dict[str, Any]:
    contestant.open()
    matins = contestant.matins
    first = datetime.now(UTC) + timedelta(seconds=LATE_LEAD_S + 1)
    instants = [(first + timedelta(seconds=LATE_S * nth)).isoformat() for nth in range(LATE_FIRES)]
    matins.add_many([{"name": f"at {instant}", "when": instant, "job": "look"} for instant in instants])
    time.sleep(max(0, (first - datetime.now(UTC)).total_seconds() - LATE_LEAD_S))
    matins.start()
    time.sleep(LATE_LEAD_S + LATE_S * LATE_FIRES)
    began = time.perf_counter()
    matins.stop()
    took = time.perf_counter() - began
    matins.close()
    late = sorted(1000 * lateness for lateness in contestant.latenesses)
    if len(late) != LATE_FIRES:
        raise RuntimeError(f"{len(late)} fires for {LATE_FIRES} due schedules")
    return {"p50_ms": round(at(late, 0.5), 2), "p99_ms": round(at(late, 0.99), 2), "stop_s": round(took, 2)}


if __name__ == "__main__":
    adapter.MEASURES.update(failing=failing, starting=starting, idle=idle, backlog=backlog)
    adapter.MEASURES["catch-up"] = catch_up
    own: list[Callable[[Any], Any]] = [
        open_store,
        preview,
        fill,
        fill_far,
        fill_history,
        read_history,
        rest,
        tick,
        fail_before,
        fire_beside,
    ]
    adapter.ROLES |= {act.__name__: act for act in own}
    adapter.ROLES["prepare_missed"] = lambda contestant: OfMissed(contestant.task).prepare()
    adapter.main(OfMatins)
