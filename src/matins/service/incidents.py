"""Use cases on incidents, their causes over schedules, and destinations."""

from __future__ import annotations

import builtins
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matins.api.results import Cause, Incident, TestedDestination
from matins.delivery import decisions as engine
from matins.delivery.incidents import incident_event_data
from matins.delivery.notices import address_of, deliver, trial_message
from matins.engine.validation import nearest
from matins.engine.when.durations import HOUR_MS
from matins.engine.when.triggers import to_datetime
from matins.errors import Conflict, NotFound
from matins.model.access import Principal
from matins.model.event import IncidentRow
from matins.model.rows import NewEvent, ScheduleRow
from matins.model.selector import Selector
from matins.service.core import MAX_ID, Core
from matins.store.transaction import Transaction

CAUSE_PARTS = 24
_CAUSE_MS, _LONGEST_MS = 24 * HOUR_MS, 2 * HOUR_MS
_MAX_OPEN = 2_000
_OF_RUNS = frozenset({"failed", "undelivered", "login", "limit", "budget"})
"""Kinds of incidents that count what happened to runs."""


@dataclass(frozen=True)
class Incidents:
    core: Core

    def list(
        self,
        principal: Principal,
        *,
        all: bool = False,  # noqa: A002 - the word of the option
        schedule: str | None = None,
        agent: str | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> builtins.list[Incident]:
        with self.core.store.reading() as transaction:
            schedule_id = None if schedule is None else self.core.find(transaction, schedule, agent, deleted=True).id
            read = transaction.incidents if all else transaction.unresolved_incidents
            rows = read(schedule_id, MAX_ID if before is None else before, limit)
            return _results(transaction, rows)

    def get(self, principal: Principal, incident_id: int) -> Incident:
        with self.core.store.reading() as transaction:
            return _results(transaction, [_row(transaction, incident_id)])[0]

    def acknowledge(self, principal: Principal, incident_id: int) -> Incident:
        now = self.core.clock.now_ms()
        with self.core.store.transaction(now) as transaction:
            row = _row(transaction, incident_id)
            if row.state == "resolved":
                message = f"Incident {incident_id} is over already."
                raise Conflict(message, value=incident_id, field="incident", hint="List open ones: matins incidents")
            if row.state == "open":
                row = engine.acknowledge(row, principal.name, now)
                transaction.update_incidents([row])
                data = {**incident_event_data(row), **principal.signed}
                event = NewEvent(now, "incident.acknowledged", row.schedule_id or None, row.run_id, data)
                transaction.events.append(event)
            (result,) = _results(transaction, [row])
        self.core.notify()
        return result

    def causes(
        self, principal: Principal, *, select: Selector | None = None, since: int | None = None
    ) -> builtins.list[Cause]:
        now = self.core.clock.now_ms()
        start = now - _CAUSE_MS if since is None else min(since, now)
        size = -(-(now + 1 - start) // CAUSE_PARTS)
        reader = self.core.limited_reader(principal)
        groups: dict[tuple[str, str], builtins.list[IncidentRow]] = defaultdict(list)
        parts: dict[int, Counter[int]] = defaultdict(Counter[int])
        with self.core.store.reading() as transaction:
            rows = open_troubles(transaction)
            if select is not None and select.terms:
                wanted = transaction.selected_ids(select, reader)
                rows = [row for row in rows if row.schedule_id in wanted]
            named = {each.id: each for each in transaction.schedules_with({row.schedule_id for row in rows})}
            low = transaction.first_planned(start - _LONGEST_MS) if rows else None
            if low is not None:
                for count in transaction.failures_by_part(low, start, now + 1, size):
                    parts[count.schedule_id][count.bucket] += count.records
        for row in rows:
            groups[row.kind, row.signature].append(row)
        found = [_cause(mine, named, parts) for mine in groups.values()]
        return sorted(found, key=lambda cause: (cause.acknowledged, -cause.count, cause.text))

    def acknowledge_cause(self, principal: Principal, kind: str, signature: str) -> builtins.list[Incident]:
        now = self.core.clock.now_ms()
        with self.core.store.transaction(now) as transaction:
            rows = [row for row in open_troubles(transaction) if (row.kind, row.signature) == (kind, signature)]
            if not rows:
                message, hint = "No incident of this cause is open.", "List open ones: matins incidents"
                raise NotFound(message, value=signature, field="signature", hint=hint)
            fresh = [engine.acknowledge(row, principal.name, now) for row in rows if row.state == "open"]
            transaction.update_incidents(fresh)
            for row in fresh:
                data = {**incident_event_data(row), **principal.signed}
                event = NewEvent(now, "incident.acknowledged", row.schedule_id or None, row.run_id, data)
                transaction.events.append(event)
            found = _results(transaction, fresh)
        self.core.notify()
        return found


def open_troubles(transaction: Transaction) -> list[IncidentRow]:
    """The open incidents that runs caused."""
    rows = transaction.unresolved_incidents(None, MAX_ID, _MAX_OPEN)
    return [row for row in rows if row.kind in _OF_RUNS]


def trouble_text(row: IncidentRow) -> str:
    """The error in a line; without one, what happened."""
    return (row.error or row.quote or row.summary).strip().rpartition("\n")[2]


def _cause(rows: Sequence[IncidentRow], named: Mapping[int, ScheduleRow], parts: Mapping[int, Counter[int]]) -> Cause:
    last = max(rows, key=lambda row: row.last_at)
    schedule = named.get(last.schedule_id)
    counts = sum((parts[row.schedule_id] for row in rows if row.schedule_id in parts), Counter[int]())
    return Cause(
        kind=last.kind,  # type: ignore[arg-type]
        signature=last.signature,
        text=trouble_text(last),
        count=sum(row.times for row in rows),
        schedules=len(rows),
        agents=sorted({named[row.schedule_id].agent for row in rows if row.schedule_id in named}),
        schedule=None if schedule is None else schedule.name,
        agent=None if schedule is None else schedule.agent,
        run_id=None if last.run_id is None else str(last.run_id),
        opened_at=to_datetime(min(row.opened_at for row in rows)),
        last_at=to_datetime(last.last_at),
        acknowledged=all(row.state != "open" for row in rows),
        parts=[counts[number] for number in range(CAUSE_PARTS)],
    )


@dataclass(frozen=True)
class Destinations:
    """Use cases of destinations beyond those of every record."""

    core: Core

    def test(self, principal: Principal, name: str) -> TestedDestination:
        policies = self.core.policies()
        destination = policies.destinations.get(name)
        if destination is None:
            known = sorted(policies.destinations)
            hint = nearest(name, known) if known else "Create one: matins destinations set NAME --kind KIND"
            raise NotFound(f'There is no destination "{name}".', value=name, field="name", hint=hint)
        address = address_of(destination, policies, self.core.clock.now_ms())
        sent = deliver(address, trial_message(destination))
        return TestedDestination(name, destination.kind, sent.verdict == "arrived", sent.error)


def _row(transaction: Transaction, incident_id: int) -> IncidentRow:
    row = transaction.incident(incident_id)
    if row is None:
        hint = "List them: matins incidents --all"
        raise NotFound(f"There is no incident {incident_id}.", value=incident_id, field="incident", hint=hint)
    return row


def _results(transaction: Transaction, rows: Sequence[IncidentRow]) -> list[Incident]:
    named = {schedule.id: schedule for schedule in transaction.schedules_with({row.schedule_id for row in rows})}
    return [_result(row, named.get(row.schedule_id)) for row in rows]


def _result(row: IncidentRow, schedule: ScheduleRow | None) -> Incident:
    return Incident(
        id=str(row.id),
        state=row.state,
        kind=row.kind,  # type: ignore[arg-type]
        schedule_id=str(row.schedule_id) if row.schedule_id else None,
        schedule=None if schedule is None else schedule.name,
        agent=None if schedule is None else schedule.agent,
        run_id=None if row.run_id is None else str(row.run_id),
        summary=row.summary,
        quote=row.quote,
        error=row.error,
        count=row.times,
        messages=row.told,
        opened_at=to_datetime(row.opened_at),
        last_at=to_datetime(row.last_at),
        reminds_at=to_datetime(row.next_at),
        acknowledged_at=to_datetime(row.acknowledged_at),
        acknowledged_by=row.acknowledged_by,
        resolved_at=to_datetime(row.resolved_at),
        resolution=row.resolution,
    )
