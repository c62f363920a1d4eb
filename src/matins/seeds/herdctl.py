"""herdctl's interval and cron functions, the check of a schedule, and its state as herdctl shows it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

from matins.api.results import GateReport, Run, Schedule
from matins.api.schedules import Api
from matins.app import parse_trigger
from matins.engine.when.cron import parse_cron
from matins.engine.when.durations import parse_duration as parse_interval
from matins.engine.when.jitter import jitter_ms
from matins.engine.when.triggers import EPOCH, Trigger, to_ms
from matins.errors import (
    CronParseError,
    IntervalParseError,
    MatinsError,
    SchedulerShutdownError,
    ScheduleTriggerError,
)
from matins.library import Matins
from matins.runtime.clock import SystemClock
from matins.seeds.run_views import error_of, last_started, text_of, under_way

__all__ = [
    "CronParseError",
    "IntervalParseError",
    "ScheduleCheckResult",
    "ScheduleSkipReason",
    "ScheduleState",
    "ScheduleTriggerError",
    "SchedulerError",
    "SchedulerShutdownError",
    "calculate_next_cron_trigger",
    "calculate_next_trigger",
    "check_schedule",
    "get_agent_schedule_states",
    "get_schedule_state",
    "is_schedule_due",
    "is_valid_cron_expression",
    "parse_cron_expression",
    "parse_interval",
    "raise_for_last_run",
]

SchedulerError = MatinsError
"""The root of all of them."""


def parse_cron_expression(expression: str, *, timezone: str = "local") -> Trigger:
    """Five fields or an alias, in the machine's zone unless another is named; six fields are refused."""
    fields = len(expression.split())
    if fields != 5 and not expression.startswith("@"):
        raise CronParseError(
            f'Invalid cron expression "{expression}" - expected 5 fields, got {fields}', value=expression
        )
    parse_cron(expression)  # whatever else the text could be, here it is cron
    return parse_trigger(expression, timezone=timezone)


def is_valid_cron_expression(expression: str) -> bool:
    try:
        parse_cron_expression(expression)
    except CronParseError:
        return False
    return True


def calculate_next_cron_trigger(expression: str, after: datetime, *, timezone: str = "local") -> datetime | None:
    """The next match after a date; missed ones are not caught up."""
    return parse_cron_expression(expression, timezone=timezone).next_after(after)


def calculate_next_trigger(
    last_completed_at: datetime | None, interval: str, jitter: float = 0, *, now: datetime | None = None
) -> datetime:
    """The first run is at once, the next an interval after the last completion (and up to `jitter` percent of it
    later, 0 to 10, the same for the same completion); what is past already is due now."""
    now = now or _now()
    period = parse_interval(interval)
    if last_completed_at is None:
        return now
    slot = to_ms(last_completed_at) + period
    late = period + jitter_ms(interval, slot, period, jitter)
    return max(last_completed_at + timedelta(milliseconds=late), now)


def is_schedule_due(next_trigger_at: datetime, *, now: datetime | None = None) -> bool:
    return next_trigger_at <= (now or _now())


def _now() -> datetime:
    return EPOCH + timedelta(milliseconds=SystemClock().now_ms())


# -- the check of a schedule

ScheduleSkipReason = Literal["unsupported_type", "disabled", "already_running", "at_capacity", "not_due"]
_UNTIMED = ("webhook", "chat")
_REASONS: Mapping[str, ScheduleSkipReason] = {
    "paused": "disabled",
    "ended": "disabled",
    "overlap": "already_running",
    "capacity": "at_capacity",
}
"""herdctl's reasons by gate, in its order of evaluation."""


class ScheduleCheckResult(NamedTuple):
    should_trigger: bool
    skip_reason: ScheduleSkipReason | None = None


def check_schedule(
    m: Matins, agent: str, schedule_name: str, schedule: Mapping[str, Any] | None = None
) -> ScheduleCheckResult:
    """Whether the schedule would be triggered now, and otherwise the first condition that fails.

    `schedule`: its entry in the agent's file. Its type may be one that no clock triggers.
    """
    if schedule is not None and schedule.get("type") in _UNTIMED:
        return ScheduleCheckResult(False, "unsupported_type")
    reports = m.why(schedule_name, agent=agent).now
    waits = any(map(_waits_for_capacity, reports))
    for report in reports:
        if report.gate in _REASONS and report.passes is False and not _waits_for_capacity(report):
            return ScheduleCheckResult(False, _REASONS[report.gate])
    due_at = m.get(schedule_name, agent=agent).due_at
    due = waits or (due_at is not None and to_ms(due_at) <= m.clock.now_ms())
    return ScheduleCheckResult(True) if due else ScheduleCheckResult(False, "not_due")


def _waits_for_capacity(report: GateReport) -> bool:
    """Whether only the schedule's own run, which has not started, blocks it."""
    return report.gate == "overlap" and (report.evidence or {}).get("state") == "ready"


# -- its state


class ScheduleState(NamedTuple):
    status: Literal["idle", "running", "disabled"]
    last_run_at: str | None
    next_run_at: str | None
    last_error: str | None


def get_schedule_state(m: Api, agent: str, schedule_name: str) -> ScheduleState:
    return _state(m, m.get(schedule_name, agent=agent))


def get_agent_schedule_states(m: Api, agent: str) -> dict[str, ScheduleState]:
    """Of every schedule of an agent, by name."""
    states: dict[str, ScheduleState] = {}
    after: str | None = None
    while page := m.list(agent=agent, after=after):
        states |= {schedule.name: _state(m, schedule) for schedule in page}
        after = page[-1].id
    return states


def raise_for_last_run(m: Api, agent: str, schedule_name: str) -> None:
    """A ScheduleTriggerError if its last run failed."""
    last = last_started(m, m.get(schedule_name, agent=agent))
    if last is not None and last.state == "failed":
        raise ScheduleTriggerError(agent, schedule_name, error_of(last))


def _state(m: Api, schedule: Schedule) -> ScheduleState:
    last = last_started(m, schedule)
    return ScheduleState(
        status=_status(schedule, last),
        last_run_at=text_of(last.started_at) if last else None,
        next_run_at=text_of(schedule.due_at),
        last_error=error_of(last) if last and last.state == "failed" else None,
    )


def _status(schedule: Schedule, last: Run | None) -> Literal["idle", "running", "disabled"]:
    if under_way(last) and schedule.state in ("active", "completed"):
        return "running"
    return "idle" if schedule.state == "active" else "disabled"
