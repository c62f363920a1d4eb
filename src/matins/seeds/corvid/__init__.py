"""corvid-agent's scheduler service: how often a schedule may fire, its safety rails, its executions; its importer.

Each row of agent_schedules is a schedule, and several actions are its steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, NamedTuple, Unpack, cast

import orjson
from msgspec import structs

from matins.api._types import ScheduleSettings
from matins.api.results import Run, Schedule, Snapshot
from matins.api.schedules import Api
from matins.app import parse_trigger, trigger_from_dict
from matins.config.presets import PRESETS
from matins.engine.events import PREFIX
from matins.engine.notify_addresses import KIND as ALGORAND
from matins.engine.notify_addresses import (
    NO_ADDRESS,
    NOTIFY_ADDRESS,
    address_in,
    check_address,
    fix_for,
    is_address,
    nothing_sent,
)
from matins.engine.when.cron import parse_cron
from matins.engine.when.definitions import instant_text
from matins.engine.when.durations import format_duration, parse_duration
from matins.engine.when.triggers import Trigger, to_ms
from matins.errors import CronParseError, IntervalParseError, InvalidInput, NotFound
from matins.executors.job_context import JobContext
from matins.executors.python import Job
from matins.executors.registry import installed_jobs
from matins.importers.entries import (
    Cron,
    Every,
    Imported,
    ImportEntry,
    Importer,
    OldTimes,
    Row,
    read_schedules,
    slug,
    with_preset,
)
from matins.library import Matins
from matins.model.run import GatesPassed
from matins.model.schedule import ApprovalPolicy
from matins.seeds.run_views import error_of, newest_first, text_of

SOURCE = "corvid"
TABLE = "agent_schedules"


def read(path: str, zone: str) -> Imported:
    names: set[str] = set()
    return read_schedules(
        SOURCE, path, TABLE, f"{TABLE} {{id}}", lambda row, origin: _schedule(row, origin, zone, names)
    )


def _schedule(row: Row, origin: str, zone: str, names: set[str]) -> ImportEntry:
    if row.get("status") == "completed":
        raise InvalidInput("it is completed.", value=row["status"], field="status")
    when, old = _when(row, zone)
    name = slug(row["name"], names, "schedule")
    address: str | None = row.get(NOTIFY_ADDRESS)
    settings = {
        "agent": row["agent_id"],
        "description": row.get("description") or None,
        "timezone": zone,
        **actions_settings(row.json("actions") or ()),
        "approval": row.get("approval_policy") or "owner_approve",
        "max_executions": _left(row),
        "labels": {NOTIFY_ADDRESS: address} if address else None,
    }
    paused = row.get("status") == "paused"
    notes = _about_address(address) if address else ()
    return ImportEntry("schedule", name, with_preset("corvid", when, settings), origin, old, paused, notes)


def _about_address(address: str) -> tuple[str, ...]:
    if not is_address(address):
        return (f"Nothing is sent to {address}: it {NO_ADDRESS}.",)
    return (f"Its notify_address hears of it by a destination of kind algorand: {fix_for(address)}",)


def actions_settings(actions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A schedule with one action has a job; with several, a step for each, side by side."""
    parts: list[dict[str, Any]] = [
        {"job": action["type"], "payload": {key: value for key, value in action.items() if key != "type"}}
        for action in actions
    ]
    if len(parts) == 1:
        return parts[0]
    if not parts:
        raise InvalidInput("A schedule needs an action.", field="actions", hint='actions=[{"type": "star_repo", …}]')
    titles: set[str] = set()
    for part in parts:
        part["title"] = slug(part["job"], titles, "action")
        titles.add(part["title"])
    return {"steps": parts}


def _when(row: Row, zone: str) -> tuple[str, OldTimes]:
    if row.get("cron_expression"):
        return row["cron_expression"], Cron(row["cron_expression"], zone, both_days=True)
    if not row.get("interval_ms"):
        raise InvalidInput("it has neither cron_expression nor interval_ms.", field="cron_expression")
    return f"{row['interval_ms']}ms", Every(row["interval_ms"])


def _left(row: Row) -> int | None:
    """How often it may still run."""
    most = row.get("max_executions")
    return None if most is None else max(1, most - (row.get("execution_count") or 0))


IMPORTER = Importer("Import the database of corvid-agent, or its rows as JSON.", read)


PRESET = PRESETS["corvid"]
POLL_INTERVAL_MS = 30_000
"""The longest sleep between two checks; it never adds a delay."""
MIN_SCHEDULE_INTERVAL_MS = parse_duration(PRESET.min_interval or "")
MAX_CONCURRENT_EXECUTIONS = PRESET.limits["global"]
MAX_CONSECUTIVE_FAILURES: int = PRESET.settings["pause_after_failures"]
ExecutionStatus = Literal[
    "pending", "running", "awaiting_approval", "completed", "failed", "approved", "denied", "cancelled"
]
_STATUSES: Mapping[str, ExecutionStatus] = {
    "waiting": "pending",
    "queued": "pending",
    "ready": "pending",
    "running": "running",
    "held": "running",
    "succeeded": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
    "interrupted": "failed",
    "unknown": "failed",
    "over_budget": "failed",
    "denied": "denied",
    "expired": "denied",
}
_NOWHERE = instant_text(0)
"""The origin of an interval that counts from its starts: it has no effect."""


def validate_schedule_frequency(
    cron_expression: str | None = None,
    interval_ms: int | None = None,
    *,
    minimum_ms: int = MIN_SCHEDULE_INTERVAL_MS,
) -> None:
    """Refuse what fires more often than the minimum, by the smallest gap of its whole cycle."""
    if cron_expression is not None:
        _check_length(_smallest_gap(cron_expression), cron_expression, minimum_ms)
    if interval_ms is not None:
        _check_length(interval_ms, interval_ms, minimum_ms)


def _smallest_gap(expression: str) -> int:
    try:
        parse_cron(expression)
        PRESET.check_fields(expression, parse_trigger(expression).definition.when)
    except CronParseError as error:
        raise CronParseError(
            f"Invalid cron expression: {error.message.removeprefix('Invalid cron expression ')}",
            value=expression,
            field=error.field,
            hint=error.hint,
        ) from error
    gap = parse_trigger(expression).smallest_gap()
    assert gap is not None
    return round(gap.total_seconds() * 1000)


def _check_length(gap_ms: int, value: object, minimum_ms: int) -> None:
    if gap_ms < minimum_ms:
        gap, minimum = format_duration(gap_ms), format_duration(minimum_ms)
        raise IntervalParseError(
            f"Schedule interval too short: {value} fires as often as every {gap}; the minimum is {minimum}",
            value=value,
            allowed=f"{minimum} or more",
            hint=f"Use at least {minimum}.",
        )


def create_schedule(
    m: Api,
    name: str,
    *,
    agent_id: str,
    action_type: str | None = None,
    action_input: Mapping[str, Any] | None = None,
    actions: Sequence[Mapping[str, Any]] = (),
    cron_expression: str | None = None,
    interval_ms: int | None = None,
    approval_policy: ApprovalPolicy = "owner_approve",
    project_id: str | None = None,
    notify_address: str | None = None,
    **settings: Unpack[ScheduleSettings],
) -> Schedule:
    """A schedule with the seed's safety rails: one action, or `actions`, which are steps side by side. `settings` are
    Matins' own, such as `max_executions`. `notify_address` hears of the schedule by the destination of kind `algorand`
    that sends to it. Where there is none, the notes of the result say that nothing is sent."""
    validate_schedule_frequency(cron_expression, interval_ms)
    told = () if notify_address is None else _destinations(m, notify_address)
    trigger = _trigger(cron_expression, interval_ms)
    links = {"project_id": project_id, NOTIFY_ADDRESS: notify_address}
    preset = PRESET.settings_for(trigger.definition.when)
    one = () if action_type is None else ({"type": action_type, **(action_input or {})},)
    given: ScheduleSettings = {
        **cast("ScheduleSettings", actions_settings((*one, *actions))),
        "approval": approval_policy,
        "pause_after_failures": preset["pause_after_failures"],
        "catch_up": preset["catch_up"],
        "grace": preset["grace"],
        "failure_backoff": preset["failure_backoff"],
        "missing_job": preset["missing_job"],
        "labels": {name: value for name, value in links.items() if value is not None} or None,
        **settings,
    }
    if told and "notify" not in given:
        given["notify"] = told
    made = m.add(name, when=trigger, agent=agent_id, **given)
    if notify_address is None or told or settings.get("notify"):
        return made
    note = f"{nothing_sent(notify_address)} Set one: {fix_for(notify_address)}"
    return structs.replace(made, notes=[*made.notes, note])


def _destinations(m: Api, address: str) -> tuple[str, ...]:
    """The destinations that send to this address. Only the owner sets one: each message costs a fee."""
    check_address(address, NOTIFY_ADDRESS)
    return tuple(found.name for found in m.destinations.list() if found.kind == ALGORAND and found.to == [address])


def _trigger(cron_expression: str | None, interval_ms: int | None) -> Trigger:
    if cron_expression is not None and interval_ms is None:
        return parse_trigger(cron_expression)
    if interval_ms is None or cron_expression is not None:
        raise InvalidInput(
            "A schedule needs either a cron expression or an interval.",
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
    """The settings of the schedule when the run was made; later edits do not touch it."""
    status: ExecutionStatus
    session_id: str | None
    """The conversation of the agent, where an agent was woken."""
    work_task_id: str | None
    """The work item or work task, where there is one."""
    result: str | None
    started_at: str
    completed_at: str | None


def _execution(run: Run, snapshot: Snapshot, status: ExecutionStatus) -> ScheduleExecution:
    then = {"name": snapshot.schedule, "agent": snapshot.agent, "job": snapshot.job}
    return ScheduleExecution(
        id=run.id,
        schedule_id=run.schedule_id,
        agent_id=snapshot.agent,
        action_type=snapshot.job,
        action_input=snapshot.payload,
        config_snapshot={**then, **snapshot.settings},
        status=status,
        session_id=_link(run, "session"),
        work_task_id=_link(run, "job", "work_task_id") or _link(run, "work_task_id") or _link(run, "work", "item"),
        result=_result(run),
        started_at=instant_text(to_ms(run.started_at or run.planned_at)),
        completed_at=text_of(run.ended_at),
    )


def _result(run: Run) -> str | None:
    """What it gave back, or why there is nothing; None until it is over."""
    if run.state != "succeeded":
        return None if run.live else error_of(run)
    outcome: dict[str, Any] = run.outcome or {}
    document = outcome.get("result")
    return document if document is None or isinstance(document, str) else orjson.dumps(document).decode()


def _link(run: Run, *path: str) -> str | None:
    """A value inside the result of a run, as text."""
    outcome: dict[str, Any] = run.outcome or {}
    found: Any = outcome.get("result")
    for name in path:
        found = cast("dict[str, Any]", found).get(name) if isinstance(found, dict) else None
    return None if found is None else str(found)


# -- schedules


@dataclass(frozen=True, slots=True)
class AgentSchedule:
    """A schedule as a row of agent_schedules."""

    id: str
    name: str
    description: str
    agent_id: str
    project_id: str | None
    cron_expression: str | None
    interval_ms: int | None
    actions: tuple[dict[str, Any], ...]
    approval_policy: ApprovalPolicy
    max_executions: int | None
    execution_count: int
    notify_address: str | None
    status: Literal["active", "paused", "completed"]
    consecutive_failures: int
    last_run_at: str | None
    next_run_at: str | None
    created_at: str
    updated_at: str


def _action(part: dict[str, Any]) -> dict[str, Any]:
    payload: dict[str, Any] = part.get("payload") or {}
    return {"type": part["job"], **payload}


def agent_schedule(schedule: Schedule) -> AgentSchedule:
    """The row of a schedule: every column of the seed, from what Matins holds."""
    settings, trigger = schedule.settings, schedule.trigger
    parts = cast("list[dict[str, Any]]", settings.get("steps") or [{"job": schedule.job, **settings}])
    actions = tuple(_action(part) for part in parts)
    ended = schedule.state not in ("active", "paused", "pending")
    return AgentSchedule(
        id=schedule.id,
        name=schedule.name,
        description=schedule.description or "",
        agent_id=schedule.agent,
        project_id=schedule.labels.get("project_id"),
        cron_expression=trigger.get("expression"),
        interval_ms=trigger.get("every_ms"),
        actions=actions,
        approval_policy=settings.get("approval", "auto"),
        max_executions=schedule.max_executions,
        execution_count=schedule.executions,
        notify_address=address_in(schedule.labels),
        status="completed" if ended else "active" if schedule.state == "active" else "paused",
        consecutive_failures=schedule.failures,
        last_run_at=text_of(schedule.last_run_at),
        next_run_at=text_of(schedule.next_run_at),
        created_at=instant_text(to_ms(schedule.created_at)),
        updated_at=instant_text(to_ms(schedule.updated_at)),
    )


# -- the service


class SchedulerStats(NamedTuple):
    running: bool
    active_schedules: int
    paused_schedules: int
    running_executions: int
    max_concurrent: int
    recent_failures: int


BUILT_IN = "built in"
"""The service that comes with Matins."""
Service = Job | Literal["built in"] | None
"""A function that is called with the execution; None: it is not available, and executions that need it fail."""


class SchedulerService:
    """The seed's methods over a `Matins`, at most two executions at once unless another limit is set.

    As in the seed, a service that was not given is not available: its executions fail with a sentence that says so.
    """

    def __init__(self, matins: Matins, work_task_service: Service = None, agent_messenger: Service = None) -> None:
        self._matins = matins
        self._attach("work_task", work_task_service)
        self._attach("send_message", agent_messenger)
        self._attach("improvement_loop", None)
        self._attach("reputation_attestation", None)

    def _attach(self, action: str, service: Service) -> None:
        """Use the service for an action, unless the program has its own job for that."""
        names = installed_jobs()[action].services
        self._matins.services.update(dict.fromkeys(names))
        if service is not None:
            for name in names:
                del self._matins.services[name]
            if service != BUILT_IN:
                self._matins.jobs[action] = service

    def start(self) -> None:
        """The first tick is immediate. When it runs already, nothing happens."""
        if self._matins.system.stats().max_concurrent is None:
            self._matins.limits.set("global", size=MAX_CONCURRENT_EXECUTIONS)
        self._matins.start()

    def stop(self) -> None:
        """Start nothing new, and wait for what runs."""
        self._matins.stop()

    def get_stats(self) -> SchedulerStats:
        """The six figures. The limit is known before the start, which sets it."""
        stats = self._matins.system.stats()
        figures = SchedulerStats(*(getattr(stats, name) for name in SchedulerStats._fields))
        return figures._replace(max_concurrent=figures.max_concurrent or MAX_CONCURRENT_EXECUTIONS)

    def on_event(self, callback: Callable[[dict[str, Any]], object]) -> Callable[[], None]:
        """Call a function for each event from now on. Returns a function that ends it."""
        return self._matins.subscribe(lambda event: callback(self._event(event)))

    # Services that come late: until then, executions that need them fail.

    def set_agent_messenger(self, messenger: Service) -> None:
        """Called with the execution for each `send_message`, also when the scheduler runs already."""
        self._attach("send_message", messenger)

    def set_improvement_loop_service(self, service: Service) -> None:
        """Called with the execution for each `improvement_loop`."""
        self._attach("improvement_loop", service)

    def set_reputation_services(
        self, scorer: Service, attestation: Callable[[JobContext, Any], Any] | None = None
    ) -> None:
        """Pass the result of the scorer to the attestation."""
        if attestation is None or not callable(scorer):
            self._attach("reputation_attestation", scorer)
        else:
            self._attach("reputation_attestation", lambda run: attestation(run, scorer(run)))

    def resolve_approval(self, execution_id: str, approved: bool) -> ScheduleExecution | None:
        """Approve or deny. None if the execution has no open approval."""
        run_id = _run_id(execution_id)
        run = None if run_id is None else self._matins.approvals.answer(run_id, approved)
        return None if run is None else self._shown(run)

    def get_execution(self, execution_id: str) -> ScheduleExecution | None:
        """One execution; None when there is none with this id."""
        run_id = _run_id(execution_id)
        try:
            return None if run_id is None else self._shown(self._matins.runs.get(run_id))
        except NotFound:
            return None

    def list_executions(self, schedule: Schedule, limit: int = 50) -> list[ScheduleExecution]:
        """The newest first. An action of several has an execution of its own."""
        runs = (run for whole in newest_first(self._matins, schedule) for run in self._actions(whole, schedule))
        shown = map(self._shown, runs)
        return list(islice((execution for execution in shown if execution is not None), limit))

    def _actions(self, run: Run, schedule: Schedule) -> Iterator[Run]:
        if not schedule.settings.get("steps"):
            yield run
            return
        for step in self._matins.runs.get(run.id).steps:
            if step.run_id is not None:
                yield self._matins.runs.get(step.run_id)

    def _shown(self, run: Run) -> ScheduleExecution | None:
        """None of a slot that came to no execution: skipped, missed or blocked."""
        status = self._status(run)
        return None if status is None else _execution(run, self._matins.runs.snapshot(run.id), status)

    def _status(self, run: Run) -> ExecutionStatus | None:
        if run.status == "awaiting_approval":
            return "awaiting_approval"
        status = _STATUSES.get(run.state)
        return "approved" if status == "pending" and self._approved(run) else status

    def _approved(self, run: Run) -> bool:
        """Whether it has passed its approval; no use case has this."""
        with self._matins.store.reading() as transaction:
            row = transaction.run(int(run.id))
        return row is not None and bool(row.cleared & GatesPassed.APPROVED)

    def _event(self, event: dict[str, Any]) -> dict[str, Any]:
        document: dict[str, Any] = {"type": event["type"].removeprefix(PREFIX), "data": event["data"]}
        execution = self.get_execution(event.get("runid", ""))
        if execution is not None:
            document["execution"] = execution
            if document["type"] == "approval.requested" and document["data"]["kind"] == "run":
                document["type"] = "schedule_approval_request"
        return document


def _run_id(execution_id: str) -> int | None:
    """An id that none of ours can be is the id of nothing."""
    return int(execution_id) if execution_id.isascii() and execution_id.isdigit() and len(execution_id) < 19 else None
