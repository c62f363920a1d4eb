"""What screens show of many schedules and runs at once: a statement each, whatever their number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

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


class OverviewRows(Protocol):
    """Whole runs only: steps belong to theirs."""

    def first_planned(self, since: int) -> int | None:
        """The first run that was planned at or after an instant; None where there are no runs."""
        ...

    def run_beyond(self, low: int, high: int, count: int) -> PlannedRun | None:
        """The run from `low` to before `high` that has this many newer ones; None where there are not so many."""
        ...

    def record_counts(self, low: int, high: int, since: int, until: int) -> list[RecordCount]:
        """The records from run `low` to before run `high` that lie in a window, counted by schedule and state."""
        ...

    def records_of(
        self, schedule_ids: Iterable[int], low: int, high: int, since: int, until: int
    ) -> list[RecordSpan]: ...
    def live_records(self, limit: int) -> list[RecordSpan]: ...
    def live_whole_runs(self, limit: int) -> list[RunRow]: ...
    def coming(self, until: int, limit: int) -> list[ComingCursor]:
        """Active schedules whose next slot is due before an instant, the soonest first."""
        ...

    def coming_after_runs(self, limit: int) -> list[ComingCursor]:
        """Schedules whose next slot is decided by the end of a live run."""
        ...

    def count_coming(self, until: int) -> int: ...
    def last_records(self, schedule_ids: Iterable[int], limit: int) -> list[RecentRecord]:
        """The last records of each schedule, the newest first."""
        ...

    def run_costs(self, schedule_id: int, limit: int) -> list[RunCost]:
        """What the last runs of a schedule spent, the newest first."""
        ...

    def spent_by(self, run_ids: Iterable[int]) -> list[RunCost]:
        """What these runs have spent so far."""
        ...

    def end_attempt(self, run_id: int, epoch: int, now: int) -> None:
        """Set when an attempt ended after which its run goes on."""
        ...

    def attempt_ends(self, run_id: int) -> dict[int, int]:
        """The ends of attempts after which the run went on, by epoch."""
        ...

    def is_event_after(self, cursor: int, run_id: int, event: str) -> bool:
        """Whether a subscription with this cursor has still to take up an event of the run."""
        ...

    def undelivered(self, subscription: str, schedule_id: int, run_id: int, event: str) -> DeliveryState | None:
        """Whether an event of the run is being retried or was discarded for a subscription; None if neither."""
        ...

    def run_places(self, run_ids: Iterable[int]) -> list[RunPlace]: ...
    def last_success(self, schedule_id: int, slot: int) -> int | None:
        """The last run of the schedule before a slot that succeeded."""
        ...

    def day_counts(self, schedule_id: int, since: int, until: int, offset: int) -> list[DayCount]:
        """The slots of a schedule by day and state. `offset`: of the wall clock, in milliseconds."""
        ...

    def spend_by_day(self, since: int, until: int, offset: int) -> list[DaySpend]: ...
    def spend_by_agent(self, since: int, until: int, limit: int) -> list[NamedSpend]: ...
    def spend_by_schedule(self, since: int, until: int, limit: int) -> list[NamedSpend]: ...
    def overdue_schedules(self, everything: bool, now: int, limit: int) -> list[ScheduleRow]:
        """Active schedules whose slot is due, or all active ones."""
        ...

    def engine_spans(self, limit: int) -> list[EngineSpan]:
        """When engines started and stopped, the newest first."""
        ...

    def planned_before(self, run_id: int) -> int | None:
        """When the last run before this one was planned."""
        ...

    def slot_states(self, low: int, high: int, since: int, until: int) -> list[SlotState]: ...
    def set_pause(self, schedule_id: int, pause: str) -> None: ...
    def paused_in(self, pause: str | None) -> list[PausedSchedule]:
        """The schedules of a pause, or of all pauses of several schedules."""
        ...
