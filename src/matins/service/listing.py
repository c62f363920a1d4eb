"""Use cases that list schedules and runs: pages with a filter, and tabs with their counts."""

from __future__ import annotations

import builtins
from dataclasses import dataclass

import msgspec

from matins.api.results import Run, Schedule, ScheduleCounts, SlotBar
from matins.engine.money import parse_money
from matins.engine.run_texts import parse_search
from matins.engine.when.durations import parse_duration
from matins.engine.when.triggers import to_datetime
from matins.errors import IntervalParseError, InvalidInput
from matins.model.access import Principal
from matins.model.overview import RecentRecord, ScheduleSort, ScheduleTab
from matins.model.rows import RunRow
from matins.model.run import RunState
from matins.model.selector import ALL, RunFilter, RunQuery, ScheduleFilter, Selector
from matins.runtime.catalog import run_record, schedule_record
from matins.service.core import MAX_ID, Core
from matins.service.run_views import by_schedule, run_result
from matins.service.schedules import schedule_results
from matins.service.timeline import state_name
from matins.store.transaction import Transaction

_MAX_BARS = 100


@dataclass(frozen=True)
class ScheduleLists:
    core: Core

    def list(
        self,
        principal: Principal,
        *,
        select: Selector | None = None,
        tab: ScheduleTab = "all",
        sort: ScheduleSort = "created",
        deleted: bool = False,
        bars: int = 0,
        after: int | None = None,
        limit: int = 100,
    ) -> builtins.list[Schedule]:
        if not 0 <= bars <= _MAX_BARS:
            message = f'"bars" is not a number from 0 to {_MAX_BARS}.'
            raise InvalidInput(message, value=bars, field="bars", hint="30 is usual.")
        chosen = ScheduleFilter(select or ALL, tab, self.core.limited_reader(principal), deleted)
        with self.core.store.reading() as transaction:
            rows = transaction.listed(chosen, sort, after or 0, limit)
            results = schedule_results(transaction, [schedule_record(row) for row in rows])
            return _with_bars(transaction, results, bars) if bars else results

    def counts(self, principal: Principal, *, select: Selector | None = None) -> ScheduleCounts:
        reader = self.core.limited_reader(principal)
        with self.core.store.reading() as transaction:
            return ScheduleCounts(*transaction.tab_counts(select or ALL, reader))


@dataclass(frozen=True)
class RunLists:
    core: Core

    def list(
        self,
        principal: Principal,
        *,
        schedule: str | None = None,
        agent: str | None = None,
        select: Selector | None = None,
        state: tuple[str, ...] | None = None,
        reason: str | None = None,
        text: str | None = None,
        min_cost: str | None = None,
        min_duration: str | None = None,
        since: int | None = None,
        until: int | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> builtins.list[Run]:
        query = RunQuery(schedule, agent, select, state, reason, text, min_cost, min_duration, since, until)
        last = MAX_ID if before is None else before
        with self.core.store.reading() as transaction:
            chosen = run_filter(self.core, transaction, principal, query)
            return [run_result(run_record(row)) for row in run_rows(transaction, chosen, query, last, limit)]


def run_rows(
    transaction: Transaction, chosen: RunFilter, query: RunQuery, before: int, limit: int
) -> builtins.list[RunRow]:
    """A page of runs, the newest first."""
    if query.until is not None:
        before = min(before, transaction.first_planned(query.until) or 0)
    if chosen == RunFilter(chosen.schedule_id, query.agent, reader=chosen.reader) and chosen.schedule_id is not None:
        return transaction.runs_of(chosen.schedule_id, before, limit)
    return transaction.listed_runs(chosen, before, limit)


def run_filter(core: Core, transaction: Transaction, principal: Principal, query: RunQuery) -> RunFilter:
    """What the store looks for, but for `until`, which bounds pages from above."""
    shortest = None if query.min_duration is None else _duration(query.min_duration)
    least = None
    if query.min_cost is not None:
        least = parse_money(query.min_cost, core.catalog.policies(transaction).rates, "min_cost")
    return RunFilter(
        schedule_id=None
        if query.schedule is None
        else core.find(transaction, query.schedule, query.agent, deleted=True).id,
        agent=query.agent,
        states=None if query.state is None else sum({1 << state for name in query.state for state in _states(name)}),
        reason=query.reason,
        search=None if query.text is None else parse_search(query.text),
        min_cost=least,
        started_before=None if shortest is None else core.clock.now_ms() - shortest,
        min_duration=shortest,
        low=0 if query.since is None else transaction.first_planned(query.since) or 0,
        selector=query.select or ALL,
        reader=core.limited_reader(principal, transaction),
    )


def _duration(text: str) -> int:
    try:
        return parse_duration(text)
    except IntervalParseError as error:
        error.field = "min_duration"
        raise


def _states(name: str) -> tuple[RunState, ...]:
    """The stored states that people see as this one."""
    return (RunState.STARTING, RunState.RUNNING) if name == "running" else (RunState[name.upper()],)


def _with_bars(transaction: Transaction, results: builtins.list[Schedule], bars: int) -> builtins.list[Schedule]:
    """The schedules with their last records, the oldest first, from one statement."""
    grouped = by_schedule(transaction.last_records([int(result.id) for result in results], bars))
    return [
        msgspec.structs.replace(result, bars=[_bar(record) for record in reversed(grouped.get(int(result.id), ()))])
        for result in results
    ]


def _bar(record: RecentRecord) -> SlotBar:
    at = to_datetime(record.slot if record.slot is not None else record.planned_at)
    return SlotBar(str(record.id), at, state_name(record.state), record.reason, record.slots)  # type: ignore[arg-type]
