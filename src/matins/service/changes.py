"""What was changed of a schedule, by whom and when; and back to earlier settings."""

from __future__ import annotations

import builtins
import shlex
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from typing import Any, cast

from matins.api.results import Change, Run, RunDifference, Schedule, SettingChange, Snapshot
from matins.engine.audit import token_digest
from matins.engine.jobs import SHELL
from matins.engine.money import format_money
from matins.engine.schedules import decode
from matins.engine.steps import with_agent_renamed
from matins.engine.validation import check_name, nearest
from matins.engine.when.durations import format_duration
from matins.engine.when.triggers import to_datetime
from matins.errors import Conflict, ManagedByFile, NotAllowed, NotFound
from matins.model.access import Principal, name_of
from matins.model.agent import Agent
from matins.model.rows import NewEvent, RevisionRow
from matins.model.run import RunState, StepId
from matins.model.schedule import ScheduleRecord
from matins.model.selector import RunFilter
from matins.model.words import counted
from matins.records import kinds_by_name
from matins.records.agents import AGENT_RULES, AGENTS, agent_renamed_in
from matins.records.kind import POLICIES, RecordChange
from matins.records.limits import scope_of
from matins.records.people import check_agent_name
from matins.runtime.agent_folders import own_folder
from matins.runtime.catalog import schedule_record
from matins.runtime.planner import live_runs
from matins.service.core import MAX_ID, Core
from matins.service.file.write_back import Renamed, managed_by_file
from matins.service.previews import differences
from matins.service.records import Records
from matins.service.runs import Runs
from matins.service.schedules import Schedules, check_revision, edits_between, schedule_result
from matins.store.transaction import Transaction


@dataclass(frozen=True)
class Changes:
    core: Core
    schedules: Schedules

    def history(
        self, principal: Principal, name: str, *, agent: str | None = None, limit: int = 100
    ) -> builtins.list[Change]:
        with self.core.store.reading() as transaction:
            schedule = self.core.find(transaction, name, agent, deleted=True)
            rows = transaction.history(schedule.id, MAX_ID, limit + 1)
        first = [] if len(rows) > limit else [_change(rows[-1], None)]
        return [*(_change(row, before) for row, before in pairwise(rows)), *first]

    def undo(
        self,
        principal: Principal,
        name: str,
        *,
        to: int | None = None,
        agent: str | None = None,
        if_rev: int | None = None,
    ) -> Schedule:
        with self.core.store.reading() as transaction:
            schedule = self.core.schedule_for(transaction, principal, name, agent, lock=False)
            check_revision(schedule, if_rev)
            rows = {row.rev: row for row in transaction.history(schedule.id, MAX_ID, MAX_ID)}
        earlier = [rev for rev in rows if rev < schedule.rev]
        hint = f"List its changes: matins history {schedule.name}"
        if to is None and not earlier:
            message = f'"{schedule.name}" has its first settings: there is nothing to undo.'
            raise Conflict(message, value=schedule.name, field="name", hint=hint)
        rev = max(earlier) if to is None else to
        if rev not in rows or rev == schedule.rev:
            has = "has" if rev == schedule.rev else "never had"
            message = f'"{schedule.name}" {has} the settings of revision {rev}.'
            raise NotFound(message, value=rev, field="to", hint=hint)
        edits = edits_between(schedule.definition, decode(rows[rev].definition))
        if not edits:
            message = f"Revision {rev} has the same settings."
            raise Conflict(message, value=rev, field="to", hint=hint)
        return self.schedules.edit(principal, schedule.name, agent=schedule.agent, if_rev=schedule.rev, **edits)

    def rename(self, principal: Principal, name: str, to: str, *, agent: str | None = None) -> Schedule:
        now, core = self.core.clock.now_ms(), self.core
        check_name("to", to, "nightly-report")
        results: builtins.list[Schedule] = []

        def lock(transaction: Transaction) -> None:
            schedule = core.schedule_for(transaction, principal, name, agent, lock=False)
            if schedule.name == to:
                raise Conflict(f'"{to}" has this name already.', value=to, field="to", hint="Use another name.")
            numbers = [schedule.id, *self.schedules.changes.followers(transaction, schedule)]
            transaction.lock_due(sorted(numbers))
            self._check_holders(transaction, principal, schedule)

        def in_store(transaction: Transaction) -> None:
            schedule = core.schedule_for(transaction, principal, name, agent)
            followers = self.schedules.changes.rename(transaction, principal, schedule, to, now)
            notes = [f"Renamed in {counted(followers, 'schedule')} that follow it."] if followers else []
            results[:] = [schedule_result(transaction, core.schedule(transaction, schedule.id), notes)]

        with core.store.reading() as transaction:
            found = core.find(transaction, name, agent)
        key = f"{found.agent}/{found.name}"
        self.schedules.writer.change(principal, "schedule", key, now, in_store, Renamed(to), lock)
        return results[0] if results else self.schedules.get(principal, to, agent=found.agent)

    def undelete(
        self,
        principal: Principal,
        name: str,
        *,
        agent: str | None = None,
        new_name: str | None = None,
        resume: bool = False,
    ) -> Schedule:
        now, core, changes = self.core.clock.now_ms(), self.core, self.schedules.changes
        to = name if new_name is None else check_name("new_name", new_name, "nightly-2")
        with core.store.transaction(now) as transaction:
            if transaction.schedules_called(name, agent) and new_name is None:
                hint = f"Give it another name: matins undelete {name} --as {name}-2"
                raise Conflict(f'There is a schedule "{name}" already.', value=name, field="name", hint=hint)
            gone = transaction.deleted_called(name, agent)
            if not gone:
                hint = "List them: matins list --deleted"
                raise NotFound(f'There is no deleted schedule "{name}".', value=name, field="name", hint=hint)
            schedule = schedule_record(gone[0])
            transaction.lock_due([schedule.id])
            core.check_may_change(principal, schedule, to_delete=True)
            trigger = core.compiled(transaction, schedule).timetable.trigger
            changes.proposals.check_edit(transaction, principal, schedule, schedule.definition, trigger, now)
            if new_name is not None:
                changes.rename(transaction, principal, schedule, to, now)
            changes.undelete(transaction, principal, core.schedule(transaction, schedule.id), now)
            schedule = core.schedule(transaction, schedule.id)
            if resume and schedule.state == "paused":
                changes.resume(transaction, principal, schedule, now)
            result = schedule_result(transaction, core.schedule(transaction, schedule.id))
        core.notify()
        return result

    def _check_holders(self, transaction: Transaction, principal: Principal, schedule: ScheduleRecord) -> None:
        """Raise if the principal may not change what follows the schedule, or a file defines what holds its name."""
        full = f"{schedule.agent}/{schedule.name}"
        own = transaction.file_entry("schedule", full)
        holders = [("budget", one.name) for one in self.core.catalog.policies(transaction).budgets if one.of == full]
        for number in self.schedules.changes.followers(transaction, schedule):
            follower = self.core.schedule(transaction, number)
            self.core.check_may_change(principal, follower)
            holders.append(("schedule", f"{follower.agent}/{follower.name}"))
        for kind, name in holders:
            entry = transaction.file_entry(kind, name)
            if entry is not None and own is None:
                shown = name.removeprefix("/")
                message = f'"{shown}" in {entry.path} (line {entry.line}) names "{schedule.name}".'
                raise ManagedByFile(message, value=entry.path, field="name", hint="Change it there first.")


@dataclass(frozen=True)
class AgentNames:
    core: Core
    schedules: Schedules
    records: Records

    def rename(self, principal: Principal, name: str, to: str) -> Any:
        AGENTS.check_key(to)
        now, core = self.core.clock.now_ms(), self.core
        with core.store.transaction(now) as transaction:
            policies = core.catalog.policies(transaction)
            if name not in policies.agents:
                hint = nearest(name, sorted(policies.agents)) or "List them: matins agents"
                raise NotFound(f'There is no agent "{name}".', value=name, field="name", hint=hint)
            if to in policies.agents:
                raise Conflict(f'There is an agent "{to}" already.', value=to, field="to", hint="Use another name.")
            if SHELL in (name, to):
                message = f'Commands without an agent run as "{SHELL}": it keeps its name.'
                raise Conflict(message, value=name, field="name", hint="Make another agent for them.")
            own = transaction.schedules_of(name)
            others = [
                one
                for one in core.all_schedules(transaction)
                if any(step.agent == name for step in one.definition.steps)
            ]
            followers = [number for source, number in transaction.pipelines() if source in own]
            transaction.lock_due(sorted({*own, *followers, *(each.id for each in others)}))
            transaction.lock_policies()
            _check_not_of_file(transaction, "agent", name)
            _check_not_of_file(transaction, "limit", scope_of(name))
            for schedule in [core.schedule(transaction, number) for number in {*own, *followers}] + others:
                _check_not_of_file(transaction, "schedule", f"{schedule.agent}/{schedule.name}")
            for schedule in others:
                for run, _ in live_runs(transaction, [schedule.id]).get(schedule.id, [])[:1]:
                    message = f'Run {run} of "{schedule.name}" has steps of {name}, and has not ended.'
                    raise Conflict(message, value=name, field="name", hint=f"Wait for it, or: matins cancel {run}")
            self._move(transaction, principal, policies.agents[name], to, now)
            for number in own:
                schedule = core.schedule(transaction, number)
                self.schedules.changes.rename(transaction, principal, schedule, schedule.name, now, to)
            for schedule in others:
                if schedule.id not in own:
                    definition = with_agent_renamed(schedule.definition, name, to)
                    trigger = core.compiled(transaction, schedule).timetable.trigger
                    self.schedules.changes.revise(transaction, principal, schedule, definition, trigger, ["steps"], now)
            states = transaction.move_scope(scope_of(name), scope_of(to))
            if any(RunState.STARTING <= state < RunState.HELD for state in states):
                hint = f"Wait, or pause its schedules first: matins pause --agent {shlex.quote(name)}"
                raise Conflict(f"{name} is running.", value=name, field="name", hint=hint)
            self._move_records(transaction, principal, name, to, now)
            transaction.delete_policy(AGENTS.kind, name)
            gone = {"kind": AGENTS.kind, "name": name, **principal.signed}
            transaction.events.append(NewEvent(now, "policy.deleted", None, None, gone))
        core.notify()
        return self.records.result(AGENTS, principal, to)

    def _move(self, transaction: Transaction, principal: Principal, agent: Agent, to: str, now: int) -> None:
        """Put the agent under its new name, with what it said, spent and may do. Its folder stays."""
        name, changes = agent.name, self.records.changes
        policies = self.core.catalog.policies(transaction)
        check_agent_name(replace(agent, name=to), None, RecordChange(transaction, principal, policies, now))
        spoke = transaction.rename_threads(name, to)
        folder = own_folder(name) if spoke and agent.workdir is None else agent.workdir
        changes.put(transaction, principal, AGENTS, to, replace(agent, name=to, workdir=folder), now)
        transaction.rename_spending(name, to)
        transaction.merge_purses(scope_of(name), scope_of(to))
        transaction.drop_purses(scope_of(name))
        transaction.rename_reservations(scope_of(name), scope_of(to))
        transaction.rename_one_shots(name, to)
        transaction.rename_sessions(name, to)
        for token_id in transaction.rename_tokens(name, to):
            token = transaction.token(token_id)
            assert token is not None, token_id
            data = {"token": token_id, "was": name, "name": to, **principal.signed, "digest": token_digest(token)}
            transaction.events.append(NewEvent(now, "token.renamed", None, None, data))
        size = len([number for number in transaction.rename_scope(scope_of(name), scope_of(to)) if number > 0])
        if size:
            for scope, units in ((scope_of(name), 0), (scope_of(to), size)):
                limited = {"scope": scope, "size": units, **principal.signed}
                transaction.events.append(NewEvent(now, "limit.set", None, None, limited))

    def _move_records(self, transaction: Transaction, principal: Principal, name: str, to: str, now: int) -> None:
        """Write the new name into the records that hold it: rules, budgets, grants and channels."""
        changes = self.records.changes
        for kind in kinds_by_name().values():
            for key, value in changes.read(transaction, kind).items() if kind.storage is POLICIES else ():
                renamed = agent_renamed_in(value, name, to)
                if renamed == value:
                    continue
                _check_not_of_file(transaction, kind.kind, key)
                now_key = to if kind is AGENT_RULES else key
                changes.put(transaction, principal, kind, now_key, renamed, now)
                if now_key != key:
                    changes.delete(transaction, principal, kind, key, now)


def _check_not_of_file(transaction: Transaction, kind: str, name: str) -> None:
    entry = transaction.file_entry(kind, name)
    if entry is not None:
        raise managed_by_file(entry)


def _change(row: RevisionRow, before: RevisionRow | None) -> Change:
    settings = [] if before is None else differences(decode(before.definition), decode(row.definition))
    if before is not None and before.name != row.name:
        settings.insert(0, SettingChange("name", before.name, row.name))
    return Change(row.rev, to_datetime(row.at), name_of(row.author), settings)


@dataclass(frozen=True)
class Comparisons:
    core: Core
    runs: Runs

    def diff(self, principal: Principal, run_id: int | StepId, *, other: int | StepId | None = None) -> RunDifference:
        with self.core.store.reading() as transaction:
            run = self.core.run(transaction, run_id)
            if other is None:
                only = RunFilter(run.schedule_id, states=1 << RunState.SUCCEEDED)
                rows = transaction.listed_runs(only, run.id, 1)
                if not rows:
                    hint = f"Name another run: matins diff {run.id} RUN"
                    message = f'"{run.schedule}" had no success before run {run.id}.'
                    raise NotFound(message, value=str(run.id), field="other", hint=hint)
                other = rows[0].id
            limited = self.core.limited_reader(principal, transaction) is not None
            if limited and self.core.run(transaction, other).schedule_id != run.schedule_id:
                hint = "Compare runs of one schedule."
                raise NotAllowed(f"Run {other} is of another schedule.", value=other, field="other", hint=hint)
        found = [(self.runs.get(principal, one), self.runs.snapshot(principal, one)) for one in (other, run_id)]
        before, after = (_facts(*each) for each in found)
        names = dict.fromkeys([*before, *after])
        changes = [(name, before.get(name), after.get(name)) for name in names]
        different = [SettingChange(*change) for change in changes if change[1] != change[2]]
        return RunDifference(found[0][0], found[1][0], different)


def _facts(run: Run, then: Snapshot) -> dict[str, Any]:
    """What two runs are compared by, under the names that people read."""
    outcome: dict[str, Any] = run.outcome or {}
    result: Any = outcome.get("result")
    report = cast("dict[str, Any]", result) if isinstance(result, dict) and "executed" in result else {}
    money: dict[str, Any] = report.get("money") or {}
    settings = {name: value for name, value in then.settings.items() if name not in ("prompt", "job", "payload")}
    facts: dict[str, Any] = {
        "schedule": run.schedule, "agent": then.agent, "job": then.job, **settings, "prompt": then.prompt,
        "input": then.input, "model": report.get("model") or run.model, "effort": run.effort, "state": run.state,
        "reason": run.reason, **{f"step {step.number} ({step.title})": step.state for step in run.steps},
        "answer": report.get("text") if report else result, "error": outcome.get("error"),
        "cost": format_money(money["micro_dollars"]) if "micro_dollars" in money else None,
        "waited": None if run.started_at is None else format_duration(_ms(run.started_at - run.planned_at)),
        "duration": None if run.duration_ms is None else format_duration(run.duration_ms),
    }  # fmt: skip
    return {name: value for name, value in facts.items() if value is not None}


def _ms(length: timedelta) -> int:
    return round(length / timedelta(milliseconds=1))
