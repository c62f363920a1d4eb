"""New schedules and edits: checked for the principal. Those of agents, and operators' commands, are proposals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from matins.engine.answers import inherit_delivery
from matins.engine.approvals import (
    DEFAULT_RULES,
    AgentRules,
    check_rules,
    limit_lifetime,
    needs_no_approval,
    notable_settings,
    standing_reason,
)
from matins.engine.commands import by_person
from matins.engine.jobs import SHELL, wakes_agent
from matins.engine.policies import Policies
from matins.engine.schedules import OWN_SETTINGS, references
from matins.engine.steps import jobs_of, of_step
from matins.engine.targets import context_of, resolve_current
from matins.engine.validation import nearest
from matins.engine.when.triggers import Trigger
from matins.errors import InvalidInput, NotAllowed
from matins.executors.agent_checks import check_model
from matins.executors.secrets import check_command, check_commands
from matins.model.access import Principal, name_of
from matins.model.agent import Agent, Target
from matins.model.job import JobType, JobTypes
from matins.model.policies import Approval
from matins.model.rows import NewSchedule
from matins.model.schedule import ScheduleDefinition, ScheduleRecord
from matins.model.settings import Command
from matins.records import record_kinds
from matins.runtime import approval_requests
from matins.runtime.command_files import has_commands, with_files
from matins.runtime.spending import others_waiting
from matins.service.core import Core
from matins.service.drafts import Cache, Draft, apply_edit, make_draft, resolve_target_setting
from matins.service.permissions import check_owner_only, check_reach, proposed_settings
from matins.service.record_changes import Edit
from matins.store.transaction import Transaction

_CHECKS = tuple(
    name for name, declared in OWN_SETTINGS.items() if isinstance(declared.kind, Command) and name != "command"
)


class Authorship(NamedTuple):
    """The author of a schedule, set by the server and not by settings."""

    principal: Principal
    run_id: int | None
    parent: int | None
    depth: int
    rules: AgentRules | None
    """None unless the author is an agent."""
    here: Target | None = None
    """The thread of the agent's run."""
    last_one_shot: int | None = None
    """When the rules approved the last one-shot that the agent made outside a run."""
    delivery: ScheduleDefinition | None = None
    """The settings of the agent's run, whose destinations what it adds inherits."""

    @property
    def stands(self) -> bool:
        """Whether the author is an agent outside a run: a client with a token of its own."""
        return self.rules is not None and self.run_id is None

    def waits(self, now: int) -> str | None:
        """Why a person decides about a one-shot that the rules would approve; None if they do."""
        if not self.stands or self.rules is None:
            return None
        return standing_reason(self.principal.name, self.rules, self.last_one_shot, now)

    def row(self, draft: Draft, schedule_id: int, now: int) -> tuple[NewSchedule, str | None]:
        """The row, and why a person decides about it where that is not plain: a one-shot that the rules approve, or a
        setting of an operator that only the owner can set."""
        inherited = inherit_delivery(draft.definition, self.delivery)
        if inherited is not draft.definition:  # otherwise the text stays, in which drafts of a bulk differ
            draft = draft.with_definition(inherited)
        row = draft.row(schedule_id, self.principal, self.run_id, self.parent, self.depth)
        own = draft.agent == self.principal.name
        definition, waits = draft.definition, None
        if draft.proposed:
            names = " and ".join(f'"{name}"' for name in draft.proposed)
            return row._replace(state="pending", due_at=None), f"Only the owner can set {names}, and decides about it."
        if self.rules is not None:
            approved = needs_no_approval(definition, self.rules, own=own, here=self.here, delivery=self.delivery)
            waits = self.waits(now) if approved else None
            if not approved or waits is not None:
                row = row._replace(state="pending", due_at=None)
        return row, waits


_UNCOUNTED = ("expired", "rejected", "completed", "removed")
"""States in which a schedule does not count for the maximum of its agent."""


@dataclass(frozen=True)
class Proposals:
    core: Core

    def drafts(
        self, principal: Principal, schedules: Sequence[Mapping[str, Any]], policies: Policies, now: int,
        made: Sequence[Agent] = (),
    ) -> list[Draft]:  # fmt: skip
        """The checked drafts of these schedules. Nothing is written. `made`: agents that are created with them."""
        core = self.core
        jobs, cache = core.jobs.names(), Cache()
        context = core.parse_context(policies, now)
        drafts: list[Draft] = []
        for given in schedules:
            by_agent = principal.role == "agent"  # people see the payload of what it proposes
            draft = make_draft(self.check_settings(principal, given), context, Cache() if by_agent else cache, jobs)
            if by_agent:
                rules = policies.rules_for(principal.name)
                definition = limit_lifetime(draft.definition, rules, now)
                if draft.agent not in ("", principal.name):
                    message = f"{principal.name} cannot schedule {draft.agent}."
                    raise NotAllowed(message, value=draft.agent, field="agent", hint="Omit it.")
                check_own_steps(principal, definition)
                check_commands(definition)
                draft = draft.with_definition(definition)._replace(agent=principal.name)
            elif has_commands(draft.definition):
                agent, definition = by_person(draft.agent, draft.definition)
                check_commands(definition)
                definition = with_files(definition, agent, policies)
                draft = draft.with_definition(definition)._replace(agent=agent)
                draft = draft._replace(proposed=proposed_settings(principal, given))
            check_reach(principal, draft.agent, draft.definition)
            drafts.append(draft)
        for agent, definition in {(d.agent, id(d.definition)): (d.agent, d.definition) for d in drafts}.values():
            check_references(definition, policies)
            known = {**policies.agents, **{one.name: one for one in made}}
            check_agents(agent, definition, known, by_agent=principal.role == "agent")
            for job in jobs_of(definition):
                check_job_right(principal, jobs.find(job))
        return drafts

    def check_settings(
        self, principal: Principal, given: Mapping[str, Any], *, editing: bool = False,
        context: Mapping[str, Any] | None = None,
    ) -> Mapping[str, Any]:  # fmt: skip
        """The settings with shorthands resolved. Raises unless this principal may give them."""
        if not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - callers are not all typed
            message = "A schedule is a mapping of settings to values."
            raise InvalidInput(message, value=str(given)[:60], hint='For example: {"job": "report"}.')
        given = dict(given)
        context = given.pop("context", None) or context
        check_owner_only(principal, given, editing=editing)
        for name in _CHECKS:
            if given.get(name) is not None:
                check_command(given[name], name, workdir=self.core.workdir)
        return resolve_target_setting(self.core.store, principal, given, context)

    def authorship(
        self, transaction: Transaction, principal: Principal, drafts: Sequence[Draft], *, lock: bool = True
    ) -> Authorship:
        """The author of new schedules. `lock`: False for a preview, which writes nothing."""
        if principal.role != "agent":
            return Authorship(principal, None, None, 0, None)
        if lock:
            transaction.lock_policies()  # otherwise two concurrent requests could exceed the maximum
        rules = self.core.catalog.policies(transaction).rules_for(principal.name)
        run = None if principal.run_id is None else transaction.run(principal.run_id)
        if principal.run_id is not None and run is None:
            raise NotAllowed(f"There is no run {principal.run_id}.", value=principal.run_id, field="run_id")
        own = None if run is None else self.core.run(transaction, run.id)
        parent = None if own is None else self.core.schedule(transaction, own.schedule_id)
        depth = 1 + (parent.depth if parent else 0)
        already = transaction.count_agent_schedules(principal.who)
        for number, draft in enumerate(drafts):
            check_rules(draft.trigger, rules, depth, already + number)
        assignment = None if own is None else transaction.thread_assignment(own.id)
        here = None if assignment is None else resolve_current("current-thread", context_of(assignment.thread))
        last = transaction.last_one_shot(principal.name) if own is None else None
        number, delivery = (None, None) if parent is None else (parent.id, parent.definition)
        return Authorship(principal, principal.run_id, number, depth, rules, here, last, delivery)

    def edited(
        self, policies: Policies, schedule: ScheduleRecord, given: Mapping[str, Any], jobs: JobTypes, now: int
    ) -> tuple[ScheduleDefinition, Trigger]:
        """The definition with these settings changed, before it is checked for the principal."""
        return apply_edit(schedule, given, self.core.parse_context(policies, now), jobs)

    def prepare(
        self, principal: Principal, policies: Policies, schedule: ScheduleRecord, given: Mapping[str, Any],
        jobs: JobTypes, now: int,
    ) -> Edit:  # fmt: skip
        """The parsed edit of a schedule, before the store's lock is taken. The files of commands are as they are when
        a person sets them. What an agent writes has those that a person approves."""
        definition, trigger = self.edited(policies, schedule, given, jobs, now)
        if has_commands(definition):
            check_commands(definition)
        if principal.is_human and has_commands(definition):
            if schedule.creator_role != "agent":
                _, definition = by_person(schedule.agent, definition)
            definition = with_files(definition, schedule.agent, policies, schedule.definition, given)
        return Edit((schedule.id, schedule.rev), policies.rates, given, definition, trigger)

    def check_edit(
        self, transaction: Transaction, principal: Principal, schedule: ScheduleRecord,
        definition: ScheduleDefinition, trigger: Trigger, now: int,
    ) -> ScheduleDefinition:  # fmt: skip
        """The definition after an edit. Raises unless its author may make the edit."""
        policies = self.core.catalog.policies(transaction)
        check_reach(principal, schedule.agent, definition)
        check_references(definition, policies)
        check_agents(schedule.agent, definition, policies.agents, by_agent=schedule.creator_role == "agent")
        before = schedule.definition
        if (definition.job, definition.payload, definition.steps) != (before.job, before.payload, before.steps):
            for job in jobs_of(definition):
                check_job_right(principal, self.core.jobs.registry.get(job))
        if principal.role != "agent":
            return definition
        check_own_steps(principal, definition)
        rules = policies.rules_for(principal.name)
        transaction.lock_policies()
        revived = schedule.state in _UNCOUNTED  # it counts for the maximum again
        check_rules(trigger, rules, 0, transaction.count_agent_schedules(principal.who) if revived else 0)
        return limit_lifetime(definition, rules, now)

    def request(
        self, transaction: Transaction, principal: Principal, schedule_id: int, now: int, note: str | None = None
    ) -> None:
        """Request the owner's approval of a proposal. `note`: why a person decides about it."""
        schedule = self.core.schedule(transaction, schedule_id)
        compiled = self.core.compiled(transaction, schedule)
        policies = self.core.catalog.policies(transaction)
        by_agent = schedule.creator_role == "agent"
        rules = policies.rules_for(name_of(schedule.created_by)) if by_agent else DEFAULT_RULES
        proposal = {
            "proposed_by": name_of(schedule.created_by),
            "run": None if schedule.creator_run is None else str(schedule.creator_run),
            "parent": None if schedule.parent is None else str(schedule.parent),
            "depth": schedule.depth,
            "unusual": notable_settings(compiled.definition),
        }
        if note is not None:
            proposal["note"] = note
        expires_at = now + rules.approval_timeout_ms
        approval_requests.request_schedule_approval(
            transaction, compiled, policies, principal.who, principal.role, now, expires_at, proposal
        )

    def request_next(self, transaction: Transaction, voided: Approval, now: int) -> None:
        """Request approval for another schedule that waits for the same budget, because this request is void."""
        policies = self.core.catalog.policies(transaction)
        for schedule_id in others_waiting(transaction, policies, voided, now)[:1]:
            compiled = self.core.compiled(transaction, self.core.schedule(transaction, schedule_id))
            place = {name: voided.request[name] for name in ("note", "budget", "whose", "period")}
            approval_requests.request_budget_approval(transaction, compiled, voided.run_id, now, place)

    def request_again(self, transaction: Transaction, principal: Principal, schedule: ScheduleRecord, now: int) -> None:
        """Void the request about a proposal after an edit. A run that waits for approval keeps the settings that it
        was planned with, and its request, which shows exactly those."""
        approval_requests.void_approvals(transaction, schedule.id, now, "the schedule was edited", runs=False)
        if principal.role == "agent" or schedule.state in ("pending", "rejected"):
            transaction.set_schedule_state(schedule.id, "pending", now, None, None)
            transaction.replace_cursor(schedule.id, schedule.next_slot, None, schedule.rev, paused=True)
            transaction.suspend_runs(schedule.id)
            self.request(transaction, principal, schedule.id, now)


def check_own_steps(principal: Principal, definition: ScheduleDefinition) -> None:
    """Raise NotAllowed if an agent would wake another agent through a step."""
    for number, step in enumerate(definition.steps, 1):
        if step.agent not in ("", principal.name):
            message, field = f"{principal.name} cannot schedule {step.agent}.", f"steps[{number}].agent"
            raise NotAllowed(message, value=step.agent, field=field, hint="Omit it.")


def check_references(definition: ScheduleDefinition, policies: Policies) -> None:
    """Raise if a setting names a record that does not exist."""
    for setting, noun, name in references(definition):
        kind = record_kinds()[noun]
        compiled = policies.records.get(kind.kind, {})
        if name not in compiled:
            raise unknown_record(kind.one, kind.noun, setting, name, compiled)


def check_agents(
    agent: str, definition: ScheduleDefinition, known: Mapping[str, Agent], *, by_agent: bool = False
) -> None:
    """Raise if runs, or one of their steps, wake an agent that does not exist, or give a command to one that runs no
    shell. `by_agent`: what an agent proposes runs as itself."""
    for number, step in enumerate(definition.steps, 1):
        part, field = of_step(definition, number), f"steps[{number}].agent"
        _check_agent(step.agent or agent, part, known, field, by_agent=by_agent)
    _check_agent(agent, definition, known, "agent", by_agent=by_agent)


def _check_agent(
    agent: str, definition: ScheduleDefinition, known: Mapping[str, Agent], field: str, *, by_agent: bool
) -> None:
    if wakes_agent(definition):
        check_model(known.get(agent), definition)
    if not wakes_agent(definition) or (definition.command is not None and agent == SHELL not in known):
        return  # the agent of commands is made with its first one
    if agent in known:
        runner = known[agent].runner
        if definition.command is not None and runner != SHELL and not by_agent:
            message = f'"command" needs an agent that runs shell; "{agent}" runs {runner}.'
            raise InvalidInput(message, value=agent, field=field, hint=f'Omit it for the agent "{SHELL}".')
        return
    if not agent:
        names = ", ".join(sorted(known))
        hint = f"Give one: {names}." if names else "Create one first: matins agents set scout --runner claude"
        raise InvalidInput("A prompt needs an agent.", field=field, allowed=names, hint=hint)
    raise unknown_record("agent", "agents", field, agent, known)


def check_job_right(principal: Principal, job: JobType | None) -> None:
    """Raise if only the owner may schedule this job."""
    if job is not None and job.owner_only and principal.role != "owner":
        hint = "Use another job, or ask the owner."
        raise NotAllowed(f'Only the owner can schedule the job "{job.name}".', value=job.name, field="job", hint=hint)


def unknown_record(one: str, noun: str, field: str, name: str, compiled: Iterable[str]) -> InvalidInput:
    names = sorted(compiled)
    hint = nearest(name, names) if names else f"Create it: {record_kinds()[noun].command_for(name)}"
    return InvalidInput(f'There is no {one} "{name}".', value=name, field=field, allowed=", ".join(names), hint=hint)
