"""What happened, as people and programs read it: a page of events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import orjson

from matins.engine.events import canonical_types
from matins.model.principal import Principal
from matins.model.records import StoredEvent
from matins.ports import Store, Transaction
from matins.service.base import UseCases
from matins.service.overviews import check_limit
from matins.service.rights import needs

_PAGE = 2_000


class Event(NamedTuple):
    id: int
    at: int
    type: str
    schedule_id: int | None
    schedule: str | None
    """Its name."""
    agent: str | None
    run_id: int | None
    data: dict[str, Any]


class Journal(UseCases):
    @needs("read")
    def events(
        self,
        principal: Principal,
        types: str | Iterable[str] | None = None,
        after: int | None = None,
        limit: int = 100,
        schedule: str | None = None,
        agent: str | None = None,
        run_id: int | None = None,
    ) -> list[Event]:
        """The oldest first: the next `limit` after an event, or the newest of all."""
        check_limit(limit)
        with self._store.reading() as transaction:
            schedule_id = None if schedule is None else self._find(transaction, schedule, agent).id
        wanted = _Filter(self._store, canonical_types(types), schedule_id, agent, run_id)
        size = limit if wanted.all else _PAGE
        found = _first(self._newest(size) if after is None else self._onwards(after, size), wanted, limit)
        if after is None:
            found.reverse()
        with self._store.reading() as transaction:
            return [_told(transaction, event) for event in found]

    def _newest(self, size: int) -> Iterator[list[StoredEvent]]:
        """Pages backwards. One look each: the engine goes on between them."""
        with self._store.reading() as transaction:
            before = transaction.event_horizon() + 1
        full = True
        while full:
            with self._store.reading() as transaction:
                page = transaction.events_before(before, size)
            yield page
            full = len(page) == size
            before = page[-1].id if page else 0

    def _onwards(self, after: int, size: int) -> Iterator[list[StoredEvent]]:
        full = True
        while full:
            with self._store.reading() as transaction:
                page = transaction.events_after(after, size)
            yield page
            full = len(page) == size
            after = page[-1].id if page else after


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
            self._agents[schedule_id] = None if row is None else row[2]
        return self._agents[schedule_id]


def _first(pages: Iterator[list[StoredEvent]], wanted: _Filter, limit: int) -> list[StoredEvent]:
    found: list[StoredEvent] = []
    for page in pages:
        found += [event for event in page if wanted(event)]
        if len(found) >= limit:
            break
    return found[:limit]


def _told(transaction: Transaction, event: StoredEvent) -> Event:
    row = None if event.schedule_id is None else transaction.schedule(event.schedule_id)
    data: dict[str, Any] = orjson.loads(event.data) if event.data else {}
    name, agent = (None, None) if row is None else (str(row[1]), str(row[2]))
    return Event(event.id, event.at, event.type, event.schedule_id, name, agent, event.run_id, data)
