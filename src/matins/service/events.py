"""Use cases on events."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import orjson

from matins.api.results import Event
from matins.engine.events import canonical_types
from matins.engine.when.triggers import to_datetime
from matins.model.access import Principal
from matins.model.audit import StoredEvent
from matins.model.rows import ScheduleRow
from matins.service.core import Core
from matins.store import Store
from matins.store.transaction import Transaction

_PAGE = 2_000


@dataclass(frozen=True)
class Events:
    core: Core

    def list(
        self,
        principal: Principal,
        *,
        types: Iterable[str] | None = None,
        after: int | None = None,
        limit: int = 100,
        schedule: str | None = None,
        agent: str | None = None,
        run_id: int | None = None,
    ) -> builtins.list[Event]:
        with self.core.store.reading() as transaction:
            schedule_id = None if schedule is None else self.core.find(transaction, schedule, agent).id
        wanted = _Filter(self.core.store, canonical_types(types), schedule_id, agent, run_id)
        size = limit if wanted.all else _PAGE
        found = _first(self._newest(size) if after is None else self._onwards(after, size), wanted, limit)
        if after is None:
            found.reverse()
        with self.core.store.reading() as transaction:
            ids = {event.schedule_id for event in found if event.schedule_id is not None}
            named = {row.id: row for row in transaction.schedules_with(ids)} if ids else {}
        return [_event_result(event, named.get(event.schedule_id or 0)) for event in found]

    def _newest(self, size: int) -> Iterator[builtins.list[StoredEvent]]:
        """Pages of events, the newest first."""
        with self.core.store.reading() as transaction:
            horizon = transaction.event_horizon() + 1
        return self._pages(lambda transaction, before: transaction.events_before(before, size), horizon, size)

    def _onwards(self, after: int, size: int) -> Iterator[builtins.list[StoredEvent]]:
        return self._pages(lambda transaction, last: transaction.events_after(last, size), after, size)

    def _pages(
        self, read: Callable[[Transaction, int], builtins.list[StoredEvent]], last: int, size: int
    ) -> Iterator[builtins.list[StoredEvent]]:
        """Each page is read in its own transaction, which lets the engine work."""
        full = True
        while full:
            with self.core.store.reading() as transaction:
                page = read(transaction, last)
            yield page
            full = len(page) == size
            last = page[-1].id if page else last


class _Filter:
    def __init__(
        self, store: Store, types: tuple[str, ...], schedule_id: int | None, agent: str | None, run_id: int | None
    ) -> None:
        self._store = store
        self._types = types
        self._schedule_id = schedule_id
        self._run_id = run_id
        self._agent = agent if schedule_id is None else None
        self._agents: dict[int | None, str | None] = {None: None}
        self.all = not types and schedule_id is None and agent is None and run_id is None

    def __call__(self, event: StoredEvent) -> bool:
        return (
            (not self._types or event.type in self._types)
            and self._schedule_id in (None, event.schedule_id)
            and self._run_id in (None, event.run_id)
            and (self._agent is None or self._agent_of(event.schedule_id) == self._agent)
        )

    def _agent_of(self, schedule_id: int | None) -> str | None:
        if schedule_id not in self._agents:
            with self._store.reading() as transaction:
                row = transaction.schedule(schedule_id or 0)
            self._agents[schedule_id] = None if row is None else row.agent
        return self._agents[schedule_id]


def _first(pages: Iterator[list[StoredEvent]], wanted: _Filter, limit: int) -> list[StoredEvent]:
    found: list[StoredEvent] = []
    for page in pages:
        found += [event for event in page if wanted(event)]
        if len(found) >= limit:
            break
    return found[:limit]


def _event_result(event: StoredEvent, row: ScheduleRow | None) -> Event:
    name, agent = (None, None) if row is None else (row.name, row.agent)
    return Event(
        id=str(event.id),
        at=to_datetime(event.at),
        type=event.type,
        schedule_id=None if event.schedule_id is None else str(event.schedule_id),
        schedule=name,
        agent=agent,
        run_id=None if event.run_id is None else str(event.run_id),
        data=orjson.loads(event.data) if event.data else {},
    )
