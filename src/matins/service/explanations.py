"""Why a schedule ran or did not run: the record of the slot, and what would happen now.

Why a run that may start has not started: no engine runs, no node offers what it needs, or a limit is reached.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from matins.api.results import AttemptSummary, Explanation, GateReport, RunDetail, Slot
from matins.engine.jobs import wakes_agent
from matins.engine.placement import NO_NODE
from matins.engine.policies import Policies
from matins.engine.reasons import local_time, run_summary
from matins.engine.steps import parts_of
from matins.engine.when.durations import DAY_MS
from matins.engine.when.triggers import to_datetime
from matins.model.access import Principal
from matins.model.rows import WorkerRow
from matins.model.run import RunRecord, RunState
from matins.model.schedule import HELD_STATES, ScheduleRecord
from matins.model.trigger import Interval
from matins.model.words import Sentence
from matins.runtime.capacity import run_needs
from matins.runtime.catalog import CompiledSchedule, run_record
from matins.service.approvals import approval_results
from matins.service.calls import call_results
from matins.service.core import LEASE_MS, Core
from matins.service.forecasts import slot_at
from matins.service.gate_reports import full_limits, gate_records, gate_reports, state_report
from matins.service.jobs import fails_without, troubles_of
from matins.service.run_views import check_results, unsent_sentence, whole_result
from matins.store.transaction import Transaction

LATE_MS = 5_000
"""How long an engine may take to start what is due."""


def why_unstarted(
    core: Core, transaction: Transaction, policies: Policies, run: RunRecord,
    engines: Sequence[WorkerRow], now: int,
) -> Sentence | None:  # fmt: skip
    """What keeps the run, or a step of it, from starting. None if its own record says why it waits, or it may start at
    any moment."""
    if run.state is RunState.RUNNING and run.step == 0:
        return _of_steps(core, transaction, policies, run, engines, now)
    reason = _reason(core, transaction, policies, run, engines, now)
    if reason is None:
        return None
    if reason.startswith(NO_NODE):
        return Sentence(f"{reason}.", next((one.note for one in engines if one.note), None))
    return Sentence(f"{'Ready' if run.state is RunState.READY else 'Waiting'}: {reason}.")


def _of_steps(
    core: Core, transaction: Transaction, policies: Policies, run: RunRecord,
    engines: Sequence[WorkerRow], now: int,
) -> Sentence | None:  # fmt: skip
    """The sentence about a run none of whose steps has a worker, although one should have."""
    whole = core.catalog.find(transaction, (run.schedule_id, run.rev, 0))
    if not isinstance(whole, CompiledSchedule) or not whole.steps:
        return None
    steps = [run_record(row) for row in transaction.steps_of(run.id)]
    if any(step.state in (RunState.STARTING, RunState.RUNNING) for step in steps):
        return None
    for step in steps:
        reason = _reason(core, transaction, policies, step, engines, now)
        if reason is not None:
            reason = reason[0].lower() + reason[1:]
            return Sentence(f"Running, but one of its steps does not start: {reason}", whole.steps[step.step - 1].title)
    return None


def _reason(
    core: Core, transaction: Transaction, policies: Policies, run: RunRecord,
    engines: Sequence[WorkerRow], now: int,
) -> str | None:  # fmt: skip
    if run.state not in (RunState.READY, RunState.WAITING) or run.not_before is None or run.not_before > now:
        return None
    if not engines:
        return "no engine is running"
    if run.state is RunState.WAITING:
        return None
    compiled = core.catalog.find(transaction, (run.schedule_id, run.rev, run.step))
    if not isinstance(compiled, CompiledSchedule):
        return None
    if not compiled.steps:
        nowhere = core.jobs.no_node_for(run_needs(transaction, run.id), engines, dict(transaction.turned_away(run.id)))
        if nowhere is not None:
            since = local_time(run.not_before, compiled.definition.trigger.timezone, now - DAY_MS + 1)
            return f"{nowhere} It waits since {since}"
    limits = full_limits(transaction, compiled)
    if limits:
        return limits
    return "no engine has started it yet" if now - run.not_before > LATE_MS else None


Status = Literal["record", "due", "to_come", "no_slot", "before", "held_back", "forgotten", "no_record", "nothing_yet"]
_NEVER_DUE = "The schedule never fires by time, and nothing has started it yet."
_MAX_CALLS = 20


class _Answer(NamedTuple):
    status: Status
    summary: Sentence
    run: RunRecord | None = None
    slot: Slot | None = None
    nearest: tuple[int, ...] = ()


class _Question(NamedTuple):
    transaction: Transaction
    policies: Policies
    schedule: ScheduleRecord
    compiled: CompiledSchedule
    now: int
    engines: Sequence[WorkerRow]
    core: Core

    @property
    def zone(self) -> str:
        return self.compiled.definition.trigger.timezone

    def local(self, at: int) -> str:
        return local_time(at, self.zone)


@dataclass(frozen=True)
class Explanations:
    core: Core

    def why(self, principal: Principal, name: str, *, at: int | None = None, agent: str | None = None) -> Explanation:
        now, engines = self.core.clock.now_ms(), self.core.store.engines(LEASE_MS)
        with self.core.store.reading() as transaction:
            schedule = self.core.find(transaction, name, agent, deleted=True)
            compiled = self.core.catalog.find(transaction, (schedule.id, schedule.rev, 0))
            if not isinstance(compiled, CompiledSchedule):
                return _unreadable(schedule, at)
            policies = self.core.catalog.policies(transaction)
            question = _Question(transaction, policies, schedule, compiled, now, engines, self.core)
            answer = _with_move(question, _last(question) if at is None else self._about(question, at), at)
            return Explanation(
                schedule_id=str(schedule.id),
                schedule=schedule.name,
                agent=schedule.agent,
                state=schedule.state,
                timezone=question.zone,
                at=to_datetime(at),
                status=answer.status,
                summary=answer.summary.text,
                quote=answer.summary.quote,
                run=None if answer.run is None else self._detail(transaction, answer.run, question.zone),
                slot=answer.slot,
                nearest=[to_datetime(slot) for slot in answer.nearest],
                now=[
                    *gate_reports(transaction, policies, schedule, compiled, now),
                    *self._engines(schedule, engines, policies),
                ],
            )

    def _engines(
        self, schedule: ScheduleRecord, engines: Sequence[WorkerRow], policies: Policies
    ) -> Iterator[GateReport]:
        """A report of what no live node offers: without it, a run that passes all gates waits, or fails."""
        missing = self.core.jobs.missing([schedule], engines, policies)
        if missing:
            then = "Runs fail." if fails_without(schedule, missing) else "Runs wait for one."
            nowhere = self.core.jobs.no_node(schedule.definition, schedule.agent, engines, policies)
            text = f"{nowhere} {then}"
            yield GateReport("engine", False, text, {"needs": sorted(missing)})
        troubles = troubles_of(engines)
        if troubles and not missing and _wakes_agent(schedule):
            hosts = "; ".join(f"{host}: {reason}" for host, reason in troubles)
            rest = "The other engines start them" if len(troubles) < len(engines) else "Runs wait"
            text = f"Agents cannot be started on some machines ({hosts}). {rest}."
            yield GateReport("engine", len(troubles) < len(engines), text, {"hosts": dict(troubles)})

    def _detail(self, transaction: Transaction, run: RunRecord, zone: str) -> RunDetail:
        compiled = self.core.catalog.find(transaction, (run.schedule_id, run.rev, run.step))
        sentence, known = run_summary(run, zone), compiled if isinstance(compiled, CompiledSchedule) else None
        return RunDetail(
            run=whole_result(transaction, self.core.catalog, run),
            sentence=sentence.text,
            quote=sentence.quote,
            attempts=[
                AttemptSummary(row.epoch, str(row.owner), to_datetime(row.started_at))
                for row in transaction.attempts(run.id)
            ],
            checks=check_results(transaction, run.id),
            approvals=approval_results(self.core, transaction, transaction.approvals_of_run(run.id)),
            calls=call_results(transaction, transaction.calls_of_run(run.id, _MAX_CALLS)),
            gates=[] if known is None else gate_records(known, run, sentence),
            unsent=unsent_sentence(transaction, self.core.catalog, run, known),
        )

    def _about(self, question: _Question, at: int) -> _Answer:
        transaction, schedule = question.transaction, question.schedule
        run_id = transaction.run_at(schedule.id, at)
        if run_id is not None:
            run = self.core.run(transaction, run_id)
            compiled = self.core.catalog.find(transaction, (schedule.id, run.rev, 0))
            if at in (run.slot, run.first_slot) or (
                isinstance(compiled, CompiledSchedule) and _is_slot(compiled, schedule, at)
            ):
                return _recorded(question, run, at)
        if at < schedule.created_at:
            made = question.local(schedule.created_at)
            return _Answer("before", Sentence(f"The schedule did not exist then. It was added on {made}."))
        if not _is_slot(question.compiled, schedule, at):
            nearest = _nearest(question, at)
            near = " and ".join(question.local(slot) for slot in nearest)
            text = f"The schedule has no slot at {question.local(at)}"
            return _Answer(
                "no_slot", Sentence(f"{text}. The nearest: {near}." if near else f"{text}."), nearest=nearest
            )
        if schedule.next_slot is not None and at >= schedule.next_slot:
            return _ahead(question, at)
        return _gone(question, at) if at <= question.now else _Answer("to_come", _never(question))


def _last(question: _Question) -> _Answer:
    """The reason why the schedule is stopped now, or else its newest record."""
    schedule = question.schedule
    newest = next(
        (_recorded(question, run_record(row)) for row in question.transaction.newest_runs([schedule.id])), None
    )
    if schedule.state in HELD_STATES:
        stopped = _state(schedule)
        return _Answer("held_back", stopped) if newest is None else newest._replace(summary=stopped)
    patience = LATE_MS if question.engines else 0
    if schedule.due_at is not None and question.now - schedule.due_at > patience:
        return _Answer("due", _overdue(question, schedule.due_at), None if newest is None else newest.run)
    if newest is not None:
        return newest
    if schedule.next_slot is None:
        never = schedule.state == "active" and question.compiled.timetable.trigger.kind == "never"
        return _Answer("nothing_yet", Sentence(_NEVER_DUE) if never else _state(schedule))
    first = question.local(schedule.next_slot)
    return _Answer("nothing_yet", Sentence(f"The schedule has not been due yet. Its first slot is {first}."))


def _with_move(question: _Question, answer: _Answer, at: int | None) -> _Answer:
    """The answer, and why the slot in question, or the next one, moved."""
    schedule = question.schedule
    versions = (one for one in question.transaction.zone_versions() if one.name == question.zone)
    since = max((one.moved_at for one in versions if one.moved_at is not None), default=None)
    move = None if since is None else question.transaction.last_move(schedule.id, since)
    if move is None:
        return answer
    old, new, zone = move.data["from"], move.data["to"], move.data["zone"]
    slots = (at,) if at is not None else (schedule.next_slot, None if answer.run is None else answer.run.slot)
    if old not in slots and (new is None or new not in slots):
        return answer
    to = "it has none now" if new is None else f"it is {question.local(new)} now"
    text, quote = answer.summary
    told = (
        f"The data of time zone {zone} changed on {question.local(move.at)}: the slot was {question.local(old)}, {to}."
    )
    return answer._replace(summary=Sentence(f"{text} {told}", quote))


def _recorded(question: _Question, run: RunRecord, at: int | None = None) -> _Answer:
    when = _started_by(question, run) if run.slot is None else question.local(run.slot)
    core, transaction, policies = question.core, question.transaction, question.policies
    unstarted = why_unstarted(core, transaction, policies, run, question.engines, question.now)
    text, quote = unstarted or run_summary(run, question.zone)
    return _Answer("record", Sentence(f"{when}: {text}{_kept(question, run)}{_made_up(question, run, at)}", quote), run)


def _made_up(question: _Question, run: RunRecord, at: int | None) -> str:
    """What became of the slot after its record."""
    slot = run.slot if at is None else at
    found = None if slot is None else question.transaction.made_up_by(run.schedule_id, slot, run.id)
    if found is None:
        return ""
    number, state = found[0], RunState(found[1])
    if state is RunState.SUCCEEDED:
        return f" Made up for by run {number}."
    return f" Run {number} stands for it: {state.displayed}."


def _kept(question: _Question, run: RunRecord) -> str:
    """What a held run keeps from others."""
    if run.state is not RunState.HELD:
        return ""
    scopes = [f'"{scope}"' for scope, run_id in question.transaction.held_permits() if run_id == run.id]
    return f" Until then it keeps its place in {' and '.join(scopes)}." if scopes else ""


def _started_by(question: _Question, run: RunRecord) -> str:
    at = question.local(run.planned_at)
    if run.for_slot is not None:
        by = "Started manually" if run.backfill is None else f"Started by backfill {run.backfill}"
        return f"{by} at {at} for {question.local(run.for_slot)}"
    calls = question.transaction.calls_of_run(run.id, 1)
    if not calls:
        return f"Started manually at {at}"
    source, name = calls[0].source, calls[0].name.removeprefix("/")
    return f"Called by {source} {name} at {at}"


def _ahead(question: _Question, at: int) -> _Answer:
    """A slot that is not planned yet."""
    if at <= question.now:
        stops = question.schedule.state in HELD_STATES
        stopped = _state(question.schedule)
        return _Answer("held_back", stopped) if stops else _Answer("due", _overdue(question, at))
    transaction, policies, schedule, compiled, now = question[:5]
    slot = slot_at(transaction, policies, schedule, compiled, at, now)
    return _Answer("to_come", _never(question) if slot is None else Sentence(slot.sentence, slot.quote), slot=slot)


def _state(schedule: ScheduleRecord) -> Sentence:
    report = state_report(schedule)
    return Sentence(report.sentence, report.quote)


def _overdue(question: _Question, at: int) -> Sentence:
    who = "no engine has started it yet" if question.engines else "no engine is running"
    return Sentence(f"Due since {question.local(at)}: {who}.")


def _never(question: _Question) -> Sentence:
    ended = state_report(question.schedule).passes
    return Sentence("The schedule has ended by then.") if ended else _state(question.schedule)


def _nearest(question: _Question, at: int) -> tuple[int, ...]:
    transaction, schedule, trigger = question.transaction, question.schedule, question.compiled.timetable.trigger
    if not _elapsed(question.compiled):
        found = [slot for slot in (trigger.prev_ms(at), trigger.next_ms(at)) if slot is not None]
        return tuple(slot for slot in found if slot >= schedule.created_at)
    before = transaction.run_before(schedule.id, at)
    row = None if before is None else transaction.run(before)
    slots = (None if row is None else run_record(row).slot, schedule.next_slot)
    return tuple(slot for slot in slots if slot is not None)


def _gone(question: _Question, at: int) -> _Answer:
    """A past slot without a record: the schedule did not run then, or the record is deleted."""
    transaction, schedule = question.transaction, question.schedule
    change = transaction.last_change(schedule.id, at)
    if change is not None and change.type == "schedule.paused":
        text = f"The schedule was paused by {change.data.get('by')} since {question.local(change.at)}."
        return _Answer("held_back", Sentence(text, change.data.get("note")))
    if change is not None and change.type == "schedule.broken":
        return _Answer("held_back", Sentence("The schedule was broken then.", change.data.get("error")))
    purged = transaction.purged_slot(schedule.id)
    if purged is not None and purged >= at:
        return _Answer("forgotten", Sentence("The record is no longer kept."))
    if schedule.updated_at > at:
        changed = question.local(schedule.updated_at)
        text = f"There is no record. The schedule was changed after that, last on {changed}."
        return _Answer("no_record", Sentence(text))
    return _Answer("no_record", Sentence("There is no record."))


def _is_slot(compiled: CompiledSchedule, schedule: ScheduleRecord, at: int) -> bool:
    """Whether there is a slot at `at`. An interval from the last run has only the next slot."""
    return at == schedule.next_slot if _elapsed(compiled) else compiled.timetable.trigger.count(at, at + 1) > 0


def _elapsed(compiled: CompiledSchedule) -> bool:
    when = compiled.definition.trigger.when
    return isinstance(when, Interval) and when.anchor != "grid"


def _wakes_agent(schedule: ScheduleRecord) -> bool:
    return any(wakes_agent(part) for part, _ in parts_of(schedule.definition, schedule.agent))


def _unreadable(schedule: ScheduleRecord, at: int | None) -> Explanation:
    report = state_report(schedule)
    return Explanation(
        schedule_id=str(schedule.id),
        schedule=schedule.name,
        agent=schedule.agent,
        state=schedule.state,
        timezone="UTC",
        at=to_datetime(at),
        status="held_back",
        summary=report.sentence,
        quote=report.quote,
        run=None,
        slot=None,
        nearest=[],
        now=[report],
    )
