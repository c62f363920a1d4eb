"""herdctl's Scheduler on Matins' engine: a trigger is a run, its callback the job."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from matins.engine.when.definitions import instant_text
from matins.engine.when.triggers import to_ms
from matins.errors import MatinsError, NotFound, ScheduleTriggerError
from matins.executors.check_executor import awaited
from matins.executors.job_context import JobContext, NotBegun
from matins.executors.work_items import NoWork
from matins.model.clock import Clock
from matins.seeds.herdctl.fleet import JOB, Fleet, max_concurrent
from matins.seeds.herdctl.runner import ConsoleLogger, Trigger, current, not_running, running
from matins.seeds.herdctl.states import STORE, get_schedule_state
from matins.seeds.herdctl.types import (
    AgentEntry,
    Agents,
    AgentScheduleInfo,
    ScheduleEntry,
    SchedulerLogger,
    SchedulerState,
    SchedulerStatus,
    SchedulerTriggerCallback,
    ScheduleRunResult,
    TriggerInfo,
)


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
        """Use these agents from now on, also while running. What stays the same goes on as it was."""
        if self._fleet is not None:
            self._fleet.set_agents(agents)
        self._agents = _by_name(agents)
        self._logger.debug(f"Updated agents list: {len(agents)} agents")

    # -- state

    def is_running(self) -> bool:
        return self._status == "running"

    def get_status(self) -> SchedulerStatus:
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
        return self._jobs[agent_name]

    def get_total_running_job_count(self) -> int:
        return self._jobs.total()

    def get_agent_schedule_info(self, agent_name: str) -> AgentScheduleInfo:
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
        with self._lock:  # whoever starts a run by hand has told its handler first
            fleet = self._fleet
            if self._status != "running" or fleet is None:
                raise NotBegun
            agent = self._agents.get(run.agent, {})
            if run.schedule not in (agent.get("schedules") or {}):  # it is kept because it was disabled
                raise NoWork(run.schedule)
            handler = self._handlers.pop(run.id, self._on_trigger)
            self._triggers += 1
            self._jobs[run.agent] += 1
        trigger = Trigger(run, run.key, fleet.clock)
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
