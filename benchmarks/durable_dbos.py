"""DBOS, on SQLite or PostgreSQL: workflows that wait in a queue; the record is the workflow's status row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dbos import DBOS, DBOSClient
from durable_adapter import Contestant, Task, main

QUEUE, VERSION = "bench", "1"
POLLING_S = 0.05  # twenty times as often as by default


@DBOS.workflow(name="nothing")
def nothing() -> None:
    pass


class OfDbos(Contestant):
    left = "SELECT {count} - count(*) FROM workflow_status WHERE status = 'SUCCESS'"
    recorded = "SELECT count(*) FROM workflow_status WHERE status = 'SUCCESS'"

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.url = task.url or f"sqlite:///{task.file}"
        names = {"name": "bench", "application_version": VERSION, "log_level": "ERROR"}
        DBOS(config={"system_database_url": self.url, **names})

    def prepare(self) -> None:
        DBOS.listen_queues([])  # nothing begins here
        add = self.adding_one_by_one()
        DBOS.register_queue(QUEUE, polling_interval_sec=POLLING_S)
        for nth in range(self.task.count):
            add(nth)
        DBOS.destroy()

    def start(self) -> None:
        DBOS.launch()

    def stop(self) -> None:
        DBOS.destroy()

    def adding_one_by_one(self) -> Callable[[int], Any]:
        DBOS.launch()
        client = DBOSClient(system_database_url=self.url)
        return lambda nth: client.enqueue({"workflow_name": "nothing", "queue_name": QUEUE, "app_version": VERSION})


if __name__ == "__main__":
    main(OfDbos)
