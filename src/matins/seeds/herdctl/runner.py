"""herdctl's runner of schedules: what a trigger does with a prompt, a work item and a job executor."""

from __future__ import annotations

import sys
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Unpack

from matins.engine.prompts import DEFAULT_PROMPT, WorkItem, with_item
from matins.errors import Conflict
from matins.executors.check_executor import awaited
from matins.executors.job_context import JobContext
from matins.executors.work_items import HeldWorkItem, NoWork, claim_item
from matins.model.clock import Clock
from matins.model.run import Outcome
from matins.seeds.herdctl.types import (
    RunScheduleOptions,
    ScheduleEntry,
    SchedulerTriggerCallback,
    ScheduleRunResult,
    TriggerInfo,
    TriggerMetadata,
)


@dataclass
class Trigger:
    """A trigger that is under way."""

    run: JobContext
    key: str
    clock: Clock
    failed: str | None = None
    no_work: bool = False


current: ContextVar[Trigger | None] = ContextVar("trigger", default=None)


class RunsNow(Protocol):
    def run_now(self, agent: str, schedule_name: str, handler: SchedulerTriggerCallback) -> str: ...


running: dict[Path, RunsNow] = {}
"""The schedulers of this process that run, by state directory."""


class ConsoleLogger:
    """Writes each message to standard error."""

    def debug(self, message: str) -> None:
        self._write("debug", message)

    def info(self, message: str) -> None:
        self._write("info", message)

    def warn(self, message: str) -> None:
        self._write("warn", message)

    def error(self, message: str) -> None:
        self._write("error", message)

    def _write(self, level: str, message: str) -> None:
        sys.stderr.write(f"[scheduler] {level}: {message}\n")


def build_schedule_prompt(schedule: ScheduleEntry, work_item: WorkItem | None = None) -> str:
    """The schedule's prompt, or the default one; with a work item its details below."""
    return with_item(schedule.get("prompt") or DEFAULT_PROMPT, work_item)


def run_schedule(**options: Unpack[RunScheduleOptions]) -> ScheduleRunResult:
    """Run a schedule: claim a work item, build the prompt, execute, report the outcome.

    In `on_trigger` it is that trigger's run. Elsewhere it starts one in the scheduler of `state_dir`, and waits. Either
    way the run is the state: running while it lasts, then its outcome and the next run.
    """
    trigger = current.get()
    if trigger is not None:
        return _execute(trigger, options)
    home = Path(options["state_dir"]).expanduser().absolute()
    scheduler = running.get(home)
    if scheduler is None:
        raise not_running(home)
    found: list[ScheduleRunResult] = []

    def handler(info: TriggerInfo) -> None:
        found.append(run_schedule(**options))

    run = scheduler.run_now(options["agent"]["name"], options["schedule_name"], handler)
    return found[0] if found else ScheduleRunResult(False, run, error="the run did not start")


def _execute(trigger: Trigger, options: RunScheduleOptions) -> ScheduleRunResult:
    logger, schedule = options.get("logger") or ConsoleLogger(), options["schedule"]
    name, run = f"{options['agent']['name']}/{options['schedule_name']}", str(trigger.run.id)
    source = options.get("work_source_manager")
    try:
        held = None if source is None else claim_item(source, trigger.key, trigger.clock)
    except NoWork:
        logger.debug(f"No work items available for {name}")
        trigger.no_work = True
        return ScheduleRunResult(False, run, skip_reason="no_work")
    item = None if held is None else held.item
    about = TriggerMetadata(
        "cron" if schedule.get("type") == "cron" else "interval",
        options["schedule_name"],
        None if item is None else item.id,
        None if item is None else item.title,
    )
    try:
        result = awaited(options["job_executor"](build_schedule_prompt(schedule, item), about))
    except Exception as error:
        logger.error(f"Error running schedule {name}: {error}")
        trigger.failed = str(error) or type(error).__name__
        _report(held, Outcome(False, error=trigger.failed), trigger.clock)
        return ScheduleRunResult(False, run, error=trigger.failed, work_item=item)
    _report(held, Outcome(True, result), trigger.clock)
    logger.info(f"Completed schedule {name}: success")
    return ScheduleRunResult(True, run, result, work_item=item)


def _report(held: HeldWorkItem | None, outcome: Outcome, clock: Clock) -> None:
    if held is not None:
        held.report(outcome, clock)


def not_running(home: Path) -> Conflict:
    hint = f'Call it in on_trigger, or start one: Scheduler(state_dir="{home}").start(agents).'
    return Conflict(f"No scheduler of this process runs in {home}.", value=str(home), field="state_dir", hint=hint)
