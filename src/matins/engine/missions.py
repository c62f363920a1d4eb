"""Missions: schedules with steps. Their status follows from state, trigger and runs; it is not stored."""

from __future__ import annotations

from collections.abc import Iterable

from matins.model.run import RunRecord, RunState
from matins.model.schedule import MissionStatus, ScheduleDefinition, ScheduleRecord, ScheduleState
from matins.model.trigger import Never, Once

_STATES: dict[ScheduleState, MissionStatus] = {
    "pending": "draft",
    "rejected": "cancelled",
    "broken": "paused",
    "paused": "paused",
    "expired": "completed",
}
"""States that decide, whatever the runs are."""
_OUTCOMES: dict[RunState, MissionStatus] = {
    RunState.SUCCEEDED: "completed",
    RunState.CANCELLED: "cancelled",
    RunState.DENIED: "cancelled",
    RunState.EXPIRED: "cancelled",
}
"""What remains of a mission that does not wait for a time. All others: failed."""

_TIME = frozenset(["when", "ends_at", "max_executions", "catch_up"])
"""The settings of a mission's time."""
GOT_SCHEDULE = ("schedule.created", "schedule.timed")
"""The events by which a mission got the schedule that it has. A change of its time is another one."""
MISSION_ABORTED = "mission_aborted"
"""The reason of runs that end because their mission is aborted."""


def is_draft(definition: ScheduleDefinition) -> bool:
    """Whether nothing but a person starts the mission."""
    return isinstance(definition.trigger.when, Never) and not definition.on


def is_recurring(definition: ScheduleDefinition) -> bool:
    """Whether the mission repeats without a limit."""
    once = isinstance(definition.trigger.when, Once) or definition.max_executions is not None
    return not once and not is_draft(definition)


def gets_schedule(before: ScheduleDefinition, names: Iterable[str]) -> bool:
    """Whether an edit gives a mission another schedule: it had none, or every setting of its time is given."""
    return is_draft(before) or set(names) >= _TIME


def deciding_run(newest: RunRecord | None, started: RunRecord | None) -> RunRecord | None:
    """The run that the status follows from: the last one that started, unless a later one decides without a start."""
    return newest if newest is None or started is None or _decides(newest) else started


def _decides(run: RunRecord) -> bool:
    """Whether the status of the mission follows from this run. It does not from a manual run that never began, nor from
    a skipped slot."""
    denied_or_missed = run.slot is not None and run.state is not RunState.SKIPPED
    return run.started_at is not None or run.reason == MISSION_ABORTED or denied_or_missed


def mission_status(schedule: ScheduleRecord, last: RunRecord | None, *, active: bool) -> MissionStatus:
    """The status of a mission. `last`: its deciding run; `active`: whether a run has started and not ended."""
    if active:
        return "active"
    if schedule.state in _STATES:
        return _STATES[schedule.state]
    if is_draft(schedule.definition):
        return "draft" if last is None or not _concerns(schedule, last) else _OUTCOMES.get(last.state, "failed")
    if schedule.state == "active":
        return "recurring" if is_recurring(schedule.definition) else "scheduled"
    return "completed" if last is None or is_recurring(schedule.definition) else _OUTCOMES.get(last.state, "failed")


def _concerns(schedule: ScheduleRecord, last: RunRecord) -> bool:
    """Whether a run says something of the draft as it is: it was started as such, or cancelled since."""
    cancelled = last.state is RunState.CANCELLED and (last.ended_at or 0) >= schedule.updated_at
    return not last.state.live and (last.rev == schedule.rev or cancelled)
