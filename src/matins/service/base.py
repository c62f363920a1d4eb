"""What all use cases stand on: the store, the clock, and how a schedule or a run is found."""

from __future__ import annotations

from collections.abc import Callable, Collection

from matins.config.file import ConfigFile
from matins.engine.given import wrong
from matins.errors import BelongsToFile, Conflict, NotFound
from matins.model.run import Run
from matins.model.schedule import Schedule
from matins.ports import Clock, Store, Transaction
from matins.runtime.catalog import Catalog, Known
from matins.runtime.rows import run_of, schedule_of
from matins.service.definitions import nearest

_CHANGE_THERE = "change it there; or let changes be written there, with edits: write_back in that file"


class UseCases:
    """`changed` is called after a change that the loops should look at."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        changed: Callable[[], None] = lambda: None,
        workdir: str | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._catalog = Catalog(keeps=False)
        self._changed = changed
        self._workdir = workdir
        """Where commands run: their relative paths count from there."""
        self.own_jobs: Collection[str] | None = None
        """Of the engine in this process; None where it has none."""
        self.file: ConfigFile | None = None
        """The file that `plan` and `apply` are about; whoever composes the parts names it."""

    def _refuse_of_file(self, transaction: Transaction, kind: str, name: str) -> None:
        """What a file defines is changed there."""
        entry = transaction.file_entry(kind, name)
        if entry is not None:
            raise BelongsToFile(
                f'"{name.removeprefix("/")}" is defined in {entry.path}, line {entry.line}',
                value=entry.path,
                field="name",
                hint="change it there" if entry.path.endswith(".json") else _CHANGE_THERE,
            )

    def _find_locked(self, transaction: Transaction, name: str, agent: str | None) -> Schedule:
        """With its cursor locked: what is read from here on stays true until the commit."""
        transaction.due_rows([self._find(transaction, name, agent).id])
        return self._find(transaction, name, agent)

    def _find(self, transaction: Transaction, name: str, agent: str | None) -> Schedule:
        for field, text in (("name", name), ("agent", "" if agent is None else agent)):
            if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers are not all typed
                raise wrong(field, text, "a text")
        if agent is None and "/" in name and not transaction.schedules_named(name, None):
            agent, name = name.split("/", 1)
        ids = transaction.schedules_named(name, agent)
        if len(ids) == 1:
            row = transaction.schedule(ids[0])
            assert row is not None
            return schedule_of(row)
        if not ids:
            raise NotFound(f'There is no schedule "{name}"', value=name, field="name", hint=nearest(transaction, name))
        names = [f"{s.agent}/{s.name}" for s in map(schedule_of, filter(None, map(transaction.schedule, ids)))]
        raise Conflict(f'"{name}" is the name of several schedules', value=name, hint=f"say which: {', '.join(names)}")

    def _by_id(self, schedule_id: int) -> Schedule:
        with self._store.reading() as transaction:
            return self._schedule(transaction, schedule_id)

    def _schedule(self, transaction: Transaction, schedule_id: int) -> Schedule:
        row = transaction.schedule(schedule_id)
        assert row is not None, schedule_id
        return schedule_of(row)

    def _known(self, transaction: Transaction, schedule: Schedule) -> Known:
        known = self._catalog.get(transaction, [(schedule.id, schedule.rev)])[schedule.id, schedule.rev]
        if isinstance(known, Exception):
            raise Conflict(
                f'"{schedule.name}" cannot be used: {known}', value=schedule.name, hint="edit it, then resume it"
            ) from known
        return known

    def _run(self, transaction: Transaction, run_id: int) -> Run:
        row = transaction.run(run_id)
        if row is None:
            raise NotFound(f"There is no run {run_id}", value=run_id, field="run")
        return run_of(row)
