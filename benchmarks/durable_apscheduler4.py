"""APScheduler 4, an alpha version, with its SQLAlchemy data store. It records the result of every job."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from apscheduler import Scheduler
from apscheduler.datastores.sqlalchemy import SQLAlchemyDataStore
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger
from durable_adapter import Contestant, Task, main


def nothing() -> None:
    pass


def look(due: float) -> None:
    at_work[0].started(due)


at_work: list[Contestant] = []
"""Jobs are found by their name, so they cannot belong to an object."""


class OfApscheduler(Contestant):
    left = "SELECT {count} - count(*) FROM job_results"
    recorded = "SELECT count(*) FROM job_results"

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        at_work.append(self)
        self.scheduler = Scheduler(SQLAlchemyDataStore(f"sqlite+aiosqlite:///{task.file}"))

    def prepare(self) -> None:
        began = datetime.now(UTC) - timedelta(minutes=1)
        with self.scheduler as scheduler:
            for nth in range(self.task.count):
                hourly = IntervalTrigger(hours=1, start_time=began)
                scheduler.add_schedule(nothing, hourly, id=f"{nth}", job_result_expiration_time=timedelta(days=1))

    def prepare_latency(self) -> None:
        with self.scheduler as scheduler:
            for due in self.task.dues():
                scheduler.add_schedule(look, DateTrigger(datetime.fromtimestamp(due, UTC)), args=[due])

    def open(self) -> None:
        self.scheduler.__enter__()

    def start(self) -> None:
        self.scheduler.start_in_background()

    def stop(self) -> None:
        self.scheduler.__exit__(None, None, None)

    def adding_one_by_one(self) -> Callable[[int], Any]:
        scheduler = self.scheduler.__enter__()
        hourly = IntervalTrigger(hours=1, start_time=datetime.now(UTC) + timedelta(hours=1))
        return lambda nth: scheduler.add_schedule(nothing, hourly, id=f"one {nth}")


if __name__ == "__main__":
    main(OfApscheduler)
