"""Incidents: reads events, opens and ends incidents, and decides who gets a message.

The subscription's cursor, the incidents and the events about them change in one transaction: after a kill nothing is
told twice, and nothing is forgotten. Destinations get the events as deliveries of the outbox.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from matins.delivery.decisions import EVENT_TYPES, HOUR_MS, Action, Step, Trouble, decide, look_again
from matins.delivery.subscribers import DeliveryQueue, QueueResults, StoredSubscriber, Turn
from matins.delivery.texts import Subject, held_until, title_of
from matins.engine.answers import quiet_hours_until, recipients
from matins.model.event import NO_SCHEDULE, IncidentRow, NewNotice, StoredEvent
from matins.model.rows import NewEvent
from matins.model.schedule import ScheduleDefinition, ScheduleRecord
from matins.runtime.catalog import schedule_record
from matins.store.transaction import Transaction

_PAGE, _WINDOW, _WINDOWS = 100, 500, 8
"""Events that one transaction takes up, among how many it looks for them once, and how often it looks while there are
none: fires wait for it."""
_SAVE_MS = 60_000
"""How often the cursor is saved although no incident changed."""
_EVENTS: dict[Action, str] = {
    "opened": "incident.opened", "reminded": "incident.reminded", "resolved": "incident.resolved",
}  # fmt: skip
DIGEST = "incident.digest"


class IncidentSubscriber(StoredSubscriber):
    """The subscription that keeps incidents. It delivers nothing itself."""

    _saved_at = 0
    _read_upto = 0
    """The last event that was read. `_waiting` has those that are not yet handled."""
    _waiting: tuple[StoredEvent, ...] = ()
    _next_at: int | None = None

    def match_events(self, turn: Turn) -> bool:
        if not self._lease(turn):
            self._waiting, self._read_upto = (), 0  # the process that has the lease takes them up
            return False
        page = _Page(turn)
        acted = self._take(page)
        self._next_at = turn.transaction.next_notice()
        if self._next_at is not None and self._next_at <= turn.now:
            self._look_again(page)
            _send_digests(turn)
            self._next_at = turn.transaction.next_notice()
            acted = True
        return acted

    @staticmethod
    def _look_again(page: _Page) -> None:
        """Do what is due of incidents that no event is about."""
        now = page.turn.now
        due = page.turn.transaction.due_incidents(now, _PAGE)
        page.about(incident.schedule_id for incident in due)
        for incident in due:
            for step in look_again(incident, now):
                page.apply(step)
        page.save()

    def _take(self, page: _Page) -> bool:
        """Take up new events. True if there may be more, or some changed an incident."""
        turn, transaction = page.turn, page.turn.transaction
        horizon = transaction.event_horizon()
        if horizon <= self._seen:
            return False
        for _ in range(_WINDOWS):
            if self._waiting or self._seen == horizon:
                break
            self._read_upto = transaction.incident_window(self._seen, horizon, _WINDOW)
            self._waiting = tuple(transaction.incident_events(self._seen, self._read_upto, EVENT_TYPES))
            if not self._waiting:
                self._seen = self._read_upto
        events, self._waiting = self._waiting[:_PAGE], self._waiting[_PAGE:]
        changed = page.take(events)
        self._seen = events[-1].id if self._waiting else self._read_upto
        if changed or abs(turn.now - self._saved_at) > _SAVE_MS:
            transaction.move_subscription(self.subscription.name, self._seen)
            self._saved_at = turn.now
        return self._seen < horizon or changed

    def queues(self, turn: Turn, under_way: set[int]) -> list[DeliveryQueue]:
        return []

    def record(self, turn: Turn, sent: QueueResults) -> None:
        """Do nothing: nothing was sent."""

    def next_at(self, turn: Turn) -> int | None:
        return self._next_at if self._ours else None


class _Page:
    """What a page of events needs of the store is asked once, kept up to date in memory, and written at once."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self._about: set[int] = {NO_SCHEDULE}
        """The schedules of the page."""
        self._open: dict[int, dict[int, IncidentRow]] = defaultdict(dict)
        """The open incidents by schedule and id, the oldest first."""
        self._new: dict[int, IncidentRow] = {}
        """New incidents, each under a negative number until it is saved."""
        self._changed: dict[int, IncidentRow] = {}
        self._events: list[tuple[str, IncidentRow, list[str]]] = []
        """Messages about incidents: the type, the incident as it was then, and its recipients."""
        self._notices: list[NewNotice] = []
        self._told: Counter[tuple[int, str]] | None = None
        """Incidents that were opened with a message in this hour, by schedule and kind."""
        self._sent: Counter[str] = Counter()
        """Messages in this hour, by destination."""
        self._schedules: dict[int, ScheduleRecord] | None = None

    def about(self, schedule_ids: Iterable[int]) -> None:
        """The page is also about these schedules."""
        self._about.update(schedule_ids)
        self._schedules = None

    def take(self, events: Sequence[StoredEvent]) -> bool:
        """Take up events. True if they changed an incident."""
        if not events:
            return False
        self.about(event.schedule_id for event in events if event.schedule_id is not None)
        for incident in self.turn.transaction.open_incidents(sorted(self._about)):
            self._open[incident.schedule_id][incident.id] = incident
        changed = False
        for event in events:
            data: dict[str, Any] = orjson.loads(event.data) if event.data else {}
            for step in decide(event, data, self._known(event.schedule_id), self._told_this_hour, self.turn.now):
                self.apply(step)
                changed = True
        self.save()
        return changed

    def _known(self, schedule_id: int | None) -> list[IncidentRow]:
        own = () if schedule_id is None else self._open[schedule_id].values()
        return [*self._open[NO_SCHEDULE].values(), *own]

    def _told_this_hour(self, trouble: Trouble) -> int:
        if self._told is None:
            rows = self.turn.transaction.opened_since(sorted(self._about), self.turn.now - HOUR_MS)
            self._told = Counter({(schedule_id, kind): count for schedule_id, kind, count in rows})
        return self._told[trouble.schedule_id, trouble.kind]

    def apply(self, step: Step) -> None:
        """Note the change, its event and its recipients."""
        incident = step.incident
        to = self._tell(step.action, incident) if step.tell else None
        if to is not None:
            incident = incident._replace(told=incident.told + bool(to), told_times=incident.times)
        if incident.id == 0:
            incident = incident._replace(id=-1 - len(self._new))
            if incident.told and self._told is not None:
                self._told[incident.schedule_id, incident.kind] += 1
        (self._new if incident.id < 0 else self._changed)[incident.id] = incident
        if incident.resolved_at is None:
            self._open[incident.schedule_id][incident.id] = incident
        else:
            self._open[incident.schedule_id].pop(incident.id, None)
        kind = _EVENTS.get(step.action)
        gathering = step.action == "opened" and incident.kind == "missed" and not step.tell
        if kind is None or gathering or (step.action == "reminded" and not to):
            return
        self._events.append((kind, incident, [name for name, held in to or [] if not held]))

    def save(self) -> None:
        """Ends are written before what opens in their place: open incidents are unique."""
        transaction, now = self.turn.transaction, self.turn.now
        ids = dict(zip(self._new, transaction.incident_ids(len(self._new)), strict=True)) if self._new else {}
        transaction.update_incidents([*self._changed.values()])
        transaction.insert_incidents([row._replace(id=ids[row.id]) for row in self._new.values()])
        transaction.insert_notices(self._notices)
        for kind, incident, to in self._events:
            row = incident._replace(id=ids.get(incident.id, incident.id))
            data = incident_event_data(row) | {"to": to}
            transaction.events.append(NewEvent(now, kind, row.schedule_id or None, row.run_id, data))
        self._changed, self._new, self._notices, self._events = {}, {}, [], []

    def _tell(self, action: Action, incident: IncidentRow) -> list[tuple[str, bool]]:
        """The destinations, and whether the message is held for a digest."""
        transaction, policies, now = self.turn.transaction, self.turn.policies, self.turn.now
        notice = "recovered" if action == "resolved" else incident.kind
        without = incident.signature if incident.kind == "undelivered" else None
        names = recipients(notice, policies, self._definitions(incident), without) if policies.destinations else ()
        if not names:
            return []
        title = title_of(action, incident, _subject(self._schedule(incident.schedule_id)), now)
        found: list[tuple[str, bool]] = []
        for name in names:
            if name not in self._sent:
                self._sent[name] = transaction.sent_since(name, now - HOUR_MS)
            until = held_until(policies.destinations[name], incident, policies, self._sent[name], now)
            self._notices.append(NewNotice(name, now, title, until))
            self._sent[name] += until is None
            found.append((name, until is not None))
        return found

    def _definitions(self, incident: IncidentRow) -> list[ScheduleDefinition | None]:
        """The settings of the schedules that the incident is about."""
        ids: Iterable[int] = [incident.schedule_id]
        if incident.kind == "missed":
            ids = [int(found) for found in orjson.loads(incident.details)["schedules"]]
            self.about(set(ids) - self._about)
        return [found.definition for schedule_id in ids if (found := self._schedule(schedule_id))] or [None]

    def _schedule(self, schedule_id: int) -> ScheduleRecord | None:
        if self._schedules is None:
            rows = self.turn.transaction.schedules_with(sorted(self._about))
            self._schedules = {row.id: schedule_record(row) for row in rows}
        return self._schedules.get(schedule_id)


def incident_event_data(incident: IncidentRow) -> dict[str, Any]:
    """The incident as its events have it."""
    data: dict[str, Any] = {
        "incident": str(incident.id),
        "kind": incident.kind,
        "summary": incident.summary,
        "count": incident.times,
        "opened_at": incident.opened_at,
    }
    if incident.quote is not None:
        data["quote"] = incident.quote
    if incident.error is not None:
        data["error"] = incident.error
    if incident.resolution is not None:
        data["resolution"] = incident.resolution
    return data


def subject_of(transaction: Transaction, incident: IncidentRow) -> Subject:
    row = None if incident.schedule_id == NO_SCHEDULE else transaction.schedule(incident.schedule_id)
    return _subject(None if row is None else schedule_record(row))


def _subject(record: ScheduleRecord | None) -> Subject:
    return Subject("", "UTC") if record is None else Subject(record.name, record.definition.trigger.timezone)


def _send_digests(turn: Turn) -> None:
    """Send held messages that are due, one for each destination."""
    titles: dict[str, list[str]] = defaultdict(list)
    for notice in turn.transaction.take_held(turn.now):
        titles[notice.destination].append(notice.title)
    for name, held in titles.items():
        if name not in turn.policies.destinations:
            continue
        quiet = quiet_hours_until(turn.policies.destinations[name], turn.policies, turn.now)
        if quiet is not None:  # the quiet hours were changed, or a full hour is within them
            turn.transaction.insert_notices([NewNotice(name, turn.now, title, quiet) for title in held])
            continue
        turn.transaction.insert_notices([NewNotice(name, turn.now, f"{len(held)} messages", None)])
        data = {"to": [name], "count": len(held), "titles": held}
        turn.transaction.events.append(NewEvent(turn.now, DIGEST, None, None, data))
