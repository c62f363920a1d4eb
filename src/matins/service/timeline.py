"""The timeline: what ran and what will run, a lane for each agent, by a fixed number of statements.

`Calendars`, `History`: the past by days, as slots, spending and absences of engines.
"""

from __future__ import annotations

import builtins
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, NamedTuple, TypeVar

import orjson

from matins.api.results import (
    Absence,
    CalendarDay,
    ScheduleCalendar,
    Spend,
    SpendDay,
    SpendShare,
    Timeline,
    TimelineBand,
    TimelineLane,
    TimelineRun,
    TimelineSlot,
)
from matins.engine.forecast import (
    ComingSpan,
    ForecastStart,
    Waiting,
    coming_slots,
    coming_spans,
    count_coming,
    fewest_first,
    slot_sentence,
)
from matins.engine.gates.state import Failures
from matins.engine.money import format_money
from matins.engine.planning import Timetable
from matins.engine.policies import Policies
from matins.engine.quiet_hours import describe, quiet_spans
from matins.engine.reasons import local_time, sentence
from matins.engine.when.durations import DAY_MS, HOUR_MS, MINUTE_MS
from matins.engine.when.triggers import to_datetime
from matins.engine.when.zones import load_zone
from matins.errors import InvalidInput
from matins.model.access import Principal
from matins.model.event import BoundRun
from matins.model.overview import ComingCursor, DaySpend, EngineSpan, NamedSpend, RecordCount, RecordSpan
from matins.model.rows import CompiledKey
from matins.model.run import RunState
from matins.model.selector import ALL, Selector
from matins.model.words import Sentence
from matins.runtime.catalog import CompiledSchedule
from matins.service.core import LEASE_MS, MAX_ID, Core
from matins.store.transaction import Transaction

T = TypeVar("T")
MAX_MARKS = 200
"""Records of a lane that are drawn one by one, and slots as well. Further schedules become bands."""
_MAX_BANDS = 20
_MAX_ALL_MARKS = 1_200
_MAX_RECORDS = 20_000
_MAX_SCHEDULES = 1_000
MAX_LIVE = 1_000
_MAX_DAYS = 32
LONGEST_MS = 2 * HOUR_MS
"""A run that began earlier before the window is shown only while it is live."""
_PAST_DEFAULT_MS, _AHEAD_DEFAULT_MS = 6 * HOUR_MS, DAY_MS


@dataclass
class _Lane:
    runs: list[TimelineRun] = field(default_factory=list[TimelineRun])
    slots: list[TimelineSlot] = field(default_factory=list[TimelineSlot])
    bands: list[TimelineBand] = field(default_factory=list[TimelineBand])
    quiet: set[str] = field(default_factory=set[str])
    providers: set[str] = field(default_factory=set[str])


Lanes = defaultdict[str, _Lane]


class Window(NamedTuple):
    start: int
    end: int
    now: int


class Coming(NamedTuple):
    """A schedule that fires within the window."""

    cursor: ComingCursor
    timetable: Timetable
    start: ForecastStart
    slots: int


class _Records(NamedTuple):
    since: int
    """From when on they are complete."""
    spans: Sequence[RecordSpan] = ()
    """Those that are drawn one by one."""
    dense: Sequence[RecordCount] = ()
    ends: Sequence[BoundRun] = ()
    """The evidence of those that have a reason."""
    compiled: Mapping[CompiledKey, CompiledSchedule | Exception] = {}


@dataclass(frozen=True)
class Timelines:
    core: Core

    def timeline(self, principal: Principal, *, start: int | None = None, end: int | None = None) -> Timeline:
        now = self.core.clock.now_ms()
        window = Window(
            now - _PAST_DEFAULT_MS if start is None else start, now + _AHEAD_DEFAULT_MS if end is None else end, now
        )
        check_window(window)
        lanes: Lanes = defaultdict(_Lane)
        with self.core.store.reading() as transaction:  # only to read: an engine on SQLite waits meanwhile
            policies = self.core.catalog.policies(transaction)
            live = transaction.live_records(MAX_LIVE)
            records = self._read_records(transaction, window, live)
            cursors, omitted = _read_cursors(transaction, window)
        sentences = _sentences(records)
        for span in records.spans:
            lanes[span.agent].runs.append(_run(span, sentences.get(span.id)))
        _draw_record_bands(lanes, records.dense)
        _draw_coming(lanes, cursors, window, policies, live)
        _draw_policies(lanes, window, policies)
        return Timeline(
            start=to_datetime(window.start),
            end=to_datetime(window.end),
            now=to_datetime(now),
            records_from=to_datetime(records.since),
            omitted=omitted,
            lanes=[_lane(agent, lanes[agent], policies) for agent in sorted(lanes)],
        )

    def _read_records(self, transaction: Transaction, window: Window, live: Sequence[RecordSpan]) -> _Records:
        low = transaction.first_planned(window.start - LONGEST_MS)
        if low is None or window.start > window.now:
            return _Records(window.start)
        high = transaction.first_planned(window.end + DAY_MS) if window.end + DAY_MS < window.now else None
        ids = low, MAX_ID if high is None else high
        beyond = transaction.run_beyond(*ids, _MAX_RECORDS)
        if beyond is not None:
            ids = beyond.id + 1, ids[1]
        counts = transaction.record_counts(*ids, window.start, window.end)
        marked = _few_records(counts)
        spans = transaction.records_of(sorted(marked), *ids, window.start, window.end) if marked else []
        seen = {span.id for span in spans}
        spans += [span for span in live if span.id not in seen and span.begins < window.end]
        reasons = {span.id: span for span in spans if span.reason is not None}
        keys = {(span.schedule_id, span.rev, 0) for span in reasons.values()}
        return _Records(
            window.start if beyond is None else max(window.start, beyond.planned_at),
            spans,
            [count for count in counts if count.schedule_id not in marked],
            transaction.bound_runs(sorted(reasons)) if reasons else (),
            self.core.catalog.compiled(transaction, keys) if keys else {},
        )


def _sentences(records: _Records) -> Mapping[int, Sentence]:
    """A sentence for each record that has a reason."""
    spans, found = {span.id: span for span in records.spans}, dict[int, Sentence]()
    for row in records.ends:
        span = spans[row.id]
        compiled = records.compiled.get((span.schedule_id, span.rev, 0))
        zone = compiled.definition.trigger.timezone if isinstance(compiled, CompiledSchedule) else "UTC"
        evidence: dict[str, Any] = orjson.loads(row.evidence) if row.evidence else {}
        evidence = {"slots": span.slots, "last": span.slot, "again": span.not_before, **evidence}
        state, at = RunState(row.state), span.slot or span.begins
        found[row.id] = sentence(row.reason or "", evidence, zone, state=state, at=at)
    return found


def check_window(window: Window) -> None:
    if window.end <= window.start:
        message, hint = '"end" is not after "start".', "Give a later end."
    elif window.end - window.start > _MAX_DAYS * DAY_MS:
        message, hint = f"A timeline has at most {_MAX_DAYS} days.", "Give a shorter time, or use the calendar."
    else:
        return
    raise InvalidInput(message, value=str(to_datetime(window.end)), field="end", hint=hint)


def _run(span: RecordSpan, text: Sentence | None) -> TimelineRun:
    label = state_name(span.state)
    return TimelineRun(
        run_id=str(span.id),
        schedule_id=str(span.schedule_id),
        schedule=span.name,
        state=label,  # type: ignore[arg-type]
        status=span.reason or label if span.state == RunState.WAITING else label,
        at=to_datetime(span.begins),
        slot=to_datetime(span.slot),
        slots=span.slots,
        started_at=to_datetime(span.started_at),
        ended_at=to_datetime(span.ended_at),
        reason=span.reason,
        sentence=None if text is None else text.text,
        quote=None if text is None else text.quote,
    )


def _few_records(counts: Sequence[RecordCount]) -> set[int]:
    """The schedules whose records are drawn one by one."""
    by_lane: dict[str, Counter[int]] = defaultdict(Counter)
    for count in counts:
        by_lane[count.agent][count.schedule_id] += count.records
    most = _per_lane(len(by_lane))
    return {schedule for lane in by_lane.values() for schedule in fewest_first(lane, most)}


def _per_lane(lanes: int) -> int:
    return min(MAX_MARKS, max(20, _MAX_ALL_MARKS // max(1, lanes)))


def _draw_record_bands(lanes: Lanes, counts: Iterable[RecordCount]) -> None:
    by_lane: dict[str, dict[int, list[RecordCount]]] = defaultdict(lambda: defaultdict(list))
    for count in counts:
        by_lane[count.agent][count.schedule_id].append(count)
    for agent, schedules in by_lane.items():
        dense, rest = _densest(schedules.values(), lambda rows: sum(row.records for row in rows))
        lanes[agent].bands += [_record_band(rows, rows[0]) for rows in dense]
        if rest:
            lanes[agent].bands.append(_record_band([row for rows in rest for row in rows], None, len(rest)))


def _record_band(rows: Sequence[RecordCount], of: RecordCount | None, schedules: int = 1) -> TimelineBand:
    states = Counter[str]()
    for row in rows:
        states[state_name(row.state)] += row.records
    first, last = min(row.first for row in rows), max(row.last for row in rows)
    whose = (None, None) if of is None else (str(of.schedule_id), of.name)
    return _band("records", first, last, states.total(), states, *whose, schedules=schedules)


def _densest(items: Iterable[T], number: Callable[[T], int]) -> tuple[list[T], list[T]]:
    """The items with the highest numbers, and the others, which are one band."""
    ordered = sorted(items, key=number, reverse=True)
    if len(ordered) <= _MAX_BANDS:
        return ordered, []
    return ordered[: _MAX_BANDS - 1], ordered[_MAX_BANDS - 1 :]


def state_name(state: int) -> str:
    """The state as people see it. A run that a worker holds is running."""
    return _STATE_NAMES[state]


_STATE_NAMES = {int(state): state.label for state in RunState} | {RunState.STARTING: RunState.RUNNING.label}


def _read_cursors(transaction: Transaction, window: Window) -> tuple[list[ComingCursor], int]:
    """The cursors of schedules that fire within the window, and the number of those that are left out."""
    if window.end <= window.now:
        return [], 0
    cursors = transaction.coming(window.end, _MAX_SCHEDULES)
    omitted = transaction.count_coming(window.end) - len(cursors) if len(cursors) == _MAX_SCHEDULES else 0
    after_runs = {cursor.schedule_id: cursor for cursor in transaction.coming_after_runs(MAX_LIVE)}
    return [*cursors, *after_runs.values()], omitted


def _draw_coming(
    lanes: Lanes, cursors: Sequence[ComingCursor], window: Window, policies: Policies, live: Sequence[RecordSpan]
) -> None:
    by_lane: dict[str, list[Coming]] = defaultdict(list)
    for item in compiled_cursors(cursors, window, policies, live):
        by_lane[item.cursor.agent].append(item)
    most = _per_lane(len(by_lane))
    for agent, items in by_lane.items():
        lane = lanes[agent]
        marked = fewest_first({item.cursor.schedule_id: item.slots for item in items}, most)
        for item in items:
            definition, owner = item.timetable.definition, policies.agents.get(item.cursor.agent)
            if definition.quiet_hours is not None:
                lane.quiet.add(definition.quiet_hours)
            provider = definition.provider or (owner.provider if owner else None)
            if provider is not None:
                lane.providers.add(provider)
            if item.cursor.schedule_id in marked:
                lane.slots += _slots(item, window)
        dense, rest = _densest(
            [item for item in items if item.cursor.schedule_id not in marked], lambda item: item.slots
        )
        for item in dense:
            lane.bands += [_slot_band(item, span) for span in coming_spans(item.timetable, item.start, window.end)]
        if rest:
            first, number = min(item.start.slot or window.now for item in rest), sum(item.slots for item in rest)
            lane.bands.append(_band("slots", first, window.end, number, {}, schedules=len(rest)))


def compiled_cursors(
    cursors: Iterable[ComingCursor], window: Window, policies: Policies, live: Sequence[RecordSpan]
) -> Iterator[Coming]:
    waiting = _waiting(live)
    for cursor in cursors:
        try:
            compiled = CompiledSchedule(cursor.schedule_id, 0, cursor.name, cursor.agent, cursor.definition)
        except Exception:  # an unreadable schedule is broken: it has no slots, and `why` explains it
            continue
        timetable, slot = compiled.timetable, cursor.next_slot
        if cursor.due_at is None and timetable.from_completion:
            slot = max(slot, timetable.after_completion(cursor.schedule_id, None, window.now)[0])
        backs_off = timetable.backs_off_until(Failures(cursor.failures, cursor.failed_at), window.now)
        waits = waiting.get(cursor.schedule_id, Waiting())
        start = ForecastStart(
            cursor.schedule_id, cursor.agent, slot, cursor.executions, policies, window.now, waits, cursor.failures,
            backs_off,
        )  # fmt: skip
        start = _after(timetable, start, max(window.start, window.now))
        count = count_coming(timetable, start, window.end)
        if count:
            yield Coming(cursor, timetable, start, count)


def _after(timetable: Timetable, start: ForecastStart, since: int) -> ForecastStart:
    """The forecast from the first slot of a future window. An overdue slot stays."""
    if start.slot is None or since <= start.now or start.slot >= since:
        return start
    return start._replace(slot=timetable.trigger.next_ms(since - 1))


def _waiting(live: Sequence[RecordSpan]) -> Mapping[int, Waiting]:
    """The runs that wait for a known time, by schedule."""
    found: dict[int, Waiting] = {}
    runs: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for span in live:
        if span.state <= RunState.QUEUED:
            runs[span.schedule_id].append((span.id, span.state))
        if span.state == RunState.WAITING and span.not_before is not None:
            before = found.get(span.schedule_id, Waiting())
            found[span.schedule_id] = Waiting(until=max(before.until, span.not_before))
    return {schedule: Waiting(tuple(runs[schedule]), item.until) for schedule, item in found.items()}


def _slots(item: Coming, window: Window) -> Iterator[TimelineSlot]:
    cursor, zone = item.cursor, item.timetable.definition.trigger.timezone
    for seen in coming_slots(item.timetable, item.start, window.end):
        text = slot_sentence(seen.verdict, max(seen.due_at, window.now), zone)
        yield TimelineSlot(
            schedule_id=str(cursor.schedule_id),
            schedule=cursor.name,
            at=to_datetime(seen.slot),
            due_at=to_datetime(seen.due_at),
            verdict=seen.label,
            until=to_datetime(seen.until),
            sentence=None if text is None else text.text,
            quote=None if text is None else text.quote,
        )


def _slot_band(item: Coming, span: ComingSpan) -> TimelineBand:
    text = slot_sentence(span.verdict, span.first, item.timetable.definition.trigger.timezone)
    whose = str(item.cursor.schedule_id), item.cursor.name
    return _band("slots", span.first, span.last, span.slots, {span.label: span.slots}, *whose, text=text)


def _draw_policies(lanes: Lanes, window: Window, policies: Policies) -> None:
    """Draw the quiet hours and rate limits that concern what is drawn."""
    for agent, lane in lanes.items():
        for name in sorted(lane.quiet & policies.quiet_hours.keys()):
            hours = policies.quiet_hours[name]
            for start, end in quiet_spans(hours, window.start, window.end):
                lane.bands.append(
                    _band("quiet_hours", start, end, schedules=0, text=Sentence(describe(hours)), name=name)
                )
        for provider in sorted(lane.providers):
            throttle = policies.throttle_of(provider, agent, window.now)
            if throttle is not None and throttle.activated_at < window.end and throttle.resets_at > window.start:
                start, end = max(window.start, throttle.activated_at), min(window.end, throttle.resets_at)
                until = local_time(throttle.resets_at, "UTC")
                text = Sentence(f"{provider} is throttled until {until}", throttle.reason)
                lane.bands.append(_band("throttle", start, end, schedules=0, text=text, name=provider))


def _band(
    kind: str, start: int, end: int, number: int = 0, states: Mapping[str, int] | None = None,
    schedule_id: str | None = None, schedule: str | None = None, *, schedules: int = 1, text: Sentence | None = None,
    name: str | None = None,
) -> TimelineBand:  # fmt: skip
    return TimelineBand(
        kind=kind,  # type: ignore[arg-type]
        start=to_datetime(start),
        end=to_datetime(end),
        name=name,
        schedule_id=schedule_id,
        schedule=schedule,
        schedules=schedules,
        count=number,
        states=dict(states or {}),
        sentence=None if text is None else text.text,
        quote=None if text is None else text.quote,
    )


def _lane(agent: str, lane: _Lane, policies: Policies) -> TimelineLane:
    known = policies.agents.get(agent)
    return TimelineLane(
        agent=agent,
        runner=None if known is None else known.runner,
        runs=sorted(lane.runs, key=lambda run: run.at),
        slots=sorted(lane.slots, key=lambda slot: slot.at),
        bands=lane.bands,
    )


_EPOCH = date(1970, 1, 1)
_MAX_PAST_DAYS = 400
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
    ) -> ScheduleCalendar:
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
        return ScheduleCalendar(
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

    def spend(
        self,
        principal: Principal,
        *,
        select: Selector | None = None,
        since: int | None = None,
        until: int | None = None,
    ) -> Spend:
        chosen, reader = select or ALL, self.core.limited_reader(principal)
        now, zone = self.core.clock.now_ms(), self.core.clock.local_zone()
        end = now + 1 if until is None else until
        start = since
        if start is None:  # the start of a day
            wall = load_zone(zone).wall_of(end - (_SPEND_DAYS - 1) * DAY_MS)
            start = load_zone(zone).resolve(wall - wall % DAY_MS)
        _check_days(start, end)
        with self.core.store.reading() as transaction:
            days: dict[int, DaySpend] = {}
            for low, high, offset in _stretches(zone, start, end):
                for row in transaction.spend_by_day(low, high, offset, chosen, reader):
                    days[row.day] = _added(days.get(row.day), row)
            agents = transaction.spend_by_name("agent", start, end, _MAX_SHARES, chosen, reader)
            schedules = transaction.spend_by_name("schedule", start, end, _MAX_SHARES, chosen, reader)
        money = sum(row.money for row in days.values())
        known = load_zone(zone).wall_of(end - 1) // DAY_MS - min(days) + 1 if days else 0
        per_day = money // max(1, known)
        return Spend(
            since=to_datetime(start),
            until=to_datetime(end),
            timezone=zone,
            cost=format_money(money),
            tokens=sum(row.tokens for row in days.values()),
            per_day=format_money(per_day),
            per_month=format_money(per_day * 30),
            known_days=known,
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
    if not start < end <= start + _MAX_PAST_DAYS * DAY_MS:
        message = f"The time is not between a moment and {_MAX_PAST_DAYS} days."
        raise InvalidInput(message, value=str(to_datetime(end)), field="until", hint="Give another start or end.")


def _stretches(timezone: str, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The stretches between clock changes, with the offset of each."""
    zone, at = load_zone(timezone), start
    while at < end:
        period = zone.period_at(at)
        yield at, min(end, period.end), period.offset
        at = period.end


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
