"""Use cases on the past by days: slots of a schedule, spending, and absences of engines."""

from __future__ import annotations

import builtins
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from matins.api.results import Absence, Calendar, CalendarDay, Spend, SpendDay, SpendShare
from matins.engine.money import format_money
from matins.engine.when.durations import DAY_MS, HOUR_MS, MINUTE_MS
from matins.engine.when.triggers import to_datetime
from matins.engine.when.zones import load_zone
from matins.errors import InvalidInput
from matins.model.access import Principal
from matins.model.overview import DaySpend, EngineSpan, NamedSpend
from matins.model.run import RunState
from matins.runtime.catalog import CompiledSchedule
from matins.service.core import LEASE_MS, MAX_ID, Core
from matins.service.timeline import state_name
from matins.store.transaction import Transaction

_EPOCH = date(1970, 1, 1)
_MAX_DAYS = 400
_SPEND_DAYS = 30
_MAX_SHARES = 50
_MAX_ENGINES, _MAX_ABSENCES = 200, 10
_LEAST_ABSENCE_MS = MINUTE_MS


@dataclass(frozen=True)
class Calendars:
    core: Core

    def calendar(
        self,
        principal: Principal,
        name: str,
        *,
        since: int | None = None,
        until: int | None = None,
        agent: str | None = None,
    ) -> Calendar:
        now = self.core.clock.now_ms()
        end = now if until is None else until
        start = end - 365 * DAY_MS if since is None else since
        _check_days(start, end)
        with self.core.store.reading() as transaction:
            schedule = self.core.find(transaction, name, agent)
            compiled = self.core.catalog.find(transaction, (schedule.id, schedule.rev, 0))
            zone = compiled.definition.trigger.timezone if isinstance(compiled, CompiledSchedule) else "UTC"
            days: dict[int, dict[str, int]] = defaultdict(dict)
            for low, high, offset in _stretches(zone, start, end):
                for row in transaction.day_counts(schedule.id, low, high, offset):
                    label = state_name(row.state)
                    days[row.day][label] = days[row.day].get(label, 0) + row.slots
        planned: dict[int, int] = {}
        if isinstance(compiled, CompiledSchedule) and schedule.state == "active" and schedule.next_slot is not None:
            planned = _planned(compiled, zone, max(now, schedule.next_slot), end)
        return Calendar(
            schedule=schedule.name,
            agent=schedule.agent,
            timezone=zone,
            since=to_datetime(start),
            until=to_datetime(end),
            days=[CalendarDay(_day(day), days.get(day, {}), planned.get(day, 0)) for day in sorted({*days, *planned})],
        )


@dataclass(frozen=True)
class History:
    core: Core

    def spend(self, principal: Principal, *, since: int | None = None, until: int | None = None) -> Spend:
        now, zone = self.core.clock.now_ms(), self.core.clock.local_zone()
        end = now + 1 if until is None else until
        start = _first_day(zone, end - (_SPEND_DAYS - 1) * DAY_MS) if since is None else since
        _check_days(start, end)
        with self.core.store.reading() as transaction:
            days: dict[int, DaySpend] = {}
            for low, high, offset in _stretches(zone, start, end):
                for row in transaction.spend_by_day(low, high, offset):
                    days[row.day] = _added(days.get(row.day), row)
            agents = transaction.spend_by_agent(start, end, _MAX_SHARES)
            schedules = transaction.spend_by_schedule(start, end, _MAX_SHARES)
        money = sum(row.money for row in days.values())
        per_day = money * DAY_MS // max(DAY_MS, end - start)
        return Spend(
            since=to_datetime(start),
            until=to_datetime(end),
            timezone=zone,
            cost=format_money(money),
            tokens=sum(row.tokens for row in days.values()),
            per_day=format_money(per_day),
            per_month=format_money(per_day * 30),
            days=_days(days, zone, start, end),
            agents=_shares(agents, money),
            schedules=_shares(schedules, money),
        )

    def absences(self, principal: Principal) -> builtins.list[Absence]:
        now, running = self.core.clock.now_ms(), bool(self.core.store.engines(LEASE_MS))
        found: builtins.list[Absence] = []
        with self.core.store.reading() as transaction:
            for start, end in _gaps(transaction, transaction.engine_spans(_MAX_ENGINES), now, running=running):
                if len(found) == _MAX_ABSENCES:
                    break
                found.append(_absence(transaction, start, end, now))
        return found


def _check_days(start: int, end: int) -> None:
    if not start < end <= start + _MAX_DAYS * DAY_MS:
        message = f"The time is not between a moment and {_MAX_DAYS} days."
        raise InvalidInput(message, value=str(to_datetime(end)), field="until", hint="Give another start or end.")


def _stretches(timezone: str, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The stretches between clock changes, with the offset of each."""
    zone, at = load_zone(timezone), start
    while at < end:
        period = zone.period_at(at)
        yield at, min(end, period.end), period.offset
        at = period.end


def _first_day(timezone: str, at: int) -> int:
    """The start of a day."""
    zone = load_zone(timezone)
    wall = zone.wall_of(at)
    return zone.resolve(wall - wall % DAY_MS)


def _day(number: int) -> str:
    return (_EPOCH + timedelta(days=number)).isoformat()


def _planned(compiled: CompiledSchedule, timezone: str, start: int, end: int) -> dict[int, int]:
    """The slots to come by day; an interval from the last run has none that are known."""
    if compiled.timetable.elapsed:
        return {}
    zone, count, found, at = load_zone(timezone), compiled.timetable.trigger.count, dict[int, int](), start
    while at < end:
        day = zone.wall_of(at) // DAY_MS
        following = zone.resolve((day + 1) * DAY_MS)
        number = count(at, min(following, end))
        if number:
            found[day] = number
        at = following
    return found


def _added(before: DaySpend | None, row: DaySpend) -> DaySpend:
    if before is None:
        return row
    return DaySpend(row.day, before.money + row.money, before.tokens + row.tokens, before.runs + row.runs)


def _days(days: dict[int, DaySpend], timezone: str, start: int, end: int) -> builtins.list[SpendDay]:
    """Every day, also those on which nothing was spent."""
    zone, most = load_zone(timezone), max((row.money for row in days.values()), default=0)
    first, last = zone.wall_of(start) // DAY_MS, zone.wall_of(end - 1) // DAY_MS
    rows = [days.get(day, DaySpend(day, 0, 0, 0)) for day in range(first, last + 1)]
    return [
        SpendDay(_day(row.day), format_money(row.money), row.tokens, row.runs, row.money / most if most else 0.0)
        for row in rows
    ]


def _shares(rows: Sequence[NamedSpend], money: int) -> builtins.list[SpendShare]:
    return [
        SpendShare(
            row.name, row.agent, format_money(row.money), row.tokens, row.runs, row.money / money if money else 0
        )
        for row in rows
    ]


def _gaps(
    transaction: Transaction, spans: Sequence[EngineSpan], now: int, *, running: bool
) -> Iterator[tuple[int, int | None]]:
    """The times without an engine, the newest first; the end is None while there is none."""
    alive_from: int | None = now if running else None
    for span in spans:
        gone = _last_sign(transaction, span, alive_from)
        if gone is not None and (alive_from or now) - gone >= _LEAST_ABSENCE_MS:
            yield gone, alive_from
        alive_from = span.started_at if alive_from is None else min(alive_from, span.started_at)


def _last_sign(transaction: Transaction, span: EngineSpan, following: int | None) -> int | None:
    """When an engine was last there; None while it is. One that was killed is stopped by the next: its last record
    tells."""
    if span.stopped_at is not None and (following is None or span.stopped_at < following):
        return span.stopped_at
    if span.stopped_at is None and following is not None:
        return None  # it runs, or did until the next one started beside it
    run = transaction.first_planned(following) if following is not None else MAX_ID
    planned = transaction.planned_before(run) if run is not None else None
    return max(span.started_at, planned or 0)


def _absence(transaction: Transaction, start: int, end: int | None, now: int) -> Absence:
    until = now if end is None else end
    low, high = transaction.first_planned(start), transaction.first_planned(until + HOUR_MS)
    states: dict[int, int] = {}
    if low is not None and high is not None:
        states = {row.state: row.slots for row in transaction.slot_states(low, high, start, until)}
    missed = states.pop(RunState.MISSED, 0)
    ran = sum(slots for state, slots in states.items() if state not in (RunState.SKIPPED, RunState.WAITING))
    return Absence(to_datetime(start), to_datetime(end), until - start, missed, ran)
