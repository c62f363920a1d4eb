"""Steps of a run: created when the run starts, and changed when one of them ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from matins.engine.audit_runs import end_facts
from matins.engine.retry import next_attempt_at
from matins.engine.schedules import trigger_source
from matins.engine.steps import WAITING_FOR_STEP, StepState, advance, numbers_after, repeated
from matins.engine.transitions import (
    CANCEL_WAITING,
    CLAIM,
    INITIAL_STATES,
    JOIN,
    MARK_READY,
    RETRY,
    SKIP,
    SUCCEED,
    SUSPEND,
)
from matins.model.rows import NewEvent, NewStep, ReadyRun, RunRow, StartedRun
from matins.model.run import RunState
from matins.model.step import Step
from matins.runtime.catalog import Catalog, CompiledSchedule
from matins.runtime.pausing import is_held
from matins.runtime.run_change import RunChange, step_event
from matins.store.transaction import Transaction

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
        None, None, None, row.id, number, round_number, 0,
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
    """The result of the last step, when there is one that all others lead to."""
    awaited = {other for after in numbers_after(whole.steps) for other in after}
    last = [number for number in steps if number not in awaited]
    return _outcome_of(steps[last[0]]) or None if len(last) == 1 else None


def _outcome_of(row: RunRow) -> dict[str, Any]:
    return orjson.loads(row.outcome) if row.outcome else {}


def _error(steps: Mapping[int, RunRow]) -> str | None:
    """The error of the first step that has one."""
    errors = [_outcome_of(row).get("error") for row in steps.values() if row.state != RunState.SUCCEEDED]
    return next((error for error in errors if error), None)
