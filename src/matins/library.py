"""The library: `Matins`, a scheduler in your own process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from matins.engine.when.triggers import Trigger
from matins.errors import Conflict, InvalidInput, StoreBusy, StoreError
from matins.executors.python import Job, PythonExecutor
from matins.model.principal import OWNER
from matins.model.run import Run, RunState
from matins.model.schedule import Schedule
from matins.ports import Clock, Store
from matins.runtime.catalog import Catalog
from matins.runtime.clock import SystemClock
from matins.runtime.engine import Engine, Settings
from matins.runtime.loop import Loop
from matins.runtime.work import Work
from matins.service import Service
from matins.surfaces.control import ControlServer, call_owner


class Matins:
    """`url` is `sqlite:///file.db`, `sqlite://` for memory, or `postgresql://…`."""

    def __init__(self, url: str = "sqlite://", *, clock: Clock | None = None, **settings: Any) -> None:
        self.clock = clock or SystemClock()
        self.settings = Settings(**settings)
        self.jobs: dict[str, Job] = {}
        self._store = open_store(url, self.clock)
        self._catalog = Catalog()
        self._service = Service(self._store, self.clock, self._catalog, self._changed)
        self._loop: Loop | None = None
        self._control: ControlServer | None = None

    # -- jobs

    def job(self, name: str) -> Callable[[Job], Job]:
        """Register a function, sync or async, as a job that schedules can start."""

        def register(function: Job) -> Job:
            if name in self.jobs:
                raise Conflict(f'There is a job "{name}" already', value=name, field="do")
            self.jobs[name] = function
            return function

        return register

    # -- schedules and runs

    def add(self, name: str, *, when: str | Trigger, do: str, agent: str = "", **words: Any) -> Schedule:
        return self._call("add", name, when, agent, do=do, **words)

    def add_many(self, schedules: Sequence[Mapping[str, Any]]) -> list[int]:
        return self._call("add_many", schedules)

    def edit(self, name: str, *, agent: str | None = None, **words: Any) -> Schedule:
        return self._call("edit", name, agent, **words)

    def pause(self, name: str, *, agent: str | None = None, note: str | None = None) -> Schedule:
        return self._call("pause", name, agent, note)

    def resume(self, name: str, *, agent: str | None = None) -> Schedule:
        return self._call("resume", name, agent)

    def remove(self, name: str, *, agent: str | None = None) -> bool:
        return self._call("remove", name, agent)

    def get(self, name: str, *, agent: str | None = None) -> Schedule:
        return self._call("get", name, agent)

    def list(self, *, agent: str | None = None, after: int = 0, limit: int = 100) -> list[Schedule]:
        return self._call("list", agent, after, limit)

    def run(self, name: str, *, key: str | None = None, agent: str | None = None) -> Run:
        return self._call("run", name, key, agent)

    def cancel(self, run_id: int) -> Run:
        return self._call("cancel", run_id)

    def resolve(self, run_id: int, end: str) -> Run:
        """Say what became of a held run: succeeded, failed, unknown, or retry."""
        return self._call("resolve", run_id, end)

    def runs(self, name: str, *, agent: str | None = None, before: int | None = None, limit: int = 100) -> list[Run]:
        return self._call("runs", name, agent, before, limit)

    def limit(self, scope: str, size: int) -> None:
        self._call("limit", scope, size)

    def verify_audit(self) -> list[str]:
        return self._call("verify_audit")

    def _call(self, use_case: str, *arguments: Any, **options: Any) -> Any:
        """Nobody writes beside an engine that owns the file: a change goes through the owner, or is made while the file
        is ours for its moment."""
        store = self._store
        if store.shared or self._loop is not None or use_case in Service.READS:
            return getattr(self._service, use_case)(OWNER, *arguments, **options)
        if not store.own(patiently=True):
            owner = store.owner_socket()
            if owner is None:
                raise StoreBusy("Another process holds the store and does not let go", hint="stop it, or try again")
            return call_owner(owner, use_case, *arguments, **options)
        try:
            return getattr(self._service, use_case)(OWNER, *arguments, **options)
        finally:
            store.disown()

    # -- life

    def start(self) -> Self:
        """Fire schedules from now on, in threads of this process. A second start does nothing."""
        if self._loop is not None:
            return self
        if not self._store.own():
            raise StoreBusy(
                "Another engine runs on this store", hint="one engine for a SQLite file; use it, or stop it"
            )
        self._loop = loop = Loop(Engine(self._store, self.clock, self._catalog, self.settings))
        loop.start(self._executor(loop))
        path = self._store.socket_path()
        if path is not None:
            self._control = ControlServer(path, self._service)
            self._store.announce(path)
        return self

    def stop(self, *, wait: bool = True, timeout: float = 30) -> None:
        """No new runs; wait for those that run, up to `timeout` seconds."""
        loop = self._loop
        if loop is None:
            return
        if self._control is not None:
            self._control.close()
            self._control = None
        try:
            loop.stop(wait=wait, timeout_ms=round(timeout * 1000))
        finally:
            self._loop = None
            self._store.disown()

    def close(self) -> None:
        self.stop()
        self._store.close()

    def run_forever(self) -> None:
        """Until SIGINT or SIGTERM."""
        done = threading.Event()

        def leave(number: int, frame: FrameType | None) -> None:
            done.set()

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, leave)
        with self:
            done.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _executor(self, loop: Loop) -> PythonExecutor:
        return PythonExecutor(
            self.jobs,
            self.clock,
            loop.wake,
            threads=self.settings.threads,
            key_prefix=self._store.store_id,
            previous=self._previous,
        )

    def _previous(self, work: Work) -> RunState | None:
        with self._store.reading() as transaction:
            state = transaction.previous_state(work.known.schedule_id, work.run_id)
        return None if state is None else RunState(state)

    def _changed(self) -> None:
        self._store.notify()
        if self._loop is not None:
            self._loop.changed()


def open_store(url: str, clock: Clock) -> Store:
    if url.startswith("sqlite://"):
        from matins.store.sqlite.store import SqliteStore

        name = url.removeprefix("sqlite://").removeprefix("/")
        return SqliteStore(Path(name) if name else None, clock.now_ms())
    if url.startswith(("postgresql://", "postgres://")):
        try:
            from matins.store.postgres.store import PostgresStore
        except ModuleNotFoundError as error:
            raise StoreError(
                f"PostgreSQL needs a part that is not installed: {error.name}", hint='pip install "matins[postgres]"'
            ) from error
        return PostgresStore(url, clock.now_ms())
    raise InvalidInput(
        f'"{url}" is not a store',
        value=url,
        field="url",
        hint="sqlite:///file.db, sqlite://, or postgresql://user@host/db",
    )
