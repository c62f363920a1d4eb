"""Use cases on schedules: add, edit, pause, delete.

`Additions`: a new schedule before it is added, with agents created for it.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from matins.api.results import FilePlace, Schedule
from matins.config.file import file_format
from matins.delivery.destinations import problem_of
from matins.delivery.notices import address_of
from matins.engine.answers import UNSENT, deliver_command, destinations_of, reaches_nobody
from matins.engine.jobs import full_prompt
from matins.engine.policies import Policies
from matins.engine.schedules import UNREADABLE, idle_settings, newly_idle, schedule_settings, start_text
from matins.engine.settings import format_settings
from matins.engine.when.definitions import to_dict
from matins.engine.when.triggers import to_datetime
from matins.errors import Conflict, InvalidInput, NotFound, Stale
from matins.executors.agent_checks import Surroundings, command_notes, job_problems
from matins.executors.registry import runners
from matins.model.access import Principal, name_of
from matins.model.agent import Agent
from matins.model.job import JobTypes
from matins.model.run import RunRecord
from matins.model.schedule import ScheduleDefinition, ScheduleRecord
from matins.model.selector import ScheduleFilter
from matins.runtime.catalog import run_record, schedule_record
from matins.runtime.pausing import pause
from matins.service.core import LEASE_MS, Core
from matins.service.drafts import Draft, check_note, free_name, name_from_text, subject_of
from matins.service.file.write_back import Deleted, Edited, FileWriter
from matins.service.forecasts import frequent_wakes
from matins.service.new_agents import NewAgents
from matins.service.proposals import Proposals
from matins.service.record_changes import Edit, Moved, until_unmoved
from matins.service.run_views import run_result
from matins.service.schedule_changes import ScheduleChanges
from matins.store.transaction import Transaction


class Addition(NamedTuple):
    draft: Draft
    agents: list[Agent]
    """The agents to create."""
    subject: str | None
    """The text from which it gets a name; None when it has one."""
    policies: Policies
    """Those by which it was checked."""

    def named(self, transaction: Transaction) -> Draft:
        """The draft, with a name that is free unless one was given."""
        if self.subject is None:
            return self.draft
        return self.draft._replace(name=free_name(transaction, self.draft.agent, self.subject))


@dataclass(frozen=True)
class Additions:
    proposals: Proposals
    agents: NewAgents

    def prepare(
        self, principal: Principal, now: int, given: Mapping[str, Any], *, create_agent: bool,
        new_agent: Mapping[str, Any] | None = None,
    ) -> Addition:  # fmt: skip
        """The checked schedule with these settings. Nothing is written."""
        subject = subject_of(given) if given["name"] is None else None
        if subject is not None:
            given = {**given, "name": name_from_text(subject)}
        made = self.agents.prepare(principal, given["agent"], given, new_agent) if create_agent else []
        policies = self.proposals.core.policies()
        (draft,) = self.proposals.drafts(principal, [given], policies, now, made)
        return Addition(draft, made, subject, policies)

    def notes(self, principal: Principal, addition: Addition, now: int) -> list[str]:
        """What would make its runs fail now, and wakes that cost much. Agents do not read about folders of this
        machine."""
        core, draft, policies = self.proposals.core, addition.draft, addition.policies
        if addition.agents:
            made = {one.name: one for one in addition.agents}
            policies = replace(policies, agents={**policies.agents, **made})
        wakes = frequent_wakes(draft.agent, draft.timetable, policies.agents, now)
        notes = [] if wakes is None else [wakes.note]
        if principal.role == "agent":
            return notes
        if not core.jobs.offered_here(draft.definition, draft.agent, policies):
            nowhere = core.jobs.no_node(draft.definition, draft.agent, core.store.engines(LEASE_MS), policies)
            notes += [] if nowhere is None else [nowhere]
        workdir = core.workdir or str(Path.cwd())
        here = Surroundings(policies, runners(), core.jobs.registry, workdir, now)
        found = job_problems(draft.definition, draft.agent, here)
        isolation, owner = core.local.isolation, principal.role == principal.name == "owner"
        notes += command_notes(draft.definition, draft.agent, policies, isolation, by_owner=owner)
        if reaches_nobody(draft.definition, draft.agent, policies):
            notes.append(f"{UNSENT} To send them: {deliver_command(policies)}")
        notes += unreachable(draft.definition, draft.agent, policies, now)
        return notes + [f"{error.message} {error.hint or ''}".strip() for error in found]

    def create_agents(
        self, transaction: Transaction, principal: Principal, agents: Iterable[Agent], now: int
    ) -> list[str]:
        """Create the agents. Returns notes for the caller."""
        return [note for agent in agents for note in self.agents.create(transaction, principal, agent, now)]


def unreachable(definition: ScheduleDefinition, agent: str, policies: Policies, now: int) -> list[str]:
    """The destinations of its answers to which nothing can be sent, each with what to do."""
    named = [policies.destinations.get(name) for name in destinations_of(definition, agent, policies)]
    found = [(one.name, problem_of(address_of(one, policies, now))) for one in named if one is not None]
    return [
        f"Nothing can be sent to {name}. {problem.message} {problem.hint or ''}".rstrip()
        for name, problem in found
        if problem is not None
    ]


_UNCHANGED = ("active", "paused", "pending", "completed")
"""States in which an edit that changes nothing has no effect. In the others it revives the schedule."""


@dataclass(frozen=True)
class Schedules:
    core: Core
    proposals: Proposals
    changes: ScheduleChanges
    additions: Additions
    writer: FileWriter

    def add(
        self,
        principal: Principal,
        name: str | None = None,
        *,
        when: Any = None,
        agent: str = "",
        create_agent: bool = False,
        new_agent: Mapping[str, Any] | None = None,
        replace: bool = False,
        context: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Schedule:
        now = self.core.clock.now_ms()
        given = {"name": name, "when": when, "agent": agent, "context": context, **settings}
        addition = self.additions.prepare(principal, now, given, create_agent=create_agent, new_agent=new_agent)
        draft, made = addition.draft, addition.agents
        problems = self.additions.notes(principal, addition, now)
        if replace and (there := self._named(draft)) is not None:
            edits = edits_between(there.definition, draft.definition)
            return self.edit(principal, draft.name, agent=draft.agent, context=context, **edits)
        if not made and not draft.proposed:
            in_file = self.writer.add(principal, name, draft.agent, draft.definition)
            if in_file is not None:
                return self.get(principal, in_file)
        begin = self.core.store.transaction if made else self.core.store.together  # agents change the policies
        with begin(now) as transaction:
            notes = self.additions.create_agents(transaction, principal, made, now)
            notes += [*draft.trigger.notes, *idle_settings(draft.definition, settings)]
            notes += problems
            named = addition.named(transaction)
            (row,) = self.changes.insert(transaction, principal, [named], now, notes=notes)
            transaction.notifies = True
        # It has no runs yet, and no file defines it.
        result = structs.replace(_result(schedule_record(row.stored(now)), None, None, notes), manual_runs=0)
        self.core.wake()
        return result

    def add_many(self, principal: Principal, schedules: Sequence[Mapping[str, Any]]) -> builtins.list[str]:
        now = self.core.clock.now_ms()
        drafts = self.proposals.drafts(principal, schedules, self.core.policies(), now)
        with self.core.store.transaction(now) as transaction:
            rows = self.changes.insert(transaction, principal, drafts, now)
            transaction.notifies = True
        self.core.wake()
        return [str(row.id) for row in rows]

    def get(self, principal: Principal, name: str, *, agent: str | None = None) -> Schedule:
        with self.core.store.reading() as transaction:
            schedule = self.core.find(transaction, name, agent)
            return schedule_result(transaction, schedule)

    def upcoming(self, principal: Principal, *, limit: int = 20) -> builtins.list[Schedule]:
        with self.core.store.reading() as transaction:
            rows = transaction.listed(ScheduleFilter(), "next", 0, limit)
            return schedule_results(transaction, [schedule_record(row) for row in rows if row.due_at is not None])

    def edit(
        self,
        principal: Principal,
        name: str,
        *,
        agent: str | None = None,
        if_rev: int | None = None,
        context: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Schedule:
        now, core = self.core.clock.now_ms(), self.core
        given = self.proposals.check_settings(principal, settings, editing=True, context=context)
        jobs = core.jobs.names()
        results: builtins.list[Schedule] = []

        def change() -> None:
            edit = self._prepare(principal, name, agent, if_rev, given, jobs, now)

            def in_store(transaction: Transaction) -> None:
                before = core.schedule_for(transaction, principal, name, agent)
                check_revision(before, if_rev)
                self._revise(transaction, principal, before, edit, now)
                after = core.schedule_for(transaction, principal, name, agent)
                if before.state == "broken":
                    notes = idle_settings(after.definition, settings)
                else:
                    notes = newly_idle(before.definition, after.definition, settings)
                if edit is not None and "when" in edit.given:
                    timetable = core.compiled(transaction, after).timetable
                    agents = core.catalog.policies(transaction).agents
                    wakes = frequent_wakes(after.agent, timetable, agents, now, (transaction, after.id))
                    notes += [] if wakes is None else [wakes.note]
                if "deliver" in settings and principal.role != "agent":
                    policies = core.catalog.policies(transaction)
                    notes += unreachable(after.definition, after.agent, policies, now)
                results[:] = [schedule_result(transaction, after, notes)]

            self.writer.change(principal, "schedule", key, now, in_store, Edited(settings), check)

        def check(transaction: Transaction) -> None:
            check_revision(core.schedule_for(transaction, principal, name, agent), if_rev)

        key = self._key(name, agent)
        until_unmoved(change, f'"{name}"')
        if results:
            return results[0]
        agent, _, name = key.partition("/")
        with core.store.reading() as transaction:
            after = core.find(transaction, name, agent)
            return schedule_result(transaction, after, idle_settings(after.definition, settings))

    def _prepare(
        self, principal: Principal, name: str, agent: str | None, if_rev: int | None, given: Mapping[str, Any],
        jobs: JobTypes, now: int,
    ) -> Edit | None:  # fmt: skip
        """The parsed edit; None for a schedule that a file defines, in which it is written."""
        with self.core.store.reading() as transaction:
            schedule = self.core.schedule_for(transaction, principal, name, agent, lock=False)
            check_revision(schedule, if_rev)
            if transaction.file_entry("schedule", f"{schedule.agent}/{schedule.name}") is not None:
                return None
            policies = self.core.catalog.policies(transaction)
        return self.proposals.prepare(principal, policies, schedule, given, jobs, now)

    def _revise(
        self, transaction: Transaction, principal: Principal, schedule: ScheduleRecord, edit: Edit | None, now: int
    ) -> None:
        if edit is None:  # the file defined it a moment ago
            raise Moved
        edit.check_same((schedule.id, schedule.rev), self.core.catalog.policies(transaction).rates)
        definition, trigger = edit.definition, edit.trigger
        if definition == schedule.definition and schedule.state in _UNCHANGED:
            return  # no revision, and no approval is void
        definition = self.proposals.check_edit(transaction, principal, schedule, definition, trigger, now)
        self.changes.revise(transaction, principal, schedule, definition, trigger, tuple(edit.given), now)

    def delete(self, principal: Principal, name: str, *, agent: str | None = None) -> bool:
        now, core = self.core.clock.now_ms(), self.core

        def in_store(transaction: Transaction) -> None:
            schedule = core.schedule_for(transaction, principal, name, agent, to="delete")
            self.changes.delete(transaction, principal, schedule, now)

        def check(transaction: Transaction) -> None:
            core.schedule_for(transaction, principal, name, agent, to="delete")

        try:
            key = self._key(name, agent)
            self.writer.change(principal, "schedule", key, now, in_store, Deleted(), check)
        except NotFound:
            return False
        return True

    def pause(
        self,
        principal: Principal,
        name: str,
        *,
        agent: str | None = None,
        note: str | None = None,
        until: int | None = None,
    ) -> Schedule:
        check_note(note)
        now = self.core.clock.now_ms()
        if until is not None and until <= now:
            raise InvalidInput('"until" is in the past.', value=until, field="until", hint="Give a time in the future.")
        with self.core.store.transaction(now) as transaction:
            schedule = self.core.schedule_for(transaction, principal, name, agent)
            entry = transaction.file_entry("schedule", f"{schedule.agent}/{schedule.name}")
            reason = None if entry is None else file_format(entry.path).not_pausable(schedule.definition)
            if reason is not None:
                message = f'"{schedule.name}" {reason} and cannot be paused.'
                raise Conflict(message, value=schedule.name, field="name", hint="Delete it instead.")
            self.changes.plan_due(transaction, schedule, now)
            completed = self.core.schedule(transaction, schedule.id).state == "completed"
            if completed or not pause(transaction, schedule.id, now, principal.who, note, until):
                raise does_not_run(schedule)
            result = schedule_result(transaction, self.core.schedule(transaction, schedule.id))
        self.core.notify()
        return result

    def resume(self, principal: Principal, name: str, *, agent: str | None = None) -> Schedule:
        now = self.core.clock.now_ms()
        with self.core.store.transaction(now) as transaction:
            schedule = self.core.schedule_for(transaction, principal, name, agent)
            if schedule.state in ("pending", "rejected"):
                raise does_not_run(schedule)
            if schedule.state in ("paused", "broken"):
                self.changes.resume(transaction, principal, schedule, now)
            result = schedule_result(transaction, self.core.schedule(transaction, schedule.id))
        self.core.notify()
        return result

    def _named(self, draft: Draft) -> ScheduleRecord | None:
        with self.core.store.reading() as transaction:
            ids = transaction.schedules_named(draft.name, draft.agent)
            return self.core.schedule(transaction, ids[0]) if ids else None

    def _key(self, name: str, agent: str | None) -> str:
        with self.core.store.reading() as transaction:
            schedule = self.core.find(transaction, name, agent)
        return f"{schedule.agent}/{schedule.name}"


def schedule_result(transaction: Transaction, schedule: ScheduleRecord, notes: Sequence[str] = ()) -> Schedule:
    """The result of one schedule, with the number of its manual runs."""
    (result,) = schedule_results(transaction, [schedule], notes)
    return structs.replace(result, manual_runs=transaction.manual_runs(schedule.id))


def schedule_results(
    transaction: Transaction, schedules: Sequence[ScheduleRecord], notes: Sequence[str] = ()
) -> list[Schedule]:
    """The results, with last runs and file locations, from two statements for all schedules."""
    runs = {
        row.schedule_id: run_record(row) for row in transaction.newest_runs([schedule.id for schedule in schedules])
    }
    places = file_places(transaction, schedules)
    return [_result(schedule, runs.get(schedule.id), places.get(schedule.id), notes) for schedule in schedules]


def file_places(transaction: Transaction, schedules: Sequence[ScheduleRecord]) -> dict[int, FilePlace]:
    """Where files define schedules, by id."""
    keys = {f"{schedule.agent}/{schedule.name}": schedule.id for schedule in schedules}
    entries = transaction.file_entries_named("schedule", list(keys))
    return {keys[entry.name]: FilePlace(entry.path, entry.line) for entry in entries}


def _result(schedule: ScheduleRecord, last: RunRecord | None, file: FilePlace | None, notes: Sequence[str]) -> Schedule:
    definition = schedule.definition
    text, settings = _text_and_settings(definition)
    return Schedule(
        id=str(schedule.id),
        name=schedule.name,
        agent=schedule.agent,
        state=schedule.state,
        enabled=schedule.state == "active",
        rev=schedule.rev,
        trigger=to_dict(definition.trigger),
        trigger_text=text,
        timezone=definition.trigger.timezone,
        job=definition.job,
        prompt=full_prompt(definition),
        description=definition.description,
        labels=definition.labels or {},
        next_run_at=to_datetime(schedule.next_slot) if schedule.state == "active" else None,
        due_at=to_datetime(schedule.due_at),
        ends_at=to_datetime(definition.ends_at),
        note=schedule.note,
        paused_by=None if schedule.paused_by is None else name_of(schedule.paused_by),
        paused_at=to_datetime(schedule.paused_at),
        paused_until=to_datetime(schedule.paused_until),
        executions=schedule.executions,
        manual_runs=None,
        max_executions=definition.max_executions,
        failures=schedule.failures,
        created_at=to_datetime(schedule.created_at),
        created_by=name_of(schedule.created_by),
        creator_role=schedule.creator_role,
        creator_run=None if schedule.creator_run is None else str(schedule.creator_run),
        parent=None if schedule.parent is None else str(schedule.parent),
        depth=schedule.depth,
        updated_at=to_datetime(schedule.updated_at),
        settings=settings,
        last_run_at=to_datetime(last and (last.started_at or last.slot or last.planned_at)),
        last_run=None if last is None else run_result(last),
        file=file,
        notes=list(notes),
    )


_MAX_FORMATTED = 2_048
_formatted: dict[int, tuple[ScheduleDefinition, str, dict[str, Any]]] = {}
"""Text and settings of definitions that readers share, by identity: pages read the same ones again and again."""


def _text_and_settings(definition: ScheduleDefinition) -> tuple[str, dict[str, Any]]:
    if definition is UNREADABLE:
        return "unreadable", {}
    known = _formatted.get(id(definition))
    if known is not None and known[0] is definition:
        return known[1], dict(known[2])
    try:
        text, settings = start_text(definition), schedule_settings(definition)
    except Exception:  # an unusable row must not hide the others
        return "unreadable", {}
    if all(isinstance(value, (str, int, float)) for value in settings.values()):  # nothing that a reader could change
        if len(_formatted) >= _MAX_FORMATTED:
            _formatted.clear()
        _formatted[id(definition)] = definition, text, settings
    return text, dict(settings)


def edits_between(before: ScheduleDefinition, after: ScheduleDefinition) -> dict[str, Any]:
    """The settings to edit so that a schedule has those of another. One that is left out gets its default."""
    old, new = schedule_settings(before), schedule_settings(after)
    found = {name: new.get(name) for name in {**old, **new} if old.get(name) != new.get(name)}
    if before.environment != after.environment:  # its values are hidden in both
        found["environment"] = dict(after.environment) or None
    if before.steps != after.steps:
        found["steps"] = [
            {**format_settings(step), "environment": dict(step.environment)} for step in after.steps
        ] or None
    return found


def check_revision(schedule: ScheduleRecord, if_rev: int | None) -> None:
    if if_rev is not None and schedule.rev != if_rev:
        raise Stale(
            f'"{schedule.name}" was changed: its revision is {schedule.rev}, not {if_rev}.',
            value=schedule.rev,
            field="if_rev",
            hint="Read it again, then change it.",
        )


def does_not_run(schedule: ScheduleRecord) -> Conflict:
    hints = {
        "pending": "It waits for approval: list the approvals.",
        "rejected": "Delete it, or edit it to request approval again.",
        "broken": "Edit it, then resume it.",
        "expired": "Set a later end to revive it.",
        "completed": "It has no slot left. Edit it to give it one.",
    }
    message = f'"{schedule.name}" is {schedule.state}.'
    return Conflict(message, value=schedule.state, field="state", hint=hints.get(schedule.state))
