"""Procrastinate on PostgreSQL: jobs that are scheduled for an instant; the record is the job's row."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from durable_adapter import Contestant, Task, main
from procrastinate import App, PsycopgConnector, SyncPsycopgConnector

CONCURRENCY = 10


class OfProcrastinate(Contestant):
    left = "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
    recorded = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'"
    poll_s = 0.05
    tail_s = 7.0  # it looks for scheduled jobs every 5 s

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.app = self._app(PsycopgConnector(conninfo=task.url))
        self.sync = self._app(SyncPsycopgConnector(conninfo=task.url))

    def _app(self, connector: Any) -> App:
        app = App(connector=connector)

        @app.task(name="nothing")
        async def nothing() -> None:
            pass

        @app.task(name="look")
        async def look(due: float) -> None:
            self.started(due)

        return app

    def _opened(self) -> App:
        self.sync.open()
        self.sync.schema_manager.apply_schema()
        return self.sync

    def prepare(self) -> None:
        began = datetime.now(UTC) - timedelta(minutes=1)
        job = self._opened().configure_task("nothing", schedule_at=began)
        job.batch_defer(*[{}] * self.task.count)

    def prepare_latency(self) -> None:
        app = self._opened()
        for due in self.task.dues():
            app.configure_task("look", schedule_at=datetime.fromtimestamp(due, UTC)).defer(due=due)

    def start(self) -> None:
        threading.Thread(target=lambda: asyncio.run(self._work()), daemon=True).start()

    async def _work(self) -> None:
        async with self.app.open_async():
            await self.app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False)

    def adding_one_by_one(self) -> Callable[[int], Any]:
        later = datetime.now(UTC) + timedelta(hours=1)
        job = self._opened().configure_task("nothing", schedule_at=later)
        return lambda nth: job.defer()

    def adding_in_bulk(self) -> Callable[[], Any]:
        later = datetime.now(UTC) + timedelta(hours=1)
        job = self._opened().configure_task("nothing", schedule_at=later)
        return lambda: job.batch_defer(*[{}] * self.task.count)


if __name__ == "__main__":
    main(OfProcrastinate)
