"""Incidents: reads events, opens and ends incidents, and says what is told to whom.

The subscription's cursor, the incidents and the events about them change in one transaction: after a kill nothing is
told twice, and nothing is forgotten. Destinations get the events as deliveries of the outbox.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import orjson

from matins.engine.incidents import EVENT_TYPES, HOUR_MS, Action, Step, Trouble, decide, look_again
from matins.engine.notices import Subject, held_until, quiet_hours_until, recipients, title_of
from matins.model.audit import StoredEvent
from matins.model.incident import NO_SCHEDULE, IncidentRow
from matins.model.rows import NewEvent
from matins.model.schedule import ScheduleDefinition
from matins.ports import Transaction
from matins.runtime.rows import schedule_record
from matins.runtime.subscribers import DeliveryQueue, QueueResults, StoredSubscriber, Turn

_PAGE, _WINDOW = 200, 5_000
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
        acted = self._read(turn)
        for incident in turn.transaction.due_incidents(turn.now, _PAGE):
            for step in look_again(incident, turn.now):
                _apply(turn, step)
            acted = True
        return _send_digests(turn) or acted

    def _read(self, turn: Turn) -> bool:
        """Read new events. True if there may be more, or some changed an incident."""
        transaction = turn.transaction
        horizon = transaction.event_horizon()
        if horizon <= self._seen:
            return False
        upto = min(horizon, transaction.nth_event(self._seen, _WINDOW) or horizon)  # ids have gaps on PostgreSQL
        events = transaction.incident_events(self._seen, upto, EVENT_TYPES, _PAGE)
        changed = [_take(turn, event) for event in events]
        full = len(events) == _PAGE
        self._seen = events[-1].id if full else upto
        if any(changed) or abs(turn.now - self._saved_at) > _SAVE_MS:
            transaction.move_subscription(self.subscription.name, self._seen)
            self._saved_at = turn.now
        return self._seen < horizon or any(changed)

    def queues(self, turn: Turn, under_way: set[int]) -> list[DeliveryQueue]:
        return []

    def record(self, turn: Turn, sent: QueueResults) -> None:
        """Do nothing: nothing was sent."""

    def next_at(self, turn: Turn) -> int | None:
        return turn.transaction.next_notice() if self._ours else None


def _take(turn: Turn, event: StoredEvent) -> bool:
    """Take up one event. True if it changed an incident."""
    transaction = turn.transaction
    known = transaction.open_incidents(NO_SCHEDULE)
    if event.schedule_id is not None:
        known = [*known, *transaction.open_incidents(event.schedule_id)]

    def told_this_hour(trouble: Trouble) -> int:
        return transaction.opened_since(trouble.schedule_id, trouble.kind, turn.now - HOUR_MS)

    data: dict[str, Any] = orjson.loads(event.data) if event.data else {}
    steps = decide(event, data, known, told_this_hour, turn.now)
    for step in steps:
        _apply(turn, step)
    return bool(steps)


def _apply(turn: Turn, step: Step) -> None:
    """Store the change, with its event and those who are told."""
    transaction, incident = turn.transaction, step.incident
    if incident.id == 0:
        incident = incident._replace(id=transaction.insert_incident(incident))
    to = _tell(turn, step.action, incident) if step.tell else None
    if to is not None:
        told = incident.told + bool(to)
        incident = incident._replace(told=told, told_times=incident.times)
    transaction.update_incident(incident)
    kind = _EVENTS.get(step.action)
    gathering = step.action == "opened" and incident.kind == "missed" and not step.tell
    if kind is None or gathering or (step.action == "reminded" and not to):
        return
    data = incident_event_data(incident) | {"to": [name for name, held in to or [] if not held]}
    schedule_id = incident.schedule_id or None
    transaction.events.append(NewEvent(turn.now, kind, schedule_id, incident.run_id, data))


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


def _tell(turn: Turn, action: Action, incident: IncidentRow) -> list[tuple[str, bool]]:
    """The destinations, and whether the message is held for a digest."""
    transaction, policies, now = turn.transaction, turn.policies, turn.now
    notice = "recovered" if action == "resolved" else incident.kind
    without = incident.signature if incident.kind == "undelivered" else None
    names = recipients(notice, policies, _definitions(transaction, incident), without)
    if not names:
        return []
    title = title_of(action, incident, subject_of(transaction, incident), now)
    found: list[tuple[str, bool]] = []
    for name in names:
        sent = transaction.sent_since(name, now - HOUR_MS)
        until = held_until(policies.destinations[name], incident, policies, sent, now)
        transaction.insert_notice(name, now, title, until)
        found.append((name, until is not None))
    return found


def subject_of(transaction: Transaction, incident: IncidentRow) -> Subject:
    row = transaction.schedule(incident.schedule_id) if incident.schedule_id else None
    if row is None:
        return Subject("", "UTC")
    record = schedule_record(row)
    return Subject(record.name, record.definition.trigger.timezone)


def _definitions(transaction: Transaction, incident: IncidentRow) -> list[ScheduleDefinition | None]:
    """The settings of the schedules that the incident is about."""
    ids = [incident.schedule_id] if incident.schedule_id else []
    if incident.kind == "missed":
        ids = [int(found) for found in orjson.loads(incident.details)["schedules"]]
    rows = [transaction.schedule(schedule_id) for schedule_id in ids]
    return [schedule_record(row).definition for row in rows if row is not None] or [None]


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
