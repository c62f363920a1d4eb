"""Use cases on missions: schedules with steps."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matins.api.results import FilePlace, Mission, Run
from matins.engine.schedules import schedule_settings, trigger_source
from matins.engine.steps import MISSION_ABORTED, STEPS_JOB, deciding_run, is_draft, is_recurring, mission_status
from matins.engine.when.triggers import to_datetime
from matins.errors import Example, InvalidInput, NotFound
from matins.model.access import Principal
from matins.model.run import RunRecord, RunState
from matins.model.schedule import MissionStatus, ScheduleRecord
from matins.runtime.catalog import run_record, schedule_record
from matins.runtime.planner import live_runs
from matins.runtime.run_changes import end_runs
from matins.service.core import Core
from matins.service.run_views import run_result, whole_result
from matins.service.schedules import Schedules, file_places
from matins.store.transaction import Transaction

_PAGE = 100
_OF_THE_TIME = ("when", "ends_at", "max_executions")
"""Settings that a draft does not have."""


@dataclass(frozen=True)
class Missions:
    core: Core
    schedules: Schedules

    def make(
        self,
        principal: Principal,
        name: str | None = None,
        *,
        when: Any = None,
        agent: str = "",
        create_agent: bool = False,
        context: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Mission:
        if settings.get("steps") is None:
            hint = Example({"steps": [{"title": "Build", "prompt": "Build the release"}]})
            raise InvalidInput('A mission needs "steps".', field="steps", hint=hint)
        made = self.schedules.add(
            principal, name, when=when, agent=agent, create_agent=create_agent, context=context, **settings
        )
        with self.core.store.reading() as transaction:
            schedule = self.core.schedule(transaction, int(made.id))
            (mission,) = self._results(transaction, [schedule], notes=made.notes)
        return mission

    def list(
        self,
        principal: Principal,
        *,
        agent: str | None = None,
        status: MissionStatus | None = None,
        after: int | None = None,
        limit: int = 100,
    ) -> builtins.list[Mission]:
        found: builtins.list[Mission] = []
        cursor = after or 0
        with self.core.store.reading() as transaction:
            while len(found) < limit and (rows := transaction.schedules(cursor, agent, _PAGE)):
                missions = [record for row in rows if (record := schedule_record(row)).definition.steps]
                found += [one for one in self._results(transaction, missions) if status in (None, one.status)]
                cursor = rows[-1].id
        return found[:limit]

    def get(self, principal: Principal, name: str, *, agent: str | None = None) -> Mission:
        with self.core.store.reading() as transaction:
            (mission,) = self._results(transaction, [self._find(transaction, name, agent)], whole=True)
        return mission

    def draft(self, principal: Principal, name: str, *, agent: str | None = None) -> Mission:
        name, agent = self._key(name, agent)
        self._untime(principal, name, agent)
        return self._unpaused(principal, name, agent)

    def abort(self, principal: Principal, name: str, *, agent: str | None = None) -> Mission:
        """No new run starts once the time is away; then the runs end."""
        name, agent = self._key(name, agent)
        self._untime(principal, name, agent)
        now = self.core.clock.now_ms()
        with self.core.store.transaction(now) as transaction:
            schedule = self.core.schedule_for(transaction, principal, name, agent)
            live = [run for run, _ in live_runs(transaction, [schedule.id]).get(schedule.id, [])]
            end_runs(transaction, self.core.catalog, live, now, MISSION_ABORTED, principal.who)
        self.core.notify()
        return self._unpaused(principal, name, agent)

    def _untime(self, principal: Principal, name: str, agent: str) -> None:
        self.schedules.edit(principal, name, agent=agent, **dict.fromkeys(_OF_THE_TIME))

    def _unpaused(self, principal: Principal, name: str, agent: str) -> Mission:
        """The mission. A pause ends with the time that it held back."""
        mission = self.get(principal, name, agent=agent)
        if mission.status != "paused":
            return mission
        self.schedules.resume(principal, name, agent=agent)
        return self.get(principal, name, agent=agent)

    def delete(self, principal: Principal, name: str, *, agent: str | None = None) -> bool:
        try:
            name, agent = self._key(name, agent)
        except NotFound:
            return False
        return self.schedules.delete(principal, name, agent=agent)

    def _find(self, transaction: Transaction, name: str, agent: str | None) -> ScheduleRecord:
        schedule = self.core.find(transaction, name, agent)
        if schedule.definition.job != STEPS_JOB:
            hint = f"It is a schedule: matins show {name}"
            raise NotFound(f'"{name}" has no steps, so it is not a mission.', value=name, field="name", hint=hint)
        return schedule

    def _key(self, name: str, agent: str | None) -> tuple[str, str]:
        with self.core.store.reading() as transaction:
            schedule = self._find(transaction, name, agent)
        return schedule.name, schedule.agent

    def _results(
        self, transaction: Transaction, schedules: Sequence[ScheduleRecord], notes: Sequence[str] = (), *,
        whole: bool = False,
    ) -> builtins.list[Mission]:  # fmt: skip
        """The results; `whole`: the last runs have their steps."""
        ids = [schedule.id for schedule in schedules]
        live = live_runs(transaction, ids)
        newest = {row.schedule_id: run_record(row) for row in transaction.newest_runs(ids)}
        places = file_places(transaction, schedules)
        started = {row.schedule_id: run_record(row) for row in transaction.started_runs(ids)}
        made: builtins.list[Mission] = []
        for schedule in schedules:
            last, begun = newest.get(schedule.id), started.get(schedule.id)
            active = any(state >= RunState.STARTING for _, state in live.get(schedule.id, []))
            run = last and (whole_result(transaction, self.core.catalog, last) if whole else run_result(last))
            status = mission_status(schedule, deciding_run(last, begun), active=active)
            made.append(_result(schedule, status, last, begun, run, places.get(schedule.id), notes))
        return made


def _result(
    schedule: ScheduleRecord, status: MissionStatus, last: RunRecord | None, begun: RunRecord | None,
    run: Run | None, file: FilePlace | None, notes: Sequence[str],
) -> Mission:  # fmt: skip
    definition = schedule.definition
    return Mission(
        id=str(schedule.id),
        name=schedule.name,
        agent=schedule.agent,
        status=status,
        recurring=is_recurring(definition),
        when=None if is_draft(definition) else trigger_source(definition.trigger),
        ends_at=to_datetime(definition.ends_at),
        next_run_at=to_datetime(_next_run(schedule, last, begun)),
        last_run_at=to_datetime(begun and begun.started_at),
        last_run=run,
        steps=schedule_settings(definition)["steps"],
        note=schedule.note,
        created_at=to_datetime(schedule.created_at),
        file=file,
        notes=list(notes),
    )


def _next_run(schedule: ScheduleRecord, *runs: RunRecord | None) -> int | None:
    """The next slot, or the time of a run that is ready, such as a retry."""
    if schedule.state == "active" and schedule.next_slot is not None:
        return schedule.next_slot
    return next((run.not_before for run in runs if run is not None and run.state is RunState.READY), None)
