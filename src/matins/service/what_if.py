"""What would be: after an edit, or after an absence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from matins.engine.agent_rules import bounded, refuse_unruly
from matins.engine.gates import Facts
from matins.engine.planning import Birth, Plan, Rule
from matins.engine.policies import Policies
from matins.engine.reasons import NOW, moment, sentence
from matins.engine.when.triggers import compile_trigger
from matins.errors import InvalidInput
from matins.model.principal import OWNER, Principal
from matins.model.run import RunState
from matins.model.schedule import Schedule, ScheduleDefinition
from matins.ports import Transaction
from matins.runtime import spending
from matins.runtime.catalog import Known
from matins.runtime.limits import Free
from matins.runtime.planner import live_runs
from matins.runtime.replan import first_free
from matins.service.definitions import edited, says_when
from matins.service.forecasts import Forecast, check_count, forecast
from matins.service.gates_now import standing
from matins.service.proposals import Proposals
from matins.service.rights import needs
from matins.service.wording import WORDS, in_words


@dataclass(frozen=True, slots=True)
class WordChange:
    word: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class ChangeForecast:
    """What an edit would alter."""

    before: Forecast
    after: Forecast
    words: tuple[WordChange, ...]
    voids: tuple[int, ...]
    """Approvals that would have to be asked for again."""


@dataclass(frozen=True, slots=True)
class MadeUp:
    """A record that a catch-up would make."""

    slot: int
    first: int | None
    """The first of the slots that it stands for, when there are several."""
    slots: int
    verdict: str
    sentence: str


@dataclass(frozen=True, slots=True)
class CatchUp:
    schedule: str
    since: int
    answer: str
    records: tuple[MadeUp, ...] = ()
    runs: int = 0
    missed: int = 0
    next_slot: int | None = None


class WhatIf(Proposals):
    @needs("read")
    def preview_change(
        self, principal: Principal, name: str, agent: str | None = None, count: int = 5, **words: Any
    ) -> ChangeForecast:
        """The next slots before and after an edit; nothing is written."""
        check_count(count)
        now = self._clock.now_ms()
        given = self._checked_words(principal, words, changing=True)
        with self._store.reading() as transaction:
            policies = self._catalog.policies(transaction)
            schedule = self._find(transaction, name, agent)
            before = Rule(schedule.definition, compile_trigger(schedule.definition.trigger))
            after = self._edited(transaction, principal, schedule, given, now)
            changed = _after_edit(transaction, principal, schedule, after, now, anew=says_when(words))
            return ChangeForecast(
                forecast(transaction, policies, schedule, before, count, now),
                forecast(transaction, policies, changed, after, count, now),
                _differences(before.definition, after.definition),
                tuple(a.id for a in transaction.approvals_open(schedule.id) if a.kind != "budget"),
            )

    def _edited(
        self, transaction: Transaction, principal: Principal, schedule: Schedule, words: Mapping[str, Any], now: int
    ) -> Rule:
        policies = self._catalog.policies(transaction)
        definition, trigger = edited(schedule, words, now, policies.rates)
        # Not in the agent's own name: an edit by an agent locks the rules, and a look locks nothing.
        definition = self._bounded(transaction, OWNER, schedule, definition, trigger, now)
        if principal.role == "agent":
            rules = policies.rules_for(principal.name)
            refuse_unruly(trigger, rules, 0, 0)
            definition = bounded(definition, rules, now)
        return Rule(definition, trigger)

    @needs("read")
    def preview_catch_up(
        self, principal: Principal, name: str, since: int | None = None, agent: str | None = None
    ) -> CatchUp:
        """What would be recorded and run if nobody had been there since an instant; by default, for what is overdue."""
        now = self._clock.now_ms()
        if since is not None and since > now:
            raise InvalidInput('"since" is to come', value=since, field="since", hint="give an instant that is past")
        with self._store.reading() as transaction:
            schedule = self._find(transaction, name, agent)
            known = self._known(transaction, schedule)
            zone = known.definition.trigger.timezone
            if schedule.state != "active":
                return CatchUp(schedule.name, since or now, standing(schedule, zone).sentence)
            slot = schedule.next_slot if since is None else known.rule.trigger.next_ms(since)
            early = since is None and (schedule.due_at is None or schedule.due_at > now)
            if slot is None or slot > now or early:
                return CatchUp(schedule.name, since or now, "Nothing is overdue.", next_slot=schedule.next_slot)
            used = transaction.window_used(schedule.id) if since is None else 0
            policies = self._catalog.policies(transaction)
            plan = _planned(transaction, policies, schedule, known, slot, used, now)
        return _made_up(schedule.name, slot if since is None else since, plan, zone, now)


def _after_edit(
    transaction: Transaction, principal: Principal, schedule: Schedule, new: Rule, now: int, *, anew: bool
) -> Schedule:
    """The schedule as an edit would leave it."""
    most = new.definition.max_executions
    more = schedule.next_slot is None and (most is None or schedule.executions < most)
    slot = schedule.next_slot
    if anew or more or schedule.state in ("expired", "rejected"):
        slot = first_free(transaction, schedule.id, new.trigger, now)
    state = "active" if schedule.state in ("completed", "expired") else schedule.state
    if principal.role == "agent" or state == "rejected":
        state = "pending"
    elif state == "active" and slot is None:
        state = "completed"
    due_at = new.due_at(schedule.id, slot) if state == "active" else None
    return replace(schedule, definition=new.definition, state=state, next_slot=slot, due_at=due_at)


def _differences(before: ScheduleDefinition, after: ScheduleDefinition) -> tuple[WordChange, ...]:
    changes: list[WordChange] = []
    for field in fields(before):
        old, new = getattr(before, field.name), getattr(after, field.name)
        if old != new:
            word = "when" if field.name == "trigger" else WORDS.get(field.name, field.name)
            changes.append(WordChange(word, in_words(field.name, old), in_words(field.name, new)))
    return tuple(changes)


def _planned(
    transaction: Transaction, policies: Policies, schedule: Schedule, known: Known, slot: int, used: int, now: int
) -> Plan:
    """As the planner would, with the facts of now."""
    facts = Facts(
        live_runs(transaction, [schedule.id]).get(schedule.id, ()),
        Free(1, transaction.scopes()).none_for(known),
        schedule.agent,
        policies,
        spending.forecast(transaction, policies, known, now),
    )
    return known.rule.plan(schedule.id, slot, used, schedule.executions, facts, now)


def _made_up(name: str, since: int, plan: Plan, zone: str, now: int) -> CatchUp:
    births = plan.births
    runs = sum(birth.state < RunState.SUCCEEDED for birth in births)
    missed = sum(birth.slots for birth in births if birth.state is RunState.MISSED)
    slots = sum(birth.slots for birth in births)
    over = sum(birth.slots for birth in births if birth.state >= RunState.SUCCEEDED)
    counts = {"missed": missed, "not to run": over - missed}
    parts = [f"{count} {word}" for word, count in (*counts.items(), ("to run", runs)) if count]
    answer = f"{slots} {'slot' if slots == 1 else 'slots'} since {moment(since, zone)}: {', '.join(parts)}."
    records = tuple(_record(birth, zone, now) for birth in births)
    return CatchUp(name, since, answer, records, runs, missed, plan.next_slot)


def _record(birth: Birth, zone: str, now: int) -> MadeUp:
    assert birth.slot is not None
    word = {RunState.READY: "runs", RunState.PARKED: "deferred"}.get(birth.state, birth.state.word)
    if birth.reason is None:
        text = "It runs." if birth.slots == 1 else f"It runs, and stands for {birth.slots} slots."
    else:
        evidence = {"slots": birth.slots, "first": birth.first, "last": birth.slot, **(birth.evidence or {})}
        text = sentence(birth.reason, evidence, zone, state=birth.state, at=now, tense=NOW)
    return MadeUp(birth.slot, birth.first, birth.slots, word, text)
