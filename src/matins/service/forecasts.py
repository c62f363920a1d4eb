"""What is to come: the next slots, what each gate would say of them, and what a day will cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from matins.engine.budgets import MOST_PAST, Spent, projected_per_day
from matins.engine.forecast import Foreseen, Outset, Waiting, foresee
from matins.engine.money import format_money
from matins.engine.planning import Rule
from matins.engine.policies import Policies
from matins.engine.reasons import FUTURE, iso, moment, sentence
from matins.engine.schedules import UNREADABLE
from matins.errors import InvalidInput
from matins.model.principal import Principal
from matins.model.run import RunState
from matins.model.schedule import Schedule, ScheduleDefinition
from matins.ports import Transaction
from matins.runtime.replan import next_free
from matins.runtime.rows import run_of
from matins.service.base import UseCases
from matins.service.gates_now import GateSays, said, standing
from matins.service.rights import needs

MOST_SLOTS = 1_000
_DAY_MS = 86_400_000
_HORIZON_DAYS = 28
_FEW, _MOST_STEPS = 2_000, 20_000


@dataclass(frozen=True, slots=True)
class Slot:
    """An occurrence to come."""

    at: int
    local: str
    utc: str
    due_at: int
    """Later than the slot by its jitter."""
    dst: str | None
    """What a change of the clocks did to it."""
    verdict: str
    """runs, deferred, coalesced, queued or skipped; of a schedule that does not run, its state."""
    sentence: str
    until: int | None
    """When a deferred one goes on."""
    says: tuple[GateSays, ...]
    """The gates that can be foreseen, in their order."""


@dataclass(frozen=True, slots=True)
class Forecast:
    schedule: str
    agent: str
    state: str
    standing: str
    description: str
    timezone: str
    slots: tuple[Slot, ...]
    then: str | None
    """Why there are no more."""
    overdue: int
    """How many slots are past and have no record yet: `preview_catch_up` tells what becomes of them."""
    runs_per_day: float
    cost_per_day: str
    """What past runs cost at the middle, as often as a day has runs; "unknown" while nothing is known."""
    tokens_per_day: int | None


class _Start(NamedTuple):
    outset: Outset
    overdue: int
    waits: bool
    """Whether the next slot is known only when a run is over."""


class Forecasts(UseCases):
    @needs("read")
    def preview(self, principal: Principal, name: str, count: int = 5, agent: str | None = None) -> Forecast:
        """The next slots after time zone, DST, quiet hours, end and limits, and what a day will cost."""
        check_count(count)
        now = self._clock.now_ms()
        with self._store.reading() as transaction:
            schedule = self._find(transaction, name, agent)
            rule = self._known(transaction, schedule).rule
            return forecast(transaction, self._catalog.policies(transaction), schedule, rule, count, now)


def forecast(
    transaction: Transaction, policies: Policies, schedule: Schedule, rule: Rule, count: int, now: int
) -> Forecast:
    zone = rule.definition.trigger.timezone
    stands = standing(schedule, zone)
    start = _start(transaction, policies, schedule, rule, now)
    held = None if stands.passes or schedule.paused_until is not None else stands
    seen = list(islice(foresee(rule, start.outset), count))
    slots = tuple(
        slot_of(rule, item, held=held, earliest=rule.completion and (n > 0 or start.waits))
        for n, item in enumerate(seen)
    )
    per_day = _runs_per_day(rule, start.outset)
    cost, tokens = _cost_per_day(transaction, schedule.id, rule.definition, per_day)
    return Forecast(
        schedule.name, schedule.agent, schedule.state, stands.sentence, rule.trigger.describe(), zone, slots,
        None if len(seen) == count else _then(rule, seen, stands), start.overdue, per_day, cost, tokens,
    )  # fmt: skip


def slot_at(
    transaction: Transaction, policies: Policies, schedule: Schedule, rule: Rule, at: int, now: int
) -> Slot | None:
    """What becomes of one slot to come; None when the schedule has ended by then."""
    stands = standing(schedule, rule.definition.trigger.timezone)
    held = None if stands.passes or schedule.paused_until is not None else stands
    outset = _nearer(rule, _start(transaction, policies, schedule, rule, now).outset, at)
    for seen in foresee(rule, outset):
        if seen.slot >= at:
            return slot_of(rule, seen, held=held) if seen.slot == at else None
    return None


def _nearer(rule: Rule, outset: Outset, at: int) -> Outset:
    """A slot in years to come does not depend on all before it; those that do not run are too few to matter there."""
    first = outset.slot
    if first is None or rule.trigger.count(first, at) <= _FEW:
        return outset
    slot = at
    for _ in range(_FEW):
        slot = rule.trigger.prev_ms(slot) or slot
    return outset._replace(slot=slot, executions=outset.executions + rule.trigger.count(first, slot))


def slot_of(rule: Rule, seen: Foreseen, *, held: GateSays | None = None, earliest: bool = False) -> Slot:
    zone = rule.definition.trigger.timezone
    says = tuple(said(gate, verdict, seen.candidate, zone, FUTURE) for gate, verdict in seen.says)
    word, text = seen.word, _told(seen, zone, earliest=earliest)
    if held is not None and held.evidence is not None:
        word, text = held.evidence["state"], held.sentence
    local, utc = iso(seen.slot, zone), iso(seen.slot)
    return Slot(seen.slot, local, utc, seen.due_at, rule.trigger.dst_effect(seen.slot), word, text, seen.until, says)


def _told(seen: Foreseen, zone: str, *, earliest: bool) -> str:
    if seen.verdict is None:
        at = f" at {moment(seen.due_at, zone)}" if seen.due_at != seen.slot else ""
        return f"It runs{at}" + (", at the earliest: it counts from the end of the run before." if earliest else ".")
    verdict = seen.verdict
    text = sentence(verdict.reason, verdict.evidence, zone, state=verdict.state, at=seen.candidate.now, tense=FUTURE)
    return text if seen.until in (None, verdict.until) else f"{text} It goes on at {moment(seen.until, zone)}."


def _start(transaction: Transaction, policies: Policies, schedule: Schedule, rule: Rule, now: int) -> _Start:
    """Where the schedule goes on: where its cursor stands, or where it would after a pause."""
    slot, overdue, waits = schedule.next_slot, 0, False
    if schedule.definition is UNREADABLE:
        slot = None
    elif schedule.state != "active":
        if slot is not None and rule.trigger.kind != "once":
            slot = next_free(transaction, schedule.id, rule.trigger, max(now, schedule.paused_until or now))
    elif slot is not None and schedule.due_at is None:
        slot, waits = max(slot, rule.after_completion(schedule.id, None, now)[0]), True
    elif slot is not None and schedule.due_at is not None and schedule.due_at <= now and not _is_past_end(rule, slot):
        decision = rule.decide(slot, transaction.window_used(schedule.id), policies, now)
        gone = (*decision.missed, *decision.late, *(part.covered for part in decision.skipped))
        overdue = sum(covered.slots for covered in gone)
        slot = decision.next_slot if decision.on_time is None else decision.on_time
    waiting = _waiting(transaction, schedule.id)
    return _Start(
        Outset(schedule.id, schedule.agent, slot, schedule.executions, policies, now, waiting), overdue, waits
    )


def _is_past_end(rule: Rule, slot: int) -> bool:
    return rule.definition.ends_at is not None and slot > rule.definition.ends_at


def _waiting(transaction: Transaction, schedule_id: int) -> Waiting:
    """Runs that are put off until a time that is known."""
    runs = [run_of(row) for _, run, _ in transaction.live([schedule_id]) if (row := transaction.run(run)) is not None]
    parked = [run for run in runs if run.state is RunState.PARKED and run.not_before is not None]
    if not parked:
        return Waiting()
    waiting = tuple((run.id, int(run.state)) for run in runs if run.state <= RunState.QUEUED)
    return Waiting(waiting, max(run.not_before or 0 for run in parked))


def _runs_per_day(rule: Rule, outset: Outset) -> float:
    """Over four weeks, or over the days that it lasts; over one day when there are many."""
    few = rule.trigger.count(outset.now, outset.now + _HORIZON_DAYS * _DAY_MS) <= _FEW
    days = _HORIZON_DAYS if few else 1
    runs, last = 0, outset.now
    for seen in islice(foresee(rule, outset), _MOST_STEPS):
        if seen.slot > outset.now + days * _DAY_MS:
            return runs / days
        runs, last = runs + seen.runs, seen.slot
    return runs / max(1.0, (last - outset.now) / _DAY_MS)


def _cost_per_day(
    transaction: Transaction, schedule_id: int, definition: ScheduleDefinition, per_day: float
) -> tuple[str, int | None]:
    past = [Spent(usage.money, usage.tokens) for usage in transaction.past_spend(schedule_id, MOST_PAST)]
    if past:
        money, tokens = projected_per_day(past, per_day)
        return format_money(money), tokens
    if definition.max_cost is not None:
        return f"at most {format_money(math.ceil(definition.max_cost * per_day))}", None
    return "unknown", None


def _then(rule: Rule, seen: list[Foreseen], stands: GateSays) -> str:
    if not stands.passes:
        return stands.sentence
    if seen and seen[-1].verdict is not None and seen[-1].verdict.reason == "end_date":
        return "Then it has come to its end."
    most = rule.definition.max_executions
    if most is not None and rule.trigger.kind != "once":
        return f"Then it has run {most} times, as often as it may."
    return "There is no slot after that."


def check_count(count: int) -> None:
    if type(count) is not int or not 1 <= count <= MOST_SLOTS:
        raise InvalidInput(f'"count" must be 1 to {MOST_SLOTS}, got {count!r}', value=count, field="count")
