"""herdctl's scheduler: its class, functions, errors and types, in Python spelling, on Matins' engine."""

from matins.errors import CronParseError, IntervalParseError, MatinsError, SchedulerShutdownError, ScheduleTriggerError
from matins.seeds.herdctl.scheduler import Scheduler, build_schedule_prompt, run_schedule
from matins.seeds.herdctl.states import (
    check_schedule,
    get_agent_schedule_states,
    get_schedule_state,
    raise_for_last_run,
    update_schedule_state,
)
from matins.seeds.herdctl.times import (
    calculate_next_cron_trigger,
    calculate_next_trigger,
    is_schedule_due,
    is_valid_cron_expression,
    parse_cron_expression,
    parse_interval,
)
from matins.seeds.herdctl.types import (
    AgentScheduleInfo,
    RunScheduleOptions,
    ScheduleCheckResult,
    SchedulerLogger,
    SchedulerOptions,
    SchedulerState,
    SchedulerStatus,
    SchedulerTriggerCallback,
    ScheduleRunnerLogger,
    ScheduleRunResult,
    ScheduleSkipReason,
    ScheduleState,
    StopOptions,
    TriggerInfo,
    TriggerMetadata,
)

SchedulerError = MatinsError
"""The root of all of them."""

__all__ = [
    "AgentScheduleInfo",
    "CronParseError",
    "IntervalParseError",
    "RunScheduleOptions",
    "ScheduleCheckResult",
    "ScheduleRunResult",
    "ScheduleRunnerLogger",
    "ScheduleSkipReason",
    "ScheduleState",
    "ScheduleTriggerError",
    "Scheduler",
    "SchedulerError",
    "SchedulerLogger",
    "SchedulerOptions",
    "SchedulerShutdownError",
    "SchedulerState",
    "SchedulerStatus",
    "SchedulerTriggerCallback",
    "StopOptions",
    "TriggerInfo",
    "TriggerMetadata",
    "build_schedule_prompt",
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
    "run_schedule",
    "update_schedule_state",
]
