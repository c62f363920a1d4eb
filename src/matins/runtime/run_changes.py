"""Every transition of a run, with its consequences: a `RunChange` says what, `apply` does it.

`unfold` and `next_changes`: the steps of a run, made when it starts, and changed when one of them ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from matins.engine.answers import FAILED, ChatPlace, answer_text, decide, digest_of, joined_answers
from matins.engine.audit import end_facts
from matins.engine.calls import mapping_of
from matins.engine.gates.state import BY_FAILURES
from matins.engine.planning import Timetable
from matins.engine.policies import Policies
from matins.engine.reasons import last_error, sentence, summary_data
from matins.engine.schedules import trigger_source
from matins.engine.steps import WAITING_FOR_STEP, StepState, advance, numbers_after, repeated
from matins.engine.targets import BY_SESSION_ID, SESSION_GONE
from matins.engine.transitions import (
    BLOCK,
    CANCEL,
    CANCEL_WAITING,
    CLAIM,
    DENY,
    EXPIRE,
    FAIL,
    FAIL_UNSTARTED,
    HOLD,
    INITIAL_STATES,
    JOIN,
    MARK_READY,
    MARK_UNKNOWN,
    MISS,
    PROMOTE,
    REFUSE_FOR_BUDGET,
    RETRY,
    SKIP,
    SUCCEED,
    SUSPEND,
    THROTTLE,
    Transition,
    next_attempt_at,
)
from matins.engine.when.triggers import compile_trigger
from matins.model.access import signed
from matins.model.destination import CHAT_CHANNELS, FINAL, AnswerRow
from matins.model.policies import Throttle
from matins.model.rows import (
    NewEvent,
    NewStep,
    NextSlot,
    PlainEnd,
    ReadyRun,
    RunRow,
    StartedRun,
    StateChange,
    from_tuple,
)
from matins.model.run import AgentTurn, Outcome, ProviderLimit, RunState, ThreadAssignment, Usage
from matins.model.schedule import ScheduleDefinition, Step
from matins.plugins import installed
from matins.runtime import approval_requests, spending
from matins.runtime.attempt import AttemptEnd
from matins.runtime.catalog import Catalog, CompiledSchedule, call_context, schedule_record
from matins.runtime.new_runs import next_uncovered_slot
from matins.runtime.pausing import is_held, pause
from matins.store.transaction import Transaction


class RunChange(NamedTuple):
    """A transition of a run, with its results."""

    run_id: int
    epoch: int
    slot: int | None
    compiled: CompiledSchedule
    transition: Transition
    at: int
    not_before: int | None = None
    reason: str | None = None
    outcome: dict[str, Any] | None = None
    evidence: dict[str, Any] | None = None
    cleared: int = 0
    renewed: bool = False
    usage: Usage | None = None
    limit: ProviderLimit | None = None
    turn: AgentTurn | None = None
    attempt: int | None = None
    """The number of the attempt that ended."""


def event_type(compiled: CompiledSchedule, kind: str) -> str:
    """The type of an event of a run: `step.failed` instead of `run.failed` when the run is a step."""
    return step_event(kind) if compiled.step else kind


def step_event(kind: str) -> str:
    """The type of an event of a step, by that of a run."""
    return kind.replace("run.", "step.", 1)


CARRIED_OVER = "carried_over"
_REASONS = {
    RunState.FAILED: "failed",
    RunState.OVER_BUDGET: "over_budget",
    RunState.UNKNOWN: "unknown",
    RunState.INTERRUPTED: "stopped",
    RunState.CANCELLED: "cancelled",
    RunState.DENIED: "denied",
    RunState.EXPIRED: "approval_expired",
    RunState.SKIPPED: "steps_skipped",
}
"""The reason of a run's end, by what its steps came to."""


def unfold(
    transaction: Transaction, row: ReadyRun, item: CompiledSchedule, place: Callable[[CompiledSchedule], int], now: int
) -> bool:
    """Start a run of steps: the run itself has no worker, and its steps are created. False if another was faster."""
    done = _carried_over(transaction, row, item)
    round_number = transaction.unfold(row.id, row.epoch, now)
    if round_number is None:
        return False
    data = {"round": round_number, "when": trigger_source(item.definition.trigger)}
    transaction.events.append(NewEvent(now, CLAIM.event, row.schedule_id, row.id, data))
    ids = transaction.run_ids(len(item.steps))
    after = numbers_after(item.steps)
    steps = [
        _new_step(run_id, row, item, number, round_number, done.get(number), now)
        if number in done or done.keys() >= set(after[number - 1])
        else _waiting(_new_step(run_id, row, item, number, round_number, None, now))
        for number, run_id in enumerate(ids, 1)
    ]
    steps = [step._replace(place=place(item.step_of(step.step))) for step in steps]
    transaction.insert_steps(steps)
    transaction.events.extend(_created(step, item.steps[step.step - 1], now) for step in steps)
    return True


def _carried_over(transaction: Transaction, row: ReadyRun, item: CompiledSchedule) -> dict[int, RunRow]:
    """The steps of the last round, or of the run that is retried, that need not run again."""
    source, start = (row.id, None) if row.attempt else transaction.retry_of(row.id)
    before = {} if source is None else {step.step: step for step in transaction.steps_of(source)}
    succeeded = [number for number, step in before.items() if step.state == RunState.SUCCEEDED]
    again = repeated(numbers_after(item.steps), succeeded, start)
    return {number: step for number, step in before.items() if number not in again}


def _new_step(
    run_id: int, row: ReadyRun, item: CompiledSchedule, number: int, round_number: int, done: RunRow | None, now: int
) -> NewStep:
    step = item.steps[number - 1]
    agent = step.agent or item.agent
    made = NewStep(
        run_id, row.schedule_id, row.rev, RunState.READY, f"agent:{agent}" if agent else None, now, now, None, None,
        None, None, None, row.id, number, round_number, 0, row.given,
    )  # fmt: skip
    if done is not None:
        evidence = orjson.dumps({"run": str(done.id)}).decode()
        ends = {"started_at": done.started_at, "ended_at": now, "reason": CARRIED_OVER, "evidence": evidence}
        return made._replace(state=RunState.SUCCEEDED, not_before=None, outcome=done.outcome, **ends)
    return made


def _waiting(step: NewStep) -> NewStep:
    return step._replace(state=RunState.WAITING, not_before=None, reason=WAITING_FOR_STEP)


def _created(made: NewStep, step: Step, now: int) -> NewEvent:
    kind = SUCCEED.event if made.state == RunState.SUCCEEDED else INITIAL_STATES[RunState(made.state)]
    data: dict[str, Any] = {"title": step.title, "step": made.step, "of": str(made.parent)}
    if made.reason is not None:
        data["reason"] = made.reason
    if made.state == RunState.SUCCEEDED:
        data |= {**end_facts(made.rev, made.outcome), "started_at": made.started_at}
    return NewEvent(now, step_event(kind), made.schedule_id, made.id, data)


def next_changes(transaction: Transaction, ended: Sequence[int], now: int) -> tuple[list[RunChange], list[StartedRun]]:
    """The changes that follow when these steps have ended: of steps that waited for them, and of their runs. Also the
    runs whose settings cannot be read."""
    changes: list[RunChange] = []
    unreadable: list[StartedRun] = []
    for parent in transaction.live_runs(transaction.parents_of(ended)):
        steps = {row.step: row for row in transaction.steps_of(parent.id)}
        keys = [parent.key, *((row.schedule_id, row.rev, row.step) for row in steps.values())]
        compiled = Catalog(cache=False).compiled(transaction, keys)
        items = {key[2]: item for key, item in compiled.items() if isinstance(item, CompiledSchedule)}
        if len(items) == len(keys):
            changes += _after(transaction, parent, steps, items, now)
        else:
            unreadable.append(parent)
    return changes, unreadable


def _after(
    transaction: Transaction,
    parent: StartedRun,
    steps: Mapping[int, RunRow],
    items: Mapping[int, CompiledSchedule],
    now: int,
) -> list[RunChange]:
    whole = items[0]
    following = advance(numbers_after(whole.steps), {number: _state(row) for number, row in steps.items()})
    changes = [_skipped(steps[number], items[number], whole, other, now) for number, other in following.skipped.items()]
    changes += [_ready(transaction, parent, steps[number], items[number], now) for number in following.ready]
    if following.outcome is not None:
        changes.append(_joined(parent, whole, steps, following.outcome, now))
    return changes


def _ready(transaction: Transaction, parent: StartedRun, row: RunRow, item: CompiledSchedule, now: int) -> RunChange:
    """The change of a step that may start now, unless its schedule is held or its run is cancelled."""
    change = RunChange(row.id, row.epoch, None, item, MARK_READY, now, now)
    if parent.cancelling:
        return change._replace(transition=CANCEL_WAITING, not_before=None, reason="cancelled")
    held = is_held(transaction, parent.schedule_id)
    return change._replace(transition=SUSPEND, reason="paused") if held else change


def _state(row: RunRow) -> StepState:
    state = RunState(row.state)
    return StepState(state, state is RunState.WAITING and row.reason == WAITING_FOR_STEP)


def _skipped(row: RunRow, item: CompiledSchedule, whole: CompiledSchedule, other: int, now: int) -> RunChange:
    evidence = {"step": whole.steps[other - 1].title}
    return RunChange(row.id, row.epoch, None, item, SKIP, now, None, "step_failed", None, evidence)


def _joined(
    parent: StartedRun, whole: CompiledSchedule, steps: Mapping[int, RunRow], outcome: RunState, now: int
) -> RunChange:
    """The end of a run whose steps have all ended, or its next round."""
    if parent.cancelling and outcome is not RunState.FAILED:
        outcome = RunState.CANCELLED
    wrong = [whole.steps[number - 1].title for number, row in steps.items() if row.state == outcome]
    change = RunChange(parent.id, parent.epoch, parent.slot, whole, JOIN[outcome], now)
    if outcome is RunState.SUCCEEDED:
        return change._replace(outcome=_answer(whole, steps))
    change = change._replace(reason=_REASONS[outcome], evidence={"steps": wrong}, outcome={"error": _error(steps)})
    again = next_attempt_at(whole.definition, parent.id, parent.attempt, now) if outcome is RunState.FAILED else None
    if again is None or parent.cancelling:
        return change
    return change._replace(transition=RETRY, not_before=again, reason="failed_attempt")


def _answer(whole: CompiledSchedule, steps: Mapping[int, RunRow]) -> dict[str, Any] | None:
    """The result of the last step, when there is one that all others lead to; else the texts of those that no other
    waits for."""
    awaited = {other for after in numbers_after(whole.steps) for other in after}
    last = [number for number in sorted(steps) if number not in awaited]
    if len(last) == 1:
        return _outcome_of(steps[last[0]]) or None
    text = joined_answers([(whole.steps[one - 1].title, answer_text(_outcome_of(steps[one]))) for one in last])
    return {"result": {"text": text}} if text else None


def _outcome_of(row: RunRow) -> dict[str, Any]:
    return orjson.loads(row.outcome) if row.outcome else {}


def _error(steps: Mapping[int, RunRow]) -> str | None:
    """The error of the first step that has one."""
    errors = [_outcome_of(row).get("error") for row in steps.values() if row.state != RunState.SUCCEEDED]
    return next((error for error in errors if error), None)


_MAX_REPR_LENGTH = 8_000
_NOT_STOPPED = ("active", "completed", "paused")
_HELD_BACK = ("pending", "paused", "broken")
_new_event, _plain_end = from_tuple(NewEvent), from_tuple(PlainEnd)
_FAILURES = (FAIL, FAIL_UNSTARTED)
_NEVER_RAN = (SKIP, BLOCK, MISS, DENY, EXPIRE, REFUSE_FOR_BUDGET)


def apply(
    transaction: Transaction,
    changes: Sequence[RunChange],
    now: int,
    *,
    limited: frozenset[str] | None = None,
    policies: Policies | None = None,
) -> int:
    """Apply changes and their consequences, except those with a stale epoch. Returns the number of applied ones.
    `limited` are the scopes that have permits, and `policies` the policies, where they are known."""
    if not changes:
        return 0
    rows = [_state_change(change) for change in changes]
    settled = transaction.change_states(rows)
    taken: list[RunChange] = []
    for change, row in zip(changes, rows, strict=True):
        if (change.run_id, change.epoch) in settled:
            taken.append(change)
            told = _plan_answers(transaction, change, policies) if change.transition.target in _ANSWERED else ()
            transaction.events.append(_event(change, row.outcome, told))
    over = [change for change in taken if change.transition.is_terminal]
    steps = [change for change in over if change.compiled.step]
    whole = [change for change in over if not change.compiled.step] if steps else over
    freed = [
        (change.run_id, change.compiled)
        for change in taken
        if change.transition is not HOLD or not change.compiled.definition.held_keeps_capacity
    ]
    _release_permits(transaction, freed, limited)
    _move_cursors(transaction, [(change.compiled, change.slot, change.at) for change in whole])
    _count_failures(transaction, whole, now)
    _undo_preparations(transaction, [change for change in over if not change.transition.started], now)
    waited = whole + [change for change in taken if change.transition.target in (RunState.QUEUED, RunState.WAITING)]
    _promote(transaction, {change.compiled.schedule_id for change in waited}, now)
    _settle_accounts(transaction, taken, now)
    for change in taken:
        if change.compiled.wakes_agent and change.transition.started:
            _record_turn(transaction, change, now)
    _continue(transaction, [change for change in taken if change.transition in (RETRY, THROTTLE)], settled, now)
    if steps:
        _follow(transaction, [change.run_id for change in steps], now, policies)
    return len(taken)


_ANSWERED = FAILED | {RunState.SUCCEEDED}


def _plan_answers(transaction: Transaction, change: RunChange, policies: Policies | None) -> tuple[str, ...]:
    """Decide who gets the answer of a run that ends, in the transaction of its end. Returns the destinations."""
    item = change.compiled
    if item.step:
        return ()  # the answers of steps are parts of their run's
    if policies is None:
        policies = Catalog(cache=False).policies(transaction)
    in_chat = item.wakes_agent and "chat" in policies.records
    if not (item.definition.deliver or policies.delivers or in_chat):
        return ()
    found = decide(
        change.transition.target,
        change.outcome,
        item.definition,
        item.agent,
        policies,
        chat_place(transaction, policies, change.run_id, item.definition).place if in_chat else None,
        lambda name: transaction.last_answer(item.schedule_id, name, change.run_id),
    )
    digest = digest_of(answer_text(change.outcome)) if found else ""
    for new in found:
        due = change.at if new.state == "queued" else None
        row = AnswerRow(
            change.run_id, FINAL, new.destination, item.schedule_id, new.state, new.reason, digest, change.at, due
        )
        transaction.insert_answer(row)
    return tuple(new.destination for new in found if new.state == "queued")


class ThreadInChat(NamedTuple):
    """Where the answer of a run belongs in chat."""

    thread_id: int | None = None
    location: str | None = None
    """The id of the place: `slack:TEAM/CHANNEL/THREAD`; None before the thread has one."""
    place: ChatPlace | None = None
    """None when no chat that is set up has it."""


def chat_place(
    transaction: Transaction, policies: Policies, run_id: int, definition: ScheduleDefinition
) -> ThreadInChat:
    """The place of the run's thread, or of the message that started it, or its channel."""
    services: Mapping[str, Any] = policies.records.get("chat", {})
    if not services:
        return ThreadInChat()
    assignment = transaction.thread_assignment(run_id)
    thread = None if assignment is None else assignment.thread
    location = None if thread is None else transaction.thread_place(thread.id)
    location = location or _calling_place(transaction, run_id)
    target = None if definition.target is None else definition.target.channel
    channel = target if thread is None else thread.channel
    found = None
    if location is not None:
        service, _, rest = location.partition(":")
        found = ChatPlace(service, rest.partition("/")[2].rpartition("/")[0])
    elif channel is not None:
        owner = (own.service for own in installed(CHAT_CHANNELS).values() if own.pattern.fullmatch(channel))
        found = next((ChatPlace(service, channel) for service in owner), None)
    known = found is not None and found.service in services
    return ThreadInChat(None if thread is None else thread.id, location, found if known else None)


def _calling_place(transaction: Transaction, run_id: int) -> str | None:
    context = call_context(transaction, run_id)
    place = mapping_of(context.body).get("place") if context is not None and context.source == "chat" else None
    return place if isinstance(place, str) else None


def _undo_preparations(transaction: Transaction, never_started: list[RunChange], now: int) -> None:
    """Take back what was counted and approved for runs that end without a start."""
    for change in never_started:
        counted = change.slot is not None or transaction.is_called(change.run_id)
        if change.transition in _NEVER_RAN and counted:  # a gate stopped it, and no attempt ran before
            transaction.uncount_execution(change.compiled.schedule_id, change.run_id)
            continue_schedule(transaction, change.compiled.schedule_id, now)
    for change in never_started:
        if change.compiled.definition.approval != "auto" or change.compiled.creator is not None:
            approval_requests.void_run(transaction, change.run_id, now)


def _continue(
    transaction: Transaction, again: list[RunChange], settled: Mapping[tuple[int, int], bool], now: int
) -> None:
    """Let runs wait for their next attempt. Those that were cancelled meanwhile end, and those of schedules that stand
    still are suspended."""
    for change in again:
        transaction.end_attempt(change.run_id, change.epoch, change.at)
    cancelled = [change for change in again if settled[change.run_id, change.epoch]]
    apply(  # what the attempt used, and which limit it met, is settled
        transaction,
        [change._replace(transition=CANCEL_WAITING, not_before=None, limit=None) for change in cancelled],
        now,
    )
    hold_with_schedule(transaction, [one for one in again if not settled[one.run_id, one.epoch]], now)


def succeed_plainly(
    transaction: Transaction, ended: Sequence[AttemptEnd], now: int, *, limited: frozenset[str] | None
) -> int:
    """Apply SUCCEED to attempts whose ends are plain, as `apply` does, in one statement of few values. Returns the
    number of applied ones."""
    if not ended:
        return 0
    rows = [
        _plain_end(
            (
                attempt.run_id,
                attempt.epoch,
                now,
                None if outcome.result is None else as_json({"result": outcome.result}),
            )
        )
        for attempt, outcome in ended
    ]
    settled = transaction.succeed(rows)
    if settled is not None:
        both = [(end, row) for end, row in zip(ended, rows, strict=True) if end.attempt.mark in settled]
        ended, rows = [end for end, _ in both], [row for _, row in both]
    taken = [attempt for attempt, _ in ended]
    events, kind = transaction.events, SUCCEED.event
    for attempt, row in zip(taken, rows, strict=True):
        item = attempt.compiled
        data = _bound(item.rev, row.outcome, attempt.epoch)
        events.append(_new_event((now, kind, item.schedule_id, attempt.run_id, data)))
    if limited is None or limited:
        _release_permits(transaction, [(attempt.run_id, attempt.compiled) for attempt in taken], limited)
    waiting = [attempt for attempt in taken if attempt.compiled.shared.timetable.from_completion]
    if waiting:
        _move_cursors(transaction, [(attempt.compiled, attempt.slot, now) for attempt in waiting])
    schedule_ids = {attempt.compiled.schedule_id for attempt in taken}
    transaction.count_failures([(schedule_id, None) for schedule_id in schedule_ids])
    _promote(transaction, schedule_ids, now)
    return len(taken)


def result_data(outcome: Outcome) -> dict[str, Any] | None:
    """What is stored of a success."""
    return None if outcome.result is None else {"result": outcome.result}


def _release_permits(
    transaction: Transaction, runs: Sequence[tuple[int, CompiledSchedule]], limited: frozenset[str] | None
) -> None:
    """Release the permits of those runs that may have one: releasing costs more than taking."""
    holders = [run_id for run_id, item in runs if limited is None or not limited.isdisjoint(item.scopes)]
    if holders:
        transaction.release_permits(holders)


def end_runs(
    transaction: Transaction,
    catalog: Catalog,
    run_ids: Sequence[int],
    now: int,
    reason: str,
    by: str | None = None,
    note: str | None = None,
) -> None:
    """End runs. Waiting runs, and held runs of dead workers, end immediately. Running ones are marked, and end when
    their worker has stopped them. `note` is why, in the words of who ends them."""
    rows = transaction.live_runs(run_ids)  # their schedules are locked: from here on, no run unfolds into steps
    rows += transaction.live_runs(transaction.live_steps([row.id for row in rows]))
    compiled = catalog.compiled(transaction, {row.key for row in rows})
    workers = {worker.id for worker in transaction.workers()} if rows else set[int]()
    author = ({} if by is None else signed(by)) | ({} if note is None else {"note": note})
    changes: list[RunChange] = []
    for row in rows:
        item = compiled.get(row.key)
        orphan = row.state == RunState.HELD and row.owner not in workers
        if isinstance(item, CompiledSchedule) and (row.state <= RunState.READY or orphan):
            transition = CANCEL if orphan else CANCEL_WAITING
            changes.append(
                RunChange(row.id, row.epoch, row.slot, item, transition, now, reason=reason, evidence=author or None)
            )
    unreadable = [row for row in rows if not isinstance(compiled.get(row.key), CompiledSchedule)]
    end_unreadable(transaction, [row for row in unreadable if row.state <= RunState.READY], now, CANCEL_WAITING)
    orphans = [row for row in unreadable if row.state == RunState.HELD and row.owner not in workers]
    end_unreadable(transaction, orphans, now, CANCEL)
    steps = {row.id for row in rows if row.step}
    for run_id, schedule_id, _ in transaction.mark_cancelling([row.id for row in rows]):
        kind = step_event("run.cancelling") if run_id in steps else "run.cancelling"
        transaction.events.append(NewEvent(now, kind, schedule_id, run_id, {"reason": reason, **author}))
    apply(transaction, changes, now)


def _follow(transaction: Transaction, ended: Sequence[int], now: int, policies: Policies | None = None) -> None:
    """Apply what follows from the ends of steps. When the settings of their run cannot be read, no other step of it
    starts."""
    changes, unreadable = next_changes(transaction, ended, now)
    apply(transaction, changes, now, policies=policies)
    for run in unreadable:
        live = transaction.live_runs(transaction.live_steps([run.id]))
        waiting = [row for row in live if row.state <= RunState.READY]
        if waiting:
            end_unreadable(transaction, waiting, now, CANCEL_WAITING)
        elif not live:
            end_unreadable(transaction, [run], now)


def end_unreadable(transaction: Transaction, rows: Sequence[StartedRun], now: int, t: Transition = MARK_UNKNOWN) -> int:
    """End runs whose definition cannot be read: they have no policy, and cannot be retried. Returns how many ended."""
    if not rows:
        return 0
    ends = (t.low, t.high, t.target, None, now, "unreadable", None, None, 0, 0)
    settled = transaction.change_states([StateChange(row.id, row.epoch, *ends) for row in rows])
    spending.release(transaction, [row.id for row in rows if (row.id, row.epoch) in settled])
    for row in rows:
        if (row.id, row.epoch) in settled:
            transaction.release_permits([row.id])
            kind = step_event(t.event) if row.step else t.event
            summary = sentence("unreadable", None, "UTC", state=t.target).text
            data = {"reason": "unreadable", "summary": summary, "epoch": row.epoch, **end_facts(row.rev, None)}
            transaction.events.append(NewEvent(now, kind, row.schedule_id, row.id, data))
    steps = [row.id for row in rows if row.step and (row.id, row.epoch) in settled]
    if steps:
        _follow(transaction, steps, now)
    return len(settled)


def hold_with_schedule(
    transaction: Transaction, again: list[RunChange], now: int, states: Sequence[str] = ("pending",)
) -> None:
    """Hold runs that wait again while their schedule is pending, and end them when it is rejected. The next round of a
    run of steps is also held while the schedule is paused, like steps that become ready."""
    for change in again:
        row = transaction.schedule(change.compiled.schedule_id)
        if row is not None and row.state in (_HELD_BACK if change.compiled.steps else states):
            transaction.suspend_runs(change.compiled.schedule_id)
        elif row is not None and row.state == "rejected":
            rejected = change._replace(
                transition=CANCEL_WAITING, not_before=None, limit=None, reason="schedule_rejected", outcome=None
            )
            apply(transaction, [rejected], now)


def _state_change(change: RunChange) -> StateChange:
    t = change.transition
    ended_at = change.at if t.is_terminal else None
    outcome = None if change.outcome is None else as_json(change.outcome)
    evidence = None if change.evidence is None else as_json(change.evidence)
    return StateChange(
        change.run_id, change.epoch, t.low, t.high, t.target, change.not_before, ended_at, change.reason,
        outcome, evidence, change.cleared, int(change.renewed),
    )  # fmt: skip


def _event(change: RunChange, outcome: str | None, deliver: Sequence[str] = ()) -> NewEvent:
    data: dict[str, Any] | None = None
    if change.reason is not None:
        # With the error and the sentence of `why`, so that a subscriber need not ask for them.
        error, state, evidence = last_error(change.outcome), change.transition.target, change.evidence or {}
        facts = {"attempt": change.attempt, "again": change.not_before, "error": error, "became": state.label}
        zone, at = change.compiled.definition.trigger.timezone, change.slot or change.at
        summary = sentence(change.reason, {**facts, **evidence}, zone, state=state, at=at)
        data = {"reason": change.reason, "epoch": change.epoch, **evidence, **summary_data(summary)}
        if error is not None:
            data["error"] = error
    if change.transition.is_terminal:
        data = {**(data or {}), **_bound(change.compiled.rev, outcome, change.epoch + change.renewed)}
    if deliver and data is not None:
        data["deliver"] = list(deliver)
    kind = event_type(change.compiled, change.transition.event)
    return NewEvent(change.at, kind, change.compiled.schedule_id, change.run_id, data)


def _bound(rev: int, outcome: str | None, epoch: int) -> dict[str, Any]:
    """What the event of an end says about its run."""
    facts = end_facts(rev, outcome)
    facts["epoch"] = epoch
    return facts


def _move_cursors(transaction: Transaction, ends: Sequence[tuple[CompiledSchedule, int | None, int]]) -> None:
    """Set the next slot of intervals that count from completion, whatever the outcome: (schedule, slot, end)."""
    rows: list[NextSlot] = []
    for item, slot, at in ends:
        times = item.shared.timetable
        if times.from_completion:
            next_slot, due_at = times.after_completion(item.schedule_id, slot, at)
            rows.append(NextSlot(item.schedule_id, item.rev, next_slot, due_at))
    if rows:
        transaction.set_cursors(rows)


def _count_failures(transaction: Transaction, over: list[RunChange], now: int) -> None:
    """Count failures. Interrupted, unknown and throttled runs do not count."""
    counted = [change for change in over if change.transition in (SUCCEED, *_FAILURES)]
    stands_for = {  # a backfill that fails pauses itself
        change.run_id
        for change in counted
        if change.slot is None and change.transition in _FAILURES and transaction.backfill_of(change.run_id)
    }
    counted = [change for change in counted if change.run_id not in stands_for] if stands_for else counted
    ends = [(change.compiled.schedule_id, change.at if change.transition in _FAILURES else None) for change in counted]
    transaction.count_failures(ends)
    for change in counted:
        limit = change.compiled.definition.pause_after_failures
        schedule_id = change.compiled.schedule_id
        if limit is None or change.transition not in _FAILURES or transaction.failures(schedule_id) < limit:
            continue
        transaction.reset_failures(schedule_id)
        note = "the last run failed" if limit == 1 else f"{limit} runs in a row failed"
        if pause(transaction, schedule_id, now, BY_FAILURES, note):
            data = {"failures": limit}
            transaction.events.append(NewEvent(now, "schedule.auto_paused", schedule_id, None, data))


def continue_schedule(transaction: Transaction, schedule_id: int, now: int) -> None:
    """Continue a schedule that had no slot left, and has executions, or slots before its end, left again."""
    row = transaction.schedule(schedule_id)
    schedule = None if row is None else schedule_record(row)
    if schedule is None or schedule.next_slot is not None:
        return
    ends_at, limit = schedule.definition.ends_at, schedule.definition.max_executions
    again = schedule.state == "expired" and ends_at is not None and ends_at > now
    if (schedule.state not in _NOT_STOPPED and not again) or (limit is not None and schedule.executions >= limit):
        return
    rule = Timetable(schedule.definition, compile_trigger(schedule.definition.trigger))
    slot, paused = next_uncovered_slot(transaction, schedule_id, rule.trigger, now), schedule.state == "paused"
    if slot is not None:
        if again:
            transaction.set_schedule_state(schedule_id, "active", now, None, None)
        due_at = None if paused else rule.due_at(schedule_id, slot)
        transaction.replace_cursor(schedule_id, slot, due_at, schedule.rev, paused=paused)


def _promote(transaction: Transaction, schedule_ids: set[int], now: int) -> None:
    """Make queued runs of these schedules ready. Each may have some, after catching up or an edit."""
    if schedule_ids:
        for run_id, schedule_id in transaction.promote(sorted(schedule_ids), now):
            transaction.events.append(NewEvent(now, PROMOTE.event, schedule_id, run_id))


def _settle_accounts(transaction: Transaction, taken: list[RunChange], now: int) -> None:
    """Release reservations, record spending, and set the throttles of providers."""
    reserved = transaction.any_reservation()
    if reserved or any(change.usage is not None for change in taken):
        ended = [change for change in taken if change.transition.started and change.transition is not HOLD]
        spenders = [change for change in ended if not change.compiled.steps]  # the steps have spent
        for change in spenders:
            lost = change.reason in ("worker_lost", "unknown", "stopped")
            spender = spending.Spender(change.run_id, change.compiled, change.usage, lost)
            spending.settle(transaction, spender, now, reserved=reserved)
    for change in taken:
        if change.limit is not None and change.limit.resets_at is not None:
            provider, resets_at, reason = change.limit.provider, change.limit.resets_at, change.limit.reason
            login, affects = change.limit.login, change.limit.affects
            transaction.uncount_attempt(change.run_id)
            throttle = Throttle(provider, resets_at, now, affects, reason, f"run {change.run_id}", login)
            transaction.upsert_throttle(throttle)
            data = {"provider": provider, "resets_at": resets_at, "reason": reason}
            if login is not None:
                data["login"] = login
            transaction.events.append(NewEvent(now, "throttle.set", change.compiled.schedule_id, change.run_id, data))


def _record_turn(transaction: Transaction, change: RunChange, now: int) -> None:
    """Set the thread of an agent's run to waiting, and store its new messages and the tool's session."""
    assignment = transaction.thread_assignment(change.run_id)
    if change.transition is RETRY and change.reason == "target_gone":
        _reject_session(transaction, change.run_id, assignment, now)
    elif assignment is not None and change.turn is None:
        transaction.set_thread(assignment.thread.id, "waiting", now)
    elif assignment is not None and change.turn is not None:
        thread, turn = assignment.thread.id, change.turn
        for role, text in (("user", turn.prompt), ("assistant", turn.text)):
            if text:
                transaction.insert_message(thread, change.run_id, role, text, now)
        transaction.set_thread(thread, "waiting", now, turn.session, turn.session_usage)
        if turn.session is not None:
            transaction.set_session_host(thread, change.run_id)


def _reject_session(transaction: Transaction, run_id: int, assignment: ThreadAssignment | None, now: int) -> None:
    """Handle a session that the tool does not know: the attempt does not count, and the thread is chosen again."""
    transaction.uncount_attempt(run_id)
    if assignment is None:
        return
    if assignment.how == BY_SESSION_ID:  # a thread without a conversation
        transaction.clear_session(assignment.thread.id, "closed")
    else:
        transaction.set_thread(assignment.thread.id, "waiting", now)
    transaction.assign_thread(run_id, assignment.thread.id, SESSION_GONE)


def as_json(value: dict[str, Any]) -> str:
    """The value as JSON for the store. What JSON cannot hold is written as Python shows it."""
    try:
        return orjson.dumps(value, default=repr, option=orjson.OPT_NON_STR_KEYS).decode()
    except Exception:  # a job may return or raise anything, which must not stop the others
        return orjson.dumps({key: _plain(item) for key, item in value.items()}).decode()


def _plain(value: object) -> str:
    try:
        return ascii(value)[:_MAX_REPR_LENGTH]
    except Exception as error:
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"
