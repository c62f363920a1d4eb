"""Missions: schedules with steps. Their status follows from state, trigger and runs; it is not stored."""

from __future__ import annotations

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


def is_draft(definition: ScheduleDefinition) -> bool:
    """Whether nothing but a person starts the mission."""
    return isinstance(definition.trigger.when, Never) and not definition.on


def is_recurring(definition: ScheduleDefinition) -> bool:
    """Whether the mission repeats without a limit."""
    once = isinstance(definition.trigger.when, Once) or definition.max_executions is not None
    return not once and not is_draft(definition)


def mission_status(schedule: ScheduleRecord, last: RunRecord | None, *, active: bool) -> MissionStatus:
    """The status of a mission. `last`: its newest run; `active`: whether a run has started and not ended."""
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
