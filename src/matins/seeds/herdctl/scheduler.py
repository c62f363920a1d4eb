"""herdctl's Scheduler on Matins' engine: a trigger is a run, its callback the job.

Each entry of an agent's file is a schedule in the store. `run_schedule` is what a trigger does with a prompt, a work
item and a job executor.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Unpack

from matins.api.results import Schedule
from matins.config.presets import PRESETS
from matins.engine.prompts import DEFAULT_PROMPT, WorkItem, with_item
from matins.engine.when.definitions import instant_text
from matins.engine.when.parse import parse_trigger
from matins.engine.when.triggers import to_ms
from matins.errors import Conflict, InvalidInput, MatinsError, NotFound, ScheduleTriggerError
from matins.executors.check_executor import awaited
from matins.executors.job_context import JobContext, NotBegun
from matins.executors.work_items import HeldWorkItem, NoWork, claim_item
from matins.library import Matins
from matins.model.clock import Clock
from matins.model.run import Outcome
from matins.runtime.catalog import CompiledSchedule
from matins.seeds.herdctl.states import STORE, get_schedule_state
from matins.seeds.herdctl.times import parse_cron_expression, parse_interval
from matins.seeds.herdctl.types import (
    UNTIMED,
    AgentEntry,
    Agents,
    AgentScheduleInfo,
    RunScheduleOptions,
    ScheduleEntry,
    SchedulerLogger,
    SchedulerState,
    SchedulerStatus,
    SchedulerTriggerCallback,
    ScheduleRunResult,
    TriggerInfo,
    TriggerMetadata,
)
from matins.seeds.run_views import each_item


@dataclass
class Trigger:
    """A trigger that is under way."""

    run: JobContext
    clock: Clock
    failed: str | None = None
    no_work: bool = False


current: ContextVar[Trigger | None] = ContextVar("trigger", default=None)


running: dict[Path, Scheduler] = {}
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
        held = None if source is None else claim_item(source, trigger.run.key, trigger.clock)
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


JOB = "herdctl"
"""The job of all schedules that a Scheduler makes: it calls `on_trigger`."""
_BY_FILE = "enabled: false in the agent's file"


class Planned(NamedTuple):
    agent: str
    name: str
    entry: ScheduleEntry
    when: str
    enabled: bool


class Fleet(Matins):
    """A Matins whose schedules are those of the agents that it is given."""

    def turns(self) -> tuple[int, int | None]:
        """How often the engine has checked what is due, and when last."""
        loop = self._loop
        if loop is None:
            return 0, None
        ago = self.clock.boot_ms() - loop.engine.turned_at
        return loop.engine.turns, self.clock.now_ms() - ago if loop.engine.turns else None

    def set_agents(self, agents: Iterable[AgentEntry]) -> None:
        """Add, change and delete schedules until they are those of these agents. Whatever stays the same keeps its next
        run, its state and its history. A schedule that was disabled stays so while its agent is away."""
        agents = list(agents)
        planned = {(each.agent, each.name): each for agent in agents for each in planned_of(agent)}
        schedules = each_item(lambda after: self.list(after=after))
        known = {(schedule.agent, schedule.name): schedule for schedule in schedules if schedule.job == JOB}
        for agent_name, name in known.keys() - planned.keys():
            schedule = known[agent_name, name]
            if schedule.state != "paused" or schedule.note == _BY_FILE:  # a person disabled the others
                self.delete(name, agent=agent_name)
        for agent in agents:
            self.limits.set(f"agent:{agent['name']}", size=max_concurrent(agent))
        for key, each in planned.items():
            self._set(each, known.get(key))

    def count_from(self, agent: str, name: str, at: int) -> None:
        """Count an interval from the end of a run that no clock started."""
        schedule = self.get(name, agent=agent)
        now, number = self.clock.now_ms(), int(schedule.id)
        with self._store.transaction(now) as transaction:
            transaction.lock_due([number])
            row = transaction.schedule(number)
            item = None if row is None else self._catalog.find(transaction, (number, row.rev, 0))
            if row is None or row.state != "active" or not isinstance(item, CompiledSchedule):
                return
            if item.timetable.from_completion:
                slot, due_at = item.timetable.after_completion(number, None, at)
                transaction.replace_cursor(number, slot, due_at, row.rev)
        self._service.core.notify()

    def _set(self, each: Planned, known: Schedule | None) -> None:
        before = None if known is None else known.settings.get("payload")
        times = self._times(each)
        if known is None:
            self.add(each.name, agent=each.agent, job=JOB, payload=dict(each.entry), **times)
        elif before != each.entry:
            moved = times if before is None or _times_changed(before, each) else {}
            self.edit(each.name, agent=each.agent, payload=dict(each.entry), **moved)
        paused = known is not None and known.state == "paused"
        if not each.enabled and not paused:
            self.pause(each.name, agent=each.agent, note=_BY_FILE)
        elif each.enabled and known is not None and paused and known.note == _BY_FILE:
            self.resume(each.name, agent=each.agent)

    def _times(self, each: Planned) -> dict[str, Any]:
        """When it is due, with herdctl's defaults."""
        when = parse_trigger(each.when, now_ms=self.clock.now_ms()).definition.when
        times = {"when": each.when, **PRESETS["herdctl"].settings_for(when)}
        # A schedule that is disabled must not be triggered between its insertion and its pause.
        return times if each.enabled or "first" not in times else {**times, "first": "after_interval"}


def planned_of(agent: AgentEntry) -> Iterable[Planned]:
    """The schedules of an agent that a clock triggers."""
    schedules: Mapping[str, ScheduleEntry] = agent.get("schedules") or {}
    for name, entry in schedules.items():
        if entry.get("type") not in UNTIMED:
            yield Planned(agent["name"], name, entry, _when(entry), entry.get("enabled") is not False)


def _times_changed(before: ScheduleEntry, each: Planned) -> bool:
    return _when(before) != each.when or (before.get("enabled") is not False) != each.enabled


def max_concurrent(agent: AgentEntry) -> int:
    instances: Mapping[str, Any] = agent.get("instances") or {}
    return instances.get("max_concurrent") or agent.get("max_concurrent") or 1


def _when(entry: ScheduleEntry) -> str:
    """The trigger of an entry, as Matins writes it."""
    kind = entry.get("type")
    spellings: dict[Any, tuple[tuple[str, ...], Callable[[str], Any]]] = {
        "interval": (("interval",), parse_interval),
        "cron": (("expression", "cron"), parse_cron_expression),
    }
    if kind not in spellings:
        allowed = "interval, cron, webhook, chat"
        raise InvalidInput(f'"type" must be {allowed}, not {kind!r}.', value=kind, field="type", allowed=allowed)
    names, parse = spellings[kind]
    text: str | None = next((entry[name] for name in names if entry.get(name)), None)
    if text is None:
        raise InvalidInput(f'A schedule of type {kind} needs "{names[0]}".', field=names[0], hint=f"{names[0]}: …")
    parse(text)
    return text.strip().lower() if kind == "interval" else text.strip()


class Scheduler:
    """Wakes agents by the schedules of their files. The state is a store in `state_dir`.

    `check_interval` is the longest time between two checks, in milliseconds; a schedule that is due is triggered at
    once. `on_trigger`, sync or async, is called for each trigger in a thread of its own; the schedule is running until
    it is done.
    """

    def __init__(
        self,
        *,
        state_dir: str | Path,
        check_interval: int = 1_000,
        logger: SchedulerLogger | None = None,
        on_trigger: SchedulerTriggerCallback | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._home = Path(state_dir).expanduser().absolute()
        self._check_interval = check_interval
        self._logger = logger or ConsoleLogger()
        self._on_trigger = on_trigger
        self._clock = clock
        self._status: SchedulerStatus = "stopped"
        self._agents: dict[str, AgentEntry] = {}
        self._fleet: Fleet | None = None
        self._counted = SchedulerState("stopped", None, 0, 0, None)
        self._triggers = 0
        self._jobs: Counter[str] = Counter()
        self._lock = threading.RLock()
        self._handlers: dict[int, SchedulerTriggerCallback] = {}
        self._started = threading.Event()
        """Set once a start is over: triggers wait for it."""

    # -- life

    def start(self, agents: Agents) -> None:
        """Start with these agents. When it runs already, nothing happens."""
        if self._status != "stopped":
            return
        self._started.clear()
        self._home.mkdir(parents=True, exist_ok=True)
        fleet = Fleet(f"sqlite:///{self._home / STORE}", clock=self._clock, check_interval_ms=self._check_interval)
        try:
            fleet.jobs[JOB] = self._run
            self._agents = _by_name(agents)
            fleet.set_agents(agents)
            self._fleet, self._triggers = fleet, 0  # before the start: the first trigger needs them
            fleet.start()
        except BaseException:
            self._started.set()
            self._fleet = None
            fleet.close()
            raise
        self._counted = SchedulerState("running", instant_text(fleet.clock.now_ms()), 0, 0, None)
        running[self._home] = self
        self._status = "running"
        self._started.set()
        self._logger.debug(f"Scheduler started with {len(agents)} agents, check interval: {self._check_interval}ms")

    def stop(self, *, wait_for_jobs: bool = True, timeout: int = 30_000) -> None:
        """Trigger nothing more, and wait up to `timeout` milliseconds for running jobs. Raises SchedulerShutdownError
        when jobs still run then."""
        fleet = self._fleet
        with self._lock:  # from now on nothing is triggered
            if self._status != "running" or fleet is None:
                return
            self._status = "stopping"
        self._logger.info("Scheduler stopping...")
        try:
            if wait_for_jobs and self.get_total_running_job_count():
                self._logger.info(f"Waiting for {self.get_total_running_job_count()} running job(s) to complete...")
            self._counted = self.get_state()
            fleet.stop(wait=wait_for_jobs, timeout=timeout / 1000)
        except MatinsError as error:
            self._logger.error(error.message)
            raise
        finally:
            running.pop(self._home, None)
            self._counted = self._counted._replace(trigger_count=self._triggers)
            self._status, self._fleet = "stopped", None
            fleet.close()
        self._logger.info("Scheduler stopped")

    def set_agents(self, agents: Agents) -> None:
        """Use these agents from now on, also while running. What stays the same continues."""
        if self._fleet is not None:
            self._fleet.set_agents(agents)
        self._agents = _by_name(agents)
        self._logger.debug(f"Updated agents list: {len(agents)} agents")

    # -- state

    def is_running(self) -> bool:
        """Whether it was started and not stopped."""
        return self._status == "running"

    def get_status(self) -> SchedulerStatus:
        """Stopped, running or stopping."""
        return self._status

    def get_state(self) -> SchedulerState:
        """The state with its counts, which begin with each start."""
        checks, at = self._fleet.turns() if self._fleet is not None else (0, None)
        last = None if at is None else instant_text(at)
        return self._counted._replace(
            status=self._status,
            check_count=max(checks, self._counted.check_count),
            trigger_count=self._triggers,
            last_check_at=last or self._counted.last_check_at,
        )

    def get_running_job_count(self, agent_name: str) -> int:
        """How many jobs of an agent run."""
        return self._jobs[agent_name]

    def get_total_running_job_count(self) -> int:
        """How many jobs run."""
        return self._jobs.total()

    def get_agent_schedule_info(self, agent_name: str) -> AgentScheduleInfo:
        """The schedules of an agent, how many of its jobs run, and how many may."""
        agent = self._agents.get(agent_name)
        if agent is None:
            known = ", ".join(self._agents) or "none"
            raise NotFound(
                f'There is no agent "{agent_name}".', value=agent_name, field="agent", hint=f"Known: {known}."
            )
        schedules: Mapping[str, ScheduleEntry] = agent.get("schedules") or {}
        return AgentScheduleInfo(agent, schedules, self._jobs[agent_name], max_concurrent(agent))

    # -- triggers

    async def _run(self, run: JobContext) -> Any:
        """The job of every schedule: one thread for each trigger, so that a long one delays no other."""
        done: Future[Any] = Future()
        done.set_running_or_notify_cancel()  # its thread sets the result, also after the job was cancelled
        threading.Thread(target=_complete, args=(done, lambda: self._trigger(run)), daemon=True).start()
        return await asyncio.wrap_future(done)

    def _trigger(self, run: JobContext) -> Any:
        self._started.wait()
        with self._lock:  # a manual start has registered its handler first
            fleet = self._fleet
            if self._status != "running" or fleet is None:
                raise NotBegun
            agent = self._agents.get(run.agent, {})
            if run.schedule not in (agent.get("schedules") or {}):  # it is kept because it was disabled
                raise NoWork(run.schedule)
            handler = self._handlers.pop(run.id, self._on_trigger)
            self._triggers += 1
            self._jobs[run.agent] += 1
        trigger = Trigger(run, fleet.clock)
        current.set(trigger)
        self._logger.info(f"Triggering {run.agent}/{run.schedule}")
        try:
            state = get_schedule_state(fleet, run.agent, run.schedule)
            info = TriggerInfo(agent, run.schedule, run.payload, state)
            return _checked(trigger, awaited(handler(info)) if handler is not None else None)
        except NoWork:
            raise
        except BaseException as error:
            self._logger.error(f"Error in schedule {run.agent}/{run.schedule}: {error}")
            raise
        finally:
            with self._lock:
                self._jobs[run.agent] -= 1

    def run_now(self, agent: str, schedule_name: str, handler: SchedulerTriggerCallback) -> str:
        """Start a run with this handler instead of `on_trigger`, and wait for its end. Returns the id of the run."""
        fleet = self._fleet
        if fleet is None:
            raise not_running(self._home)
        with self._lock:
            run = fleet.run(schedule_name, agent=agent)
            self._handlers[int(run.id)] = handler
        ended = fleet.runs.wait(run.id)
        if ended.started_at is not None and ended.ended_at is not None:
            fleet.count_from(agent, schedule_name, to_ms(ended.ended_at))
        return run.id


def _checked(trigger: Trigger, result: Any) -> Any:
    """The result; raises if a `run_schedule` of this trigger has failed or had no work."""
    if trigger.failed is not None:
        raise ScheduleTriggerError(trigger.run.agent, trigger.run.schedule, trigger.failed)
    if trigger.no_work:
        raise NoWork(trigger.run.schedule)
    return None if isinstance(result, ScheduleRunResult) else result


def _complete(done: Future[Any], function: Callable[[], Any]) -> None:
    try:
        done.set_result(function())
    except BaseException as error:
        done.set_exception(error)


def _by_name(agents: Agents) -> dict[str, AgentEntry]:
    return {agent["name"]: agent for agent in agents}
