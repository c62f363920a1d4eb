"""Matins, through its library alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import durable_adapter as adapter
from durable_adapter import Task, in_own_process

from matins import Matins
from matins.engine.policies import NO_POLICIES
from matins.runtime.catalog import Catalog
from matins.runtime.clearance import Clearance
from matins.runtime.clock import SystemClock
from matins.runtime.timers import Timers

OWN_PAYLOAD = "a payload each"
ONE_SHOTS = "one-shots"
NO_GATES = "without gates"
CHUNK = 50_000
TICK_MS = 10


class EarlierClock(SystemClock):
    """What is added by this clock for the next two minutes is due now."""

    def now_ms(self) -> int:
        return super().now_ms() - 120_000


def a_minute_ago() -> str:
    """A daily cron expression whose minute has just passed."""
    minute = datetime.now(UTC) - timedelta(minutes=1)
    return f"{minute.minute} {minute.hour} * * *"


def instant(nth: int) -> str:
    """One of the instants of the last minute."""
    at = datetime.now(UTC) - timedelta(minutes=1) + timedelta(milliseconds=nth)
    return at.isoformat(timespec="milliseconds")


def with_jobs(matins: Matins) -> Matins:
    """Schedules name only jobs that are known; what they do is decided where they run."""
    for name in ("nothing", "look", "ready"):
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

    def schedules(self, when: str, do: str, count: int) -> Iterator[dict[str, Any]]:
        once = self.task.variant == ONE_SHOTS
        own = once or self.task.variant == OWN_PAYLOAD
        for nth in range(count):
            payload = {"payload": {"nth": nth}} if own else {}
            at = instant(nth) if once else when
            yield {"name": f"schedule {nth}", "when": at, "timezone": "UTC", "job": do, **payload}

    def prepare(self) -> None:
        matins = with_jobs(Matins(self.url, clock=EarlierClock()))
        matins.add_many(list(self.schedules(a_minute_ago(), "nothing", self.task.count)))
        matins.close()

    def prepare_latency(self) -> None:
        matins = with_jobs(Matins(self.url))
        instants = [datetime.fromtimestamp(due, UTC).isoformat(timespec="milliseconds") for due in self.task.dues()]
        matins.add_many(
            [{"name": f"at {instant}", "when": instant, "timezone": "UTC", "job": "look"} for instant in instants]
        )
        matins.close()

    def open(self) -> None:
        if self.task.variant == NO_GATES:
            take_gates_out()
        self.matins = Matins(self.url)
        self.matins.job("nothing")(lambda run: None)
        self.matins.job("look")(lambda run: self.started(run.slot.timestamp()))

    def start(self) -> None:
        self.matins.start()

    def stop(self) -> None:
        self.matins.close()

    def adding_one_by_one(self) -> Callable[[int], Any]:
        matins = with_jobs(Matins(self.url))
        return lambda nth: matins.add(f"one by one {nth}", when="0 9 * * *", timezone="UTC", job="nothing")

    def adding_in_bulk(self) -> Callable[[], Any]:
        matins = with_jobs(Matins(self.url))
        rows = list(self.schedules("0 9 * * *", "nothing", self.task.count))
        return lambda: matins.add_many(rows)


def take_gates_out() -> None:
    """What is left of the engine when nothing is asked between due and started: policies, gates, checks and waits."""
    Catalog.policies = lambda self, transaction: NO_POLICIES
    Clearance.begin = lambda self, policies, *, guarded, capacity: None
    Clearance.gates_to_start = lambda self, item: 0
    Timers.turn = lambda self, transaction, now: None
    Timers.next_due = lambda self, transaction: None


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


if __name__ == "__main__":
    adapter.MEASURES["idle"] = idle
    adapter.ROLES.update(fill=fill, rest=rest, tick=tick)
    adapter.main(OfMatins)
