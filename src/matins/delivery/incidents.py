"""Incidents: reads events, opens and ends incidents, and says what is told to whom.

The subscription's cursor, the incidents and the events about them change in one transaction: after a kill nothing is
told twice, and nothing is forgotten. Destinations get the events as deliveries of the outbox.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import orjson

from matins.delivery.decisions import EVENT_TYPES, HOUR_MS, Action, Step, Trouble, decide, look_again
from matins.delivery.subscribers import DeliveryQueue, QueueResults, StoredSubscriber, Turn
from matins.delivery.texts import Subject, held_until, quiet_hours_until, recipients, title_of
from matins.model.event import NO_SCHEDULE, IncidentRow, StoredEvent
from matins.model.rows import NewEvent
from matins.model.schedule import ScheduleDefinition, ScheduleRecord
from matins.runtime.catalog import schedule_record
from matins.store.transaction import Transaction

_PAGE, _WINDOW = 50, 500
"""Events that one transaction takes up, and among which it looks for them: fires wait for it."""
_SAVE_MS = 60_000
"""How often the cursor is saved although no incident changed."""
_EVENTS: dict[Action, str] = {
    "opened": "incident.opened", "reminded": "incident.reminded", "resolved": "incident.resolved",
}  # fmt: skip
DIGEST = "incident.digest"


class IncidentSubscriber(StoredSubscriber):
    """The subscription that keeps incidents. It delivers nothing itself."""

    _saved_at = 0

    def match_events(self, turn: Turn) -> bool:
        if not self._lease(turn):
            return False
        page = _Page(turn)
        acted = self._read(page)
        for incident in turn.transaction.due_incidents(turn.now, _PAGE):
            for step in look_again(incident, turn.now):
                page.apply(step)
            acted = True
        page.save()
        return _send_digests(turn) or acted

    def _read(self, page: _Page) -> bool:
        """Read new events. True if there may be more, or some changed an incident."""
        turn, transaction = page.turn, page.turn.transaction
        horizon = transaction.event_horizon()
        if horizon <= self._seen:
            return False
        upto = transaction.incident_window(self._seen, horizon, _WINDOW)
        events = transaction.incident_events(self._seen, upto, EVENT_TYPES, _PAGE)
        changed = page.take(events)
        full = len(events) == _PAGE
        self._seen = events[-1].id if full else upto
        if changed or abs(turn.now - self._saved_at) > _SAVE_MS:
            transaction.move_subscription(self.subscription.name, self._seen)
            self._saved_at = turn.now
        return self._seen < horizon or changed

    def queues(self, turn: Turn, under_way: set[int]) -> list[DeliveryQueue]:
        return []

    def record(self, turn: Turn, sent: QueueResults) -> None:
        """Do nothing: nothing was sent."""

    def next_at(self, turn: Turn) -> int | None:
        return turn.transaction.next_notice() if self._ours else None


class _Page:
    """What a page of events needs of the store is asked once, and kept up to date in memory until the page is saved."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self._open: dict[int, dict[int, IncidentRow]] = defaultdict(dict)
        """The open incidents by schedule and id, the oldest first."""
        self._unsaved: dict[int, IncidentRow] = {}
        self._told: dict[tuple[int, str], int] = {}
        """By schedule and kind: how many were opened and told in this hour."""
        self._sent: Counter[str] = Counter()
        """By destination: how many messages it got in this hour."""
        self._schedules: dict[int, ScheduleRecord | None] = {}

    def take(self, events: list[StoredEvent]) -> bool:
        """Take up events. True if they changed an incident."""
        if not events:
            return False
        ids = {event.schedule_id for event in events if event.schedule_id is not None}
        for incident in self.turn.transaction.open_incidents([NO_SCHEDULE, *sorted(ids)]):
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
        key = trouble.schedule_id, trouble.kind
        if key not in self._told:
            self._told[key] = self.turn.transaction.opened_since(*key, self.turn.now - HOUR_MS)
        return self._told[key]

    def apply(self, step: Step) -> None:
        """Note the change, its event and its recipients."""
        incident = step.incident
        to = self._tell(step.action, incident) if step.tell else None
        if to is not None:
            incident = incident._replace(told=incident.told + bool(to), told_times=incident.times)
        if incident.id == 0:
            incident = self._insert(incident)
        else:
            self._change(incident)
        kind = _EVENTS.get(step.action)
        gathering = step.action == "opened" and incident.kind == "missed" and not step.tell
        if kind is None or gathering or (step.action == "reminded" and not to):
            return
        data = incident_event_data(incident) | {"to": [name for name, held in to or [] if not held]}
        schedule_id = incident.schedule_id or None
        self.turn.transaction.events.append(NewEvent(self.turn.now, kind, schedule_id, incident.run_id, data))

    def _insert(self, incident: IncidentRow) -> IncidentRow:
        incident = incident._replace(id=self.turn.transaction.insert_incident(incident))
        self._open[incident.schedule_id][incident.id] = incident
        key = incident.schedule_id, incident.kind
        if incident.told and key in self._told:
            self._told[key] += 1
        return incident

    def _change(self, incident: IncidentRow) -> None:
        """A repetition is saved with the page. An end is saved at once: another may open in its place."""
        self._unsaved[incident.id] = incident
        if incident.resolved_at is None:
            self._open[incident.schedule_id][incident.id] = incident
        else:
            self._open[incident.schedule_id].pop(incident.id, None)
            self._save(self._unsaved.pop(incident.id))

    def save(self) -> None:
        for incident in self._unsaved.values():
            self._save(incident)
        self._unsaved.clear()

    def _save(self, incident: IncidentRow) -> None:
        self.turn.transaction.update_incident(incident)

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
            transaction.insert_notice(name, now, title, until)
            self._sent[name] += until is None
            found.append((name, until is not None))
        return found

    def _definitions(self, incident: IncidentRow) -> list[ScheduleDefinition | None]:
        """The settings of the schedules that the incident is about."""
        ids: Iterable[int] = [incident.schedule_id]
        if incident.kind == "missed":
            ids = [int(found) for found in orjson.loads(incident.details)["schedules"]]
        return [found.definition for schedule_id in ids if (found := self._schedule(schedule_id))] or [None]

    def _schedule(self, schedule_id: int) -> ScheduleRecord | None:
        if schedule_id not in self._schedules:
            self._schedules[schedule_id] = _record(self.turn.transaction, schedule_id)
        return self._schedules[schedule_id]


def incident_event_data(incident: IncidentRow) -> dict[str, Any]:
    """The incident as its events tell it."""
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
    return _subject(_record(transaction, incident.schedule_id))


def _subject(record: ScheduleRecord | None) -> Subject:
    return Subject("", "UTC") if record is None else Subject(record.name, record.definition.trigger.timezone)


def _record(transaction: Transaction, schedule_id: int) -> ScheduleRecord | None:
    row = None if schedule_id == NO_SCHEDULE else transaction.schedule(schedule_id)
    return None if row is None else schedule_record(row)


def _send_digests(turn: Turn) -> bool:
    """Tell held messages whose time has come, as one message for each destination."""
    titles: dict[str, list[str]] = defaultdict(list)
    for notice in turn.transaction.take_held(turn.now):
        titles[notice.destination].append(notice.title)
    for name, held in titles.items():
        if name not in turn.policies.destinations:
            continue
        quiet = quiet_hours_until(turn.policies.destinations[name], turn.policies, turn.now)
        if quiet is not None:  # the quiet hours were changed, or a full hour is within them
            for title in held:
                turn.transaction.insert_notice(name, turn.now, title, quiet)
            continue
        turn.transaction.insert_notice(name, turn.now, f"{len(held)} messages", None)
        data = {"to": [name], "count": len(held), "titles": held}
        turn.transaction.events.append(NewEvent(turn.now, DIGEST, None, None, data))
    return bool(titles)
