"""Huey on SQLite: tasks that lie in its schedule and are due; the record is the stored result."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from durable_adapter import Contestant, Task, main
from huey import SqliteHuey

FOUR_WORKERS = "four workers"


class OfHuey(Contestant):
    left = "SELECT {count} - count(*) FROM kv"
    recorded = "SELECT count(*) FROM kv"
    poll_s = 0.05

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.huey = SqliteHuey("bench", filename=str(task.file), store_none=True)
        self.nothing = self.huey.task(name="nothing")(lambda: None)
        self.look = self.huey.task(name="look")(self.started)
        self.write = self.huey.task(name="write")(lambda key, payload: self.write_line(key, payload["nth"]))

    def prepare(self) -> None:
        began = datetime.now(UTC).replace(tzinfo=None) - timedelta(minutes=1)
        for _ in range(self.task.count):
            self.huey.add_schedule(self.nothing.s(eta=began))

    def prepare_lines(self) -> None:
        began = datetime.now(UTC).replace(tzinfo=None) - timedelta(minutes=1)
        for nth in range(self.task.count):
            eta = began + timedelta(milliseconds=nth)
            self.huey.add_schedule(self.write.s(f"{nth}", {"nth": nth}, eta=eta))

    def prepare_latency(self) -> None:
        for due in self.task.dues():
            self.huey.add_schedule(self.look.s(due, eta=datetime.fromtimestamp(due, UTC).replace(tzinfo=None)))

    def open(self) -> None:
        workers = 4 if self.task.variant == FOUR_WORKERS else 1
        self.consumer = self.huey.create_consumer(workers=workers, worker_type="thread", periodic=False)

    def start(self) -> None:
        self.consumer.start()

    def stop(self) -> None:
        self.consumer.stop(graceful=True)

    def adding_one_by_one(self) -> Callable[[int], Any]:
        later = datetime.now(UTC).replace(tzinfo=None) + timedelta(hours=1)
        return lambda nth: self.huey.add_schedule(self.nothing.s(eta=later))


if __name__ == "__main__":
    main(OfHuey)
