"""corvid-agent's scheduler service: how often a schedule may fire, its safety rails, and its executions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, NamedTuple

import orjson

from matins.app import parse_trigger, trigger_from_dict
from matins.calls import Calls
from matins.engine.events import PREFIX
from matins.engine.when.cron import parse_cron
from matins.engine.when.definitions import instant_text
from matins.engine.when.durations import format_duration
from matins.engine.when.triggers import Trigger
from matins.errors import CronParseError, IntervalParseError, InvalidInput, NotFound
from matins.executors.python import Job, JobRun
from matins.library import Matins
from matins.model.records import Said
from matins.model.run import APPROVED, Run, RunState
from matins.model.schedule import ApprovalPolicy, Schedule
from matins.seeds.records import error_of, newest_first, text_of

MIN_SCHEDULE_INTERVAL_MS = 300_000
MAX_CONCURRENT_EXECUTIONS = 2
MAX_CONSECUTIVE_FAILURES = 5
ExecutionStatus = Literal["pending", "running", "awaiting_approval", "completed", "failed", "approved", "denied"]
_STATUSES: Mapping[RunState, ExecutionStatus] = {
    RunState.STARTING: "running",
    RunState.RUNNING: "running",
    RunState.HELD: "running",
    RunState.SUCCEEDED: "completed",
    RunState.FAILED: "failed",
    RunState.CANCELLED: "failed",
    RunState.INTERRUPTED: "failed",
    RunState.UNKNOWN: "failed",
    RunState.OVER_BUDGET: "failed",
    RunState.DENIED: "denied",
    RunState.EXPIRED: "denied",
}
_NOWHERE = instant_text(0)
"""An interval that counts from its starts has an origin that nobody looks at."""


def validate_schedule_frequency(
    cron_expression: str | None = None,
    interval_ms: int | None = None,
    *,
    minimum_ms: int = MIN_SCHEDULE_INTERVAL_MS,
) -> None:
    """Refuse what fires more often than the minimum, by the smallest gap of its whole cycle."""
    if cron_expression is not None:
        _refuse_short(_smallest_gap(cron_expression), cron_expression, minimum_ms)
    if interval_ms is not None:
        _refuse_short(interval_ms, interval_ms, minimum_ms)


def _smallest_gap(expression: str) -> int:
    try:
        parse_cron(expression)
    except CronParseError as error:
        raise CronParseError(
            f"Invalid cron expression: {error.message}", value=expression, field=error.field, hint=error.hint
        ) from error
    gap = parse_trigger(expression).smallest_gap()
    assert gap is not None
    return round(gap.total_seconds() * 1000)


def _refuse_short(gap_ms: int, value: object, minimum_ms: int) -> None:
    if gap_ms < minimum_ms:
        gap, minimum = format_duration(gap_ms), format_duration(minimum_ms)
        raise IntervalParseError(
            f"Schedule interval too short: {value} fires as often as every {gap}; the minimum is {minimum}",
            value=value,
            allowed=f"{minimum} or more",
            hint=f"make it fire every {minimum} at the most",
        )


def create_schedule(
    m: Calls,
    name: str,
    *,
    agent_id: str,
    action_type: str,
    action_input: Mapping[str, Any] | None = None,
    cron_expression: str | None = None,
    interval_ms: int | None = None,
    approval_policy: ApprovalPolicy = "owner_approve",
    max_executions: int | None = None,
    **words: Any,
) -> Schedule:
    """A schedule with the seed's safety rails; `words` are Matins' own, such as `approvers` of a council."""
    validate_schedule_frequency(cron_expression, interval_ms)
    rails = {"approval": approval_policy, "pause_after": MAX_CONSECUTIVE_FAILURES, "max_executions": max_executions}
    return m.add(
        name,
        when=_trigger(cron_expression, interval_ms),
        do=action_type,
        agent=agent_id,
        payload=dict(action_input or {}),
        **{**rails, **words},
    )


def _trigger(cron_expression: str | None, interval_ms: int | None) -> Trigger:
    if cron_expression is not None and interval_ms is None:
        return parse_trigger(cron_expression)
    if interval_ms is None or cron_expression is not None:
        raise InvalidInput(
            "A schedule needs a cron expression or an interval, and not both",
            field="cron_expression",
            hint='cron_expression="0 9 * * 1", or interval_ms=300_000',
        )
    return trigger_from_dict({"kind": "interval", "every_ms": interval_ms, "anchor": "start", "origin": _NOWHERE})


# -- executions


@dataclass(frozen=True, slots=True)
class ScheduleExecution:
    """A run as a row of schedule_executions."""

    id: str
    schedule_id: str
    agent_id: str
    action_type: str
    action_input: Any
    config_snapshot: dict[str, Any]
    """What the schedule said when the run was made; later edits do not touch it."""
    status: ExecutionStatus
    result: str | None
    started_at: str
    completed_at: str | None


def _execution(run: Run, said: Said) -> ScheduleExecution | None:
    """None of a slot that came to no execution: skipped, missed or blocked."""
    status = _status(run)
    if status is None:
        return None
    config = orjson.loads(said.definition)
    return ScheduleExecution(
        id=str(run.id),
        schedule_id=str(run.schedule_id),
        agent_id=said.agent,
        action_type=config["do"],
        action_input=config.get("payload"),
        config_snapshot={"name": said.name, "agent": said.agent, **config},
        status=status,
        result=_result(run),
        started_at=instant_text(run.started_at or run.planned_at),
        completed_at=text_of(run.ended_at),
    )


def _status(run: Run) -> ExecutionStatus | None:
    if run.status == "awaiting_approval":
        return "awaiting_approval"
    if run.state <= RunState.READY:
        return "approved" if run.cleared & APPROVED else "pending"
    return _STATUSES.get(run.state)


def _result(run: Run) -> str | None:
    """What it gave back, or why there is nothing; None until it is over."""
    if run.state is not RunState.SUCCEEDED:
        return None if run.state.live else error_of(run)
    outcome: dict[str, Any] = run.outcome or {}
    told = outcome.get("result")
    return told if told is None or isinstance(told, str) else orjson.dumps(told).decode()


# -- the service


class SchedulerStats(NamedTuple):
    running: bool
    active_schedules: int
    paused_schedules: int
    running_executions: int
    max_concurrent: int | None
    recent_failures: int


class SchedulerService:
    """The seed's methods over a `Matins`, at most two executions at once unless another limit is set."""

    def __init__(self, matins: Matins) -> None:
        self._matins = matins

    def start(self) -> None:
        """The first tick is immediate. When it runs already, nothing happens."""
        if self.get_stats().max_concurrent is None:
            self._matins.limit("global", MAX_CONCURRENT_EXECUTIONS)
        self._matins.start()

    def stop(self) -> None:
        self._matins.stop()

    def get_stats(self) -> SchedulerStats:
        stats = self._matins.stats()
        return SchedulerStats(*(getattr(stats, name) for name in SchedulerStats._fields))

    def on_event(self, callback: Callable[[dict[str, Any]], object]) -> Callable[[], None]:
        """Tell it what happens from now on; what comes back ends that."""
        return self._matins.subscribe(lambda event: callback(self._event(event)))

    # Services that come late: until then, executions that need them fail.

    def set_agent_messenger(self, messenger: Job) -> None:
        """Called with the execution for each `send_message`, also when the scheduler runs already."""
        self._matins.jobs["send_message"] = messenger

    def set_improvement_loop_service(self, service: Job) -> None:
        self._matins.jobs["improvement_loop"] = service

    def set_reputation_services(self, scorer: Job, attestation: Callable[[JobRun, Any], Any]) -> None:
        """What the scorer finds is given to the attestation."""
        self._matins.jobs["reputation_attestation"] = lambda run: attestation(run, scorer(run))

    def resolve_approval(self, execution_id: str, approved: bool) -> ScheduleExecution | None:
        """Approve or deny; None where nothing is asked about such an execution."""
        run_id = _run_id(execution_id)
        run = None if run_id is None else self._matins.resolve_approval(run_id, approved)
        return None if run is None else self._shown(run)

    def get_execution(self, execution_id: str) -> ScheduleExecution | None:
        run_id = _run_id(execution_id)
        try:
            return None if run_id is None else self._shown(self._matins.get_run(run_id))
        except NotFound:
            return None

    def list_executions(self, schedule: Schedule, limit: int = 50) -> list[ScheduleExecution]:
        """The newest first."""
        shown = map(self._shown, newest_first(self._matins, schedule))
        return list(islice((execution for execution in shown if execution is not None), limit))

    def _shown(self, run: Run) -> ScheduleExecution | None:
        with self._matins._store.reading() as transaction:  # pyright: ignore[reportPrivateUsage] - no use case has it
            (said,) = transaction.definitions([(run.schedule_id, run.rev)])
        return _execution(run, said)

    def _event(self, event: dict[str, Any]) -> dict[str, Any]:
        told: dict[str, Any] = {"type": event["type"].removeprefix(PREFIX), "data": event["data"]}
        execution = self.get_execution(event.get("runid", ""))
        if execution is not None:
            told["execution"] = execution
            if told["type"] == "approval.requested" and told["data"]["kind"] == "run":
                told["type"] = "schedule_approval_request"
        return told


def _run_id(execution_id: str) -> int | None:
    """An id that none of ours can be is the id of nothing."""
    return int(execution_id) if execution_id.isascii() and execution_id.isdigit() and len(execution_id) < 19 else None
