"""APScheduler 3 with its SQLAlchemy job store. It keeps no record of a run: the job's row, moved on, is counted."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger
from durable_adapter import Contestant, Task, main
from sqlalchemy import event

TUNED = "WAL, one thread"


def nothing() -> None:
    pass


def look(due: float) -> None:
    at_work[0].started(due)


def write(key: str, payload: dict[str, int]) -> None:
    at_work[0].write_line(key, payload["nth"])


def write_ahead(connection: Any, record: Any) -> None:
    connection.execute("PRAGMA journal_mode = WAL")


at_work: list[Contestant] = []
"""Jobs are found by their name, so they cannot belong to an object."""


class OfApscheduler(Contestant):
    left = "SELECT count(*) FROM apscheduler_jobs WHERE next_run_time <= {now} / 1000.0"
    recorded = "SELECT count(*) FROM apscheduler_jobs WHERE next_run_time > {now} / 1000.0"

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        at_work.append(self)
        store = SQLAlchemyJobStore(f"sqlite:///{task.file}")
        tuned = task.variant == TUNED
        if tuned:
            event.listen(store.engine, "connect", write_ahead)
        executors = {"default": ThreadPoolExecutor(1)} if tuned else {}
        self.scheduler = BackgroundScheduler(jobstores={"default": store}, executors=executors, timezone=UTC)

    def prepare(self) -> None:
        self.scheduler.start(paused=True)
        began = datetime.now(UTC) - timedelta(minutes=1)
        hourly = IntervalTrigger(hours=1, start_date=began, timezone=UTC)
        for nth in range(self.task.count):
            self.scheduler.add_job(nothing, hourly, id=f"{nth}", next_run_time=began, misfire_grace_time=None)

    def prepare_lines(self) -> None:
        self.scheduler.start(paused=True)
        began = datetime.now(UTC) - timedelta(minutes=1)
        for nth in range(self.task.count):
            trigger = DateTrigger(began + timedelta(milliseconds=nth))
            self.scheduler.add_job(write, trigger, [f"{nth}", {"nth": nth}], id=f"{nth}", misfire_grace_time=None)

    def prepare_latency(self) -> None:
        self.scheduler.start(paused=True)
        for due in self.task.dues():
            self.scheduler.add_job(look, DateTrigger(datetime.fromtimestamp(due, UTC)), [due])

    def open(self) -> None:
        self.scheduler.start(paused=True)

    def start(self) -> None:
        self.scheduler.resume()

    def stop(self) -> None:
        self.scheduler.shutdown()

    def adding_one_by_one(self) -> Callable[[int], Any]:
        self.scheduler.start(paused=True)
        later = datetime.fromtimestamp(time.time() + 3600, UTC)
        hourly = IntervalTrigger(hours=1, start_date=later, timezone=UTC)
        return lambda nth: self.scheduler.add_job(nothing, hourly, id=f"one {nth}")


if __name__ == "__main__":
    main(OfApscheduler)
