"""Where schedules come from: checked for whoever asks, and, where an agent does, proposed rather than made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matins.engine.agent_rules import AgentRules, bounded, harmless, refuse_unruly, unusual
from matins.engine.schedules import encode
from matins.engine.targets import context_of, resolve_current
from matins.engine.when.triggers import Trigger
from matins.errors import InvalidInput, NotAllowed
from matins.executors.commands import check_command
from matins.model.agent import Target
from matins.model.policy import Approval
from matins.model.principal import Principal
from matins.model.records import NewSchedule
from matins.model.run import RunState
from matins.model.schedule import Schedule, ScheduleDefinition
from matins.ports import Transaction
from matins.runtime import asking
from matins.runtime.planner import live_runs
from matins.runtime.spending import stopped_with
from matins.service.base import UseCases
from matins.service.contexts import placed
from matins.service.definitions import Defined, defined
from matins.service.rights import check_words

_COMMANDS = ("pre_check", "before", "after")


class Origin(NamedTuple):
    """Who makes a schedule, stamped by the server: nothing of it comes from the words."""

    principal: Principal
    run_id: int | None
    parent: int | None
    depth: int
    rules: AgentRules | None
    """For agents."""
    here: Target | None = None
    """The thread from which an agent speaks."""

    def row(self, item: Defined, schedule_id: int) -> NewSchedule:
        row = item.row(schedule_id)
        maker = {"created_by": self.principal.name, "creator_role": self.principal.role}
        row = row._replace(**maker, creator_run=self.run_id, parent=self.parent, depth=self.depth)
        own = item.agent == self.principal.name
        if self.rules is not None and not harmless(item.rule.definition, self.rules, own=own, here=self.here):
            row = row._replace(state="pending", due_at=None)
        return row


class Proposals(UseCases):
    def _prepared(self, principal: Principal, schedules: Sequence[Mapping[str, Any]], now: int) -> list[Defined]:
        """Everything that can be said against these words without writing anything."""
        with self._store.reading() as transaction:
            policies = self._catalog.policies(transaction)
        same: dict[object, Any] = {}
        items: list[Defined] = []
        for words in schedules:
            item = defined(self._checked_words(principal, words), now, same, policies.rates)
            if principal.role == "agent":
                rules = policies.rules_for(principal.name)
                item = _for_agent(principal, item, bounded(item.rule.definition, rules, now))
            items.append(item)
        for name in {item.rule.definition.work for item in items}:
            if name is not None and name not in policies.work:
                raise _no_such_source(name, policies.work)
        for name in {item.rule.definition.quiet_hours for item in items}:
            if name is not None and name not in policies.quiet_hours:
                raise _no_such_quiet_hours(name, policies.quiet_hours)
        return items

    def _checked_words(
        self, principal: Principal, words: Mapping[str, Any], *, changing: bool = False
    ) -> Mapping[str, Any]:
        if not isinstance(words, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - callers are not all typed
            raise InvalidInput(
                "A schedule is said in words with values", value=str(words)[:60], hint='{"do": "report"}'
            )
        check_words(principal, words, changing=changing)
        for word in _COMMANDS:
            if words.get(word) is not None:
                check_command(words[word], word, workdir=self._workdir)
        words = placed(self._store, principal, words)
        return {**words, "timezone": self._clock.local_zone()} if words.get("timezone") == "local" else words

    def _origin(self, transaction: Transaction, principal: Principal, items: Sequence[Defined]) -> Origin:
        if principal.role != "agent":
            return Origin(principal, None, None, 0, None)
        transaction.lock_policies()  # so that two at once do not both find room under the quota
        rules = self._catalog.policies(transaction).rules_for(principal.name)
        run = None if principal.run_id is None else transaction.run(principal.run_id)
        if principal.run_id is not None and run is None:
            raise NotAllowed(
                f"There is no run {principal.run_id} to speak from", value=principal.run_id, field="run_id"
            )
        parent = None if run is None else self._schedule(transaction, run[1])
        depth = 1 + (parent.depth if parent else 0)
        already = transaction.agent_schedules(principal.name)
        for number, item in enumerate(items):
            refuse_unruly(item.rule.trigger, rules, depth, already + number)
        landing = None if run is None else transaction.landing(run[0])
        here = None if landing is None else resolve_current("current-thread", context_of(landing.thread))
        return Origin(principal, principal.run_id, parent.id if parent else None, depth, rules, here)

    def _bounded(
        self, transaction: Transaction, principal: Principal, schedule: Schedule, definition: ScheduleDefinition,
        trigger: Trigger, now: int,
    ) -> ScheduleDefinition:  # fmt: skip
        """An edit, within what its maker may do."""
        policies = self._catalog.policies(transaction)
        if definition.work is not None and definition.work not in policies.work:
            raise _no_such_source(definition.work, policies.work)
        if definition.quiet_hours is not None and definition.quiet_hours not in policies.quiet_hours:
            raise _no_such_quiet_hours(definition.quiet_hours, policies.quiet_hours)
        if principal.role != "agent":
            return definition
        rules = policies.rules_for(principal.name)
        transaction.lock_policies()
        revived = schedule.state in ("expired", "rejected")  # it counts again
        refuse_unruly(trigger, rules, 0, transaction.agent_schedules(principal.name) if revived else 0)
        return bounded(definition, rules, now)

    def _ask(self, transaction: Transaction, principal: Principal, schedule_id: int, now: int) -> None:
        """Put a proposal to the owner."""
        schedule = self._schedule(transaction, schedule_id)
        known = self._known(transaction, schedule)
        rules = self._catalog.policies(transaction).rules_for(schedule.created_by)
        proposal = {
            "proposed_by": schedule.created_by,
            "run": None if schedule.creator_run is None else str(schedule.creator_run),
            "parent": None if schedule.parent is None else str(schedule.parent),
            "depth": schedule.depth,
            "unusual": unusual(known.definition),
        }
        expires_at = now + rules.approval_ms
        asking.ask_about_schedule(transaction, known, principal.name, principal.role, now, expires_at, proposal)

    def _ask_the_next(self, transaction: Transaction, void: Approval, now: int) -> None:
        """Others wait for the same money, and the question about it is void: it is asked about one of them."""
        policies = self._catalog.policies(transaction)
        for schedule_id in stopped_with(transaction, policies, void, now)[:1]:
            known = self._known(transaction, self._schedule(transaction, schedule_id))
            place = {word: void.request[word] for word in ("note", "budget", "whose", "period")}
            asking.ask_about_budget(transaction, known, void.run_id, now, place)

    def _ask_again(self, transaction: Transaction, principal: Principal, schedule: Schedule, now: int) -> None:
        """After an edit: what was asked or approved was about other words. Runs that people were asked about and that
        have not started go by the new ones, also those that an edit before this one has put back."""
        asking.void(transaction, schedule.id, now, "the schedule was edited")
        live = live_runs(transaction, [schedule.id]).get(schedule.id, [])
        for row in transaction.live_runs([run_id for run_id, state in live if state <= RunState.READY]):
            if row.attempt == 0 and any(asked.kind == "run" for asked in transaction.approvals_of_run(row.id)):
                transaction.revise_run(row.id, schedule.rev)
                transaction.wake_parked(row.id, "awaiting_approval", now)
        if principal.role == "agent" or schedule.state in ("pending", "rejected"):
            transaction.set_schedule_state(schedule.id, "pending", now, None, None)
            transaction.replace_cursor(schedule.id, schedule.next_slot, None, schedule.rev, paused=True)
            transaction.park(schedule.id)
            self._ask(transaction, principal, schedule.id, now)


def _for_agent(principal: Principal, item: Defined, definition: ScheduleDefinition) -> Defined:
    """For itself and nobody else."""
    if item.agent not in ("", principal.name):
        raise NotAllowed(
            f"{principal.name} may not schedule {item.agent}", value=item.agent, field="agent", hint="leave it out"
        )
    rule = type(item.rule)(definition, item.rule.trigger)
    return item._replace(agent=principal.name, text=encode(definition), rule=rule)


def _no_such_source(name: str, known: Mapping[str, Any]) -> InvalidInput:
    hint = f"known: {', '.join(sorted(known))}" if known else "make it first: set_work_source"
    return InvalidInput(f'There is no source of work "{name}"', value=name, field="work", hint=hint)


def _no_such_quiet_hours(name: str, known: Mapping[str, Any]) -> InvalidInput:
    hint = f"known: {', '.join(sorted(known))}" if known else "make them first: set_quiet_hours"
    return InvalidInput(f'There are no quiet hours "{name}"', value=name, field="quiet_hours", hint=hint)
