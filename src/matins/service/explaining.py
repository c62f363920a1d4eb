"""Why it did or did not run: the slot's record, and what would happen now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from matins.engine.policies import Policies
from matins.engine.reasons import moment, story
from matins.model.policy import Approval
from matins.model.principal import Principal
from matins.model.run import Run
from matins.model.schedule import Schedule
from matins.model.trigger import Interval
from matins.ports import Transaction
from matins.runtime.catalog import Known
from matins.runtime.rows import run_of
from matins.service.base import UseCases
from matins.service.forecasts import Slot, slot_at
from matins.service.gates_now import GateSays, gates_now, standing
from matins.service.jobs import lacks
from matins.service.rights import needs
from matins.service.stats import LEASE_MS

Found = Literal["record", "due", "to_come", "no_slot", "before", "held_back", "forgotten", "no_record", "nothing_yet"]
_LATE_MS = 5_000
_CHECK = ("epoch", "gate", "at", "took_ms", "exit_code", "said", "output")
_STOPPED = ("paused", "pending", "rejected", "broken")


@dataclass(frozen=True, slots=True)
class Attempt:
    epoch: int
    worker: int
    started_at: int


@dataclass(frozen=True, slots=True)
class Record:
    """All that is known of a run."""

    run: Run
    sentence: str
    attempts: tuple[Attempt, ...]
    checks: tuple[dict[str, Any], ...]
    """What guards, pre-checks and hooks said."""
    approvals: tuple[Approval, ...]
    """What people were asked, and their votes; the newest first."""


@dataclass(frozen=True, slots=True)
class Why:
    schedule: str
    agent: str
    state: str
    timezone: str
    at: int | None
    """The slot that was asked about."""
    found: Found
    answer: str
    """In a sentence."""
    record: Record | None
    slot: Slot | None
    """What would become of a slot to come."""
    nearest: tuple[int, ...]
    """The slots before and after an instant that is none."""
    now: tuple[GateSays, ...]
    """Gate by gate, if it were due now."""


class _Answer(NamedTuple):
    found: Found
    answer: str
    run: Run | None = None
    slot: Slot | None = None
    nearest: tuple[int, ...] = ()


class _Question(NamedTuple):
    transaction: Transaction
    policies: Policies
    schedule: Schedule
    known: Known
    now: int
    engines: int

    @property
    def zone(self) -> str:
        return self.known.definition.trigger.timezone

    def told(self, at: int) -> str:
        return moment(at, self.zone)


class Explaining(UseCases):
    @needs("read")
    def why(self, principal: Principal, name: str, at: int | None = None, agent: str | None = None) -> Why:
        """What became of a slot (by default, of the last) and what would happen now, gate by gate."""
        now, engines = self._clock.now_ms(), self._store.engines(LEASE_MS)
        with self._store.reading() as transaction:
            schedule = self._find(transaction, name, agent)
            known = self._catalog.get(transaction, [(schedule.id, schedule.rev)])[schedule.id, schedule.rev]
            if not isinstance(known, Known):
                return _unreadable(schedule, at)
            policies = self._catalog.policies(transaction)
            question = _Question(transaction, policies, schedule, known, now, engines)
            answer = _last(question) if at is None else self._about(question, at)
            return Why(
                schedule.name, schedule.agent, schedule.state, question.zone, at, answer.found, answer.answer,
                None if answer.run is None else _record(transaction, answer.run, question.zone), answer.slot,
                answer.nearest, (*gates_now(transaction, policies, schedule, known, now), *self._job(known)),
            )  # fmt: skip

    def _job(self, known: Known) -> Iterator[GateSays]:
        """No gate, but told like one: without its job, a run that passes them all fails."""
        job = known.definition.do
        if lacks(self.own_jobs, job):
            yield GateSays("job", False, f'The engine here has no job "{job}": a run fails at once.', {"job": job})

    def _about(self, question: _Question, at: int) -> _Answer:
        transaction, schedule = question.transaction, question.schedule
        run_id = transaction.run_at(schedule.id, at)
        if run_id is not None:
            run = self._run(transaction, run_id)
            said = self._catalog.get(transaction, [(schedule.id, run.rev)]).get((schedule.id, run.rev))
            if at in (run.slot, run.covered_from) or (isinstance(said, Known) and _is_slot(said, schedule, at)):
                return _recorded(question, run)
        if at < schedule.created_at:
            made = question.told(schedule.created_at)
            return _Answer("before", f"The schedule did not exist then: it was made on {made}.")
        if not _is_slot(question.known, schedule, at):
            return _no_slot(question, at)
        if schedule.next_slot is not None and at >= schedule.next_slot:
            return _ahead(question, at)
        return _gone(question, at) if at <= question.now else _Answer("to_come", _never(question))


def _last(question: _Question) -> _Answer:
    """What stops it now, if anything does; else its newest record."""
    schedule = question.schedule
    row = question.transaction.newest_run(schedule.id)
    newest = None if row is None else _recorded(question, run_of(row))
    if schedule.state in _STOPPED:
        stopped = standing(schedule, question.zone).sentence
        return _Answer("held_back", stopped) if newest is None else newest._replace(answer=stopped)
    patience = _LATE_MS if question.engines else 0
    if schedule.due_at is not None and question.now - schedule.due_at > patience:
        return _Answer("due", _overdue(question, schedule.due_at), None if newest is None else newest.run)
    if newest is not None:
        return newest
    if schedule.next_slot is None:
        return _Answer("nothing_yet", standing(schedule, question.zone).sentence)
    return _Answer("nothing_yet", f"It has not been due yet: its first slot is {question.told(schedule.next_slot)}.")


def _recorded(question: _Question, run: Run) -> _Answer:
    when = f"Started by hand at {question.told(run.planned_at)}" if run.slot is None else question.told(run.slot)
    return _Answer("record", f"{when}: {story(run, question.zone)}", run)


def _ahead(question: _Question, at: int) -> _Answer:
    """A slot that the cursor has not come to yet."""
    if at <= question.now:
        stops = question.schedule.state in _STOPPED
        stopped = standing(question.schedule, question.zone).sentence
        return _Answer("held_back", stopped) if stops else _Answer("due", _overdue(question, at))
    transaction, policies, schedule, known, now, _ = question
    slot = slot_at(transaction, policies, schedule, known.rule, at, now)
    return _Answer("to_come", _never(question) if slot is None else slot.sentence, slot=slot)


def _overdue(question: _Question, at: int) -> str:
    who = "no engine has taken it up yet" if question.engines else "no engine is running"
    return f"It is due since {question.told(at)}, but {who}."


def _never(question: _Question) -> str:
    schedule = question.schedule
    stands = standing(schedule, question.zone)
    return "By then it has come to its end." if stands.passes else stands.sentence


def _no_slot(question: _Question, at: int) -> _Answer:
    nearest = _nearest(question, at)
    near = " and ".join(question.told(slot) for slot in nearest)
    text = f"It has no slot at {question.told(at)}"
    return _Answer("no_slot", f"{text}; the nearest: {near}." if near else f"{text}.", nearest=nearest)


def _nearest(question: _Question, at: int) -> tuple[int, ...]:
    transaction, schedule, trigger = question.transaction, question.schedule, question.known.rule.trigger
    if not _elapsed(question.known):
        found = [slot for slot in (trigger.prev_ms(at), trigger.next_ms(at)) if slot is not None]
        return tuple(slot for slot in found if slot >= schedule.created_at)
    before = transaction.run_before(schedule.id, at)
    row = None if before is None else transaction.run(before)
    slots = (None if row is None else run_of(row).slot, schedule.next_slot)
    return tuple(slot for slot in slots if slot is not None)


def _gone(question: _Question, at: int) -> _Answer:
    """A slot that is past and has no record: the schedule did not run then, or the record is forgotten."""
    transaction, schedule = question.transaction, question.schedule
    change = transaction.last_change(schedule.id, at)
    if change is not None and change[0] == "schedule.paused":
        note = f": {change[2]['note']}" if change[2].get("note") else ""
        by = change[2].get("by")
        return _Answer("held_back", f"It was paused then, by {by} since {question.told(change[1])}{note}.")
    if change is not None and change[0] == "schedule.broken":
        return _Answer("held_back", f"It was set aside then, because it could not be used: {change[2].get('error')}.")
    purged = transaction.purged_slot(schedule.id)
    if purged is not None and purged >= at:
        return _Answer("forgotten", "Its record is no longer kept: history goes back only so far.")
    if schedule.updated_at > at:
        changed = question.told(schedule.updated_at)
        return _Answer("no_record", f"There is no record of it: the schedule was changed since, last on {changed}.")
    return _Answer("no_record", "There is no record of it.")


def _is_slot(known: Known, schedule: Schedule, at: int) -> bool:
    """What counts from the last run has no slots but its records' and the next one."""
    return at == schedule.next_slot if _elapsed(known) else known.rule.trigger.count(at, at + 1) > 0


def _elapsed(known: Known) -> bool:
    when = known.definition.trigger.when
    return isinstance(when, Interval) and when.anchor != "grid"


def _record(transaction: Transaction, run: Run, zone: str) -> Record:
    return Record(
        run,
        story(run, zone),
        tuple(Attempt(*row) for row in transaction.attempts(run.id)),
        tuple(dict(zip(_CHECK, row, strict=True)) for row in transaction.checks(run.id)),
        tuple(transaction.approvals_of_run(run.id)),
    )


def _unreadable(schedule: Schedule, at: int | None) -> Why:
    says = standing(schedule, "UTC")
    name, agent, state = schedule.name, schedule.agent, schedule.state
    return Why(name, agent, state, "UTC", at, "held_back", says.sentence, None, None, (), (says,))
