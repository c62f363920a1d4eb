"""Oban's Python edition on PostgreSQL: jobs that are available; the record is the job's row.

It wants Python 3.12, so it has an environment of its own. `make` gives it such a Python where there is one; on 3.11 one
line of it is adapted, and the versions that the benchmark prints say so.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import uvloop
from durable_adapter import Contestant, Task, main
from oban import Oban, worker
from oban.schema import install
from psycopg.errors import DuplicateObject, DuplicateTable

LIMIT = 500
"""Jobs at a time. With 10, the default, or with 100 it is slower."""


@worker()
class Nothing:
    async def process(self, job: Any) -> None:
        pass


@worker()
class Look:
    async def process(self, job: Any) -> None:
        at_work[0].started(job.args["due"])


at_work: list[Contestant] = []
"""Workers are found by their name, so they cannot belong to an object."""


class OfOban(Contestant):
    left = "SELECT count(*) FROM oban_jobs WHERE state IN ('available', 'scheduled', 'executing')"
    recorded = "SELECT count(*) FROM oban_jobs WHERE state = 'completed'"
    poll_s = 0.05
    tail_s = 3.0  # it looks for scheduled jobs every second

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        at_work.append(self)
        self.loop = uvloop.new_event_loop()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        if self.loop.is_running():  # by the thread of `open`
            return asyncio.run_coroutine_threadsafe(work, self.loop).result()
        return self.loop.run_until_complete(work)

    async def _oban(self, queues: dict[str, int] | None = None) -> Oban:
        pool = await Oban.create_pool(self.task.url)
        with suppress(DuplicateObject, DuplicateTable):  # another process has prepared it
            await install(pool)
        return Oban(pool=pool, queues=queues)

    def _jobs(self, at: datetime) -> list[Any]:
        return [Nothing.new({}, scheduled_at=at) for _ in range(self.task.count)]  # type: ignore[attr-defined]

    def prepare(self) -> None:
        self._do(self._do(self._oban()).enqueue_many(self._jobs(datetime.now(UTC) - timedelta(minutes=1))))

    def prepare_latency(self) -> None:
        oban = self._do(self._oban())
        at = [(due, datetime.fromtimestamp(due, UTC)) for due in self.task.dues()]
        self._do(oban.enqueue_many([Look.new({"due": due}, scheduled_at=when) for due, when in at]))  # type: ignore[attr-defined]

    def open(self) -> None:
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        while not self.loop.is_running():
            time.sleep(0.001)
        self.oban = self._do(self._oban({"default": LIMIT}))

    def start(self) -> None:
        self._do(self.oban.start())

    def stop(self) -> None:
        self._do(self.oban.stop())

    def adding_one_by_one(self) -> Callable[[int], Any]:
        oban = self._do(self._oban())
        later = datetime.now(UTC) + timedelta(hours=1)
        return lambda nth: self._do(oban.enqueue(Nothing.new({}, scheduled_at=later)))  # type: ignore[attr-defined]

    def adding_in_bulk(self) -> Callable[[], Any]:
        oban = self._do(self._oban())
        later = datetime.now(UTC) + timedelta(hours=1)
        return lambda: self._do(oban.enqueue_many(self._jobs(later)))


if __name__ == "__main__":
    main(OfOban)
