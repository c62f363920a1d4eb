"""The types of herdctl's scheduler, in Python spelling."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, NotRequired, Protocol, TypedDict

from matins.engine.prompts import WorkItem
from matins.executors.work_items import WorkSource

AgentEntry = Mapping[str, Any]
"""An agent as its file has it: `name`, `schedules`, `instances: {max_concurrent: 2}` or `max_concurrent`."""
ScheduleEntry = Mapping[str, Any]
"""A schedule as its file has it: `type`, `interval` or `expression`, `prompt`, `work_source`, `enabled`."""
UNTIMED = ("webhook", "chat")
"""The types of schedules that no clock triggers."""
SchedulerStatus = Literal["stopped", "running", "stopping"]
ScheduleStatus = Literal["idle", "running", "disabled"]
ScheduleSkipReason = Literal["unsupported_type", "disabled", "already_running", "at_capacity", "not_due"]


class ScheduleState(NamedTuple):
    status: ScheduleStatus = "idle"
    last_run_at: str | None = None
    next_run_at: str | None = None
    last_error: str | None = None


class ScheduleCheckResult(NamedTuple):
    should_trigger: bool
    skip_reason: ScheduleSkipReason | None = None


class SchedulerState(NamedTuple):
    status: SchedulerStatus
    started_at: str | None
    check_count: int
    """How often the engine has looked for due schedules since the start."""
    trigger_count: int
    last_check_at: str | None


class SchedulerLogger(Protocol):
    def debug(self, message: str, /) -> object: ...
    def info(self, message: str, /) -> object: ...
    def warn(self, message: str, /) -> object: ...
    def error(self, message: str, /) -> object: ...


ScheduleRunnerLogger = SchedulerLogger


class TriggerInfo(NamedTuple):
    agent: AgentEntry
    schedule_name: str
    schedule: ScheduleEntry
    schedule_state: ScheduleState


SchedulerTriggerCallback = Callable[[TriggerInfo], Awaitable[object] | object]
"""The schedule runs until the callback, or what it returns, is done."""


class AgentScheduleInfo(NamedTuple):
    agent: AgentEntry
    schedules: Mapping[str, ScheduleEntry]
    running_count: int
    max_concurrent: int


class SchedulerOptions(TypedDict):
    state_dir: str | Path
    check_interval: NotRequired[int]
    logger: NotRequired[SchedulerLogger | None]
    on_trigger: NotRequired[SchedulerTriggerCallback | None]


class StopOptions(TypedDict, total=False):
    wait_for_jobs: bool
    timeout: int
    """Milliseconds."""


class TriggerMetadata(NamedTuple):
    """What the job executor learns besides the prompt."""

    trigger_type: Literal["interval", "cron"]
    schedule: str
    work_item_id: str | None = None
    work_item_title: str | None = None


JobExecutor = Callable[[str, TriggerMetadata], Awaitable[Any] | Any]


class RunScheduleOptions(TypedDict):
    agent: AgentEntry
    schedule: ScheduleEntry
    schedule_name: str
    state_dir: str | Path
    job_executor: JobExecutor
    work_source_manager: NotRequired[WorkSource | None]
    logger: NotRequired[ScheduleRunnerLogger | None]


class ScheduleRunResult(NamedTuple):
    success: bool
    job_id: str
    """The id of the run."""
    result: Any = None
    error: str | None = None
    skip_reason: Literal["no_work"] | None = None
    work_item: WorkItem | None = None

    @property
    def processed_work_item(self) -> bool:
        return self.work_item is not None


Agents = Sequence[AgentEntry]
