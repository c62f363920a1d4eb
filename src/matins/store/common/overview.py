"""Overviews of many schedules and runs, in statements of both stores."""

from __future__ import annotations

from collections.abc import Iterable

from matins.model.overview import (
    ComingCursor,
    DayCount,
    DaySpend,
    EngineSpan,
    NamedSpend,
    PausedSchedule,
    PlannedRun,
    RecentRecord,
    RecordCount,
    RecordSpan,
    RunCost,
    RunPlace,
    SlotState,
)
from matins.model.rows import RunRow, ScheduleRow
from matins.model.subscription import DeliveryState
from matins.store.common.statements import Statements


class OverviewQueries(Statements):
    def first_planned(self, since: int) -> int | None:
        return self._value("first_planned", since=since)

    def run_beyond(self, low: int, high: int, count: int) -> PlannedRun | None:
        return self._row(PlannedRun, "run_beyond", low=low, high=high, count=count)

    def record_counts(self, low: int, high: int, since: int, until: int) -> list[RecordCount]:
        window = {"low": low, "high": high, "since": since, "until": until}
        return self._rows(RecordCount, "record_counts", **window)

    def records_of(self, schedule_ids: Iterable[int], low: int, high: int, since: int, until: int) -> list[RecordSpan]:
        window = {"low": low, "high": high, "since": since, "until": until}
        return self._rows(RecordSpan, "records_of", ids=self._integers(schedule_ids), **window)

    def live_records(self, limit: int) -> list[RecordSpan]:
        return self._rows(RecordSpan, "live_records", limit=limit)

    def live_whole_runs(self, limit: int) -> list[RunRow]:
        return self._rows(RunRow, "live_whole_runs", limit=limit)

    def coming(self, until: int, limit: int) -> list[ComingCursor]:
        return self._rows(ComingCursor, "coming", until=until, limit=limit)

    def coming_after_runs(self, limit: int) -> list[ComingCursor]:
        return self._rows(ComingCursor, "coming_after_runs", limit=limit)

    def count_coming(self, until: int) -> int:
        return self._value("count_coming", until=until)

    def last_records(self, schedule_ids: Iterable[int], limit: int) -> list[RecentRecord]:
        return self._rows(RecentRecord, "last_records", ids=self._integers(schedule_ids), limit=limit)

    def run_costs(self, schedule_id: int, limit: int) -> list[RunCost]:
        return self._rows(RunCost, "run_costs", id=schedule_id, limit=limit)

    def spent_by(self, run_ids: Iterable[int]) -> list[RunCost]:
        return self._rows(RunCost, "spent_by", ids=self._integers(run_ids))

    def end_attempt(self, run_id: int, epoch: int, now: int) -> None:
        self._all("end_attempt", run_id=run_id, epoch=epoch, now=now)

    def attempt_ends(self, run_id: int) -> dict[int, int]:
        return dict(self._all("attempt_ends", run_id=run_id))

    def is_event_after(self, cursor: int, run_id: int, event: str) -> bool:
        return self._value("is_event_after", cursor=cursor, run_id=run_id, type=event) is not None

    def undelivered(self, subscription: str, schedule_id: int, run_id: int, event: str) -> DeliveryState | None:
        return self._value("undelivered", name=subscription, schedule_id=schedule_id, run_id=run_id, type=event)

    def run_places(self, run_ids: Iterable[int]) -> list[RunPlace]:
        return self._rows(RunPlace, "run_places", ids=self._integers(run_ids))

    def last_success(self, schedule_id: int, slot: int) -> int | None:
        return self._value("last_success", id=schedule_id, slot=slot)

    def day_counts(self, schedule_id: int, since: int, until: int, offset: int) -> list[DayCount]:
        return self._rows(DayCount, "day_counts", id=schedule_id, since=since, until=until, offset=offset)

    def spend_by_day(self, since: int, until: int, offset: int) -> list[DaySpend]:
        return self._rows(DaySpend, "spend_by_day", since=since, until=until, offset=offset)

    def spend_by_agent(self, since: int, until: int, limit: int) -> list[NamedSpend]:
        return self._rows(NamedSpend, "spend_by_agent", since=since, until=until, limit=limit)

    def spend_by_schedule(self, since: int, until: int, limit: int) -> list[NamedSpend]:
        return self._rows(NamedSpend, "spend_by_schedule", since=since, until=until, limit=limit)

    def overdue_schedules(self, everything: bool, now: int, limit: int) -> list[ScheduleRow]:
        return self._rows(ScheduleRow, "overdue_schedules", all=everything, now=now, limit=limit)

    def engine_spans(self, limit: int) -> list[EngineSpan]:
        return self._rows(EngineSpan, "engine_spans", limit=limit)

    def planned_before(self, run_id: int) -> int | None:
        return self._value("planned_before", id=run_id)

    def slot_states(self, low: int, high: int, since: int, until: int) -> list[SlotState]:
        return self._rows(SlotState, "slot_states", low=low, high=high, since=since, until=until)

    def set_pause(self, schedule_id: int, pause: str) -> None:
        self._all("set_pause", id=schedule_id, pause=pause)

    def paused_in(self, pause: str | None) -> list[PausedSchedule]:
        return self._rows(PausedSchedule, "paused_in", pause=pause)
