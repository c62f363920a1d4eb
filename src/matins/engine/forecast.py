"""Forecasts of future slots. Each run is assumed to end before the next slot; that a newer run replaces one that waits
(`overlap: cancel_other`) is not foreseen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from matins.engine.charges import BudgetShortage
from matins.engine.gates import Candidate, Facts, Gate, Verdict, choose
from matins.engine.gates.budget import BUDGET
from matins.engine.planning import Timetable
from matins.engine.policies import Policies
from matins.model.run import RunState

PREDICTABLE = tuple(gate for gate in choose("plan") if gate.predictable)
"""The gates that depend only on settings, policies and time."""
_OVER_BUDGET = tuple(gate for gate in choose("plan") if gate.predictable or gate is BUDGET)
"""A budget that is too small now stays so until its period ends. What is left of the next one is not known."""


class ForecastSlot(NamedTuple):
    slot: int
    due_at: int
    candidate: Candidate
    verdicts: tuple[tuple[Gate, Verdict | None], ...]
    """The verdict of each gate when the slot is due; None for a pass."""
    verdict: Verdict | None
    """The deciding verdict; None when the slot runs."""
    until: int | None
    """When a deferred run continues."""
    waits_until: int | None = None
    """Until when a run waits, whether or not it starts then."""

    @property
    def runs(self) -> bool:
        """Whether the slot leads to a run, now or later."""
        return self.verdict is None or self.verdict.state < RunState.SUCCEEDED

    @property
    def label(self) -> str:
        """runs, deferred, coalesced, queued, skipped or over_budget."""
        if self.verdict is None:
            return "runs"
        if self.verdict.reason == "coalesced":
            return "coalesced"
        return {RunState.WAITING: "deferred"}.get(self.verdict.state, self.verdict.state.label)


class Waiting(NamedTuple):
    """Runs that wait, and until when."""

    runs: tuple[tuple[int, int], ...] = ()
    until: int = 0

    def joined(self, state: RunState, until: int | None) -> Waiting:
        return Waiting((*self.runs, (0, state)), until or self.until)


class ForecastStart(NamedTuple):
    schedule_id: int
    agent: str
    slot: int | None
    executions: int
    policies: Policies
    now: int
    waiting: Waiting = Waiting()
    failures: int = 0
    backs_off_until: int | None = None
    shortage: BudgetShortage | None = None
    """The budget that is too small for another run, as of now."""


def forecast(timetable: Timetable, start: ForecastStart) -> Iterator[ForecastSlot]:
    """The slots from `start` until the schedule ends."""
    slot, executions, waiting = start.slot, start.executions, start.waiting
    limit = timetable.definition.max_executions
    while slot is not None and (limit is None or executions < limit):
        due_at = timetable.due_at(start.schedule_id, slot) or slot
        at = max(due_at, start.now)
        waiting = waiting if at <= waiting.until else Waiting()  # a run still waits at `until` itself
        facts = Facts(waiting.runs, False, start.agent, start.policies, failures=start.failures)
        short = start.shortage is not None and at < start.shortage.resets_at
        facts = facts._replace(backs_off_until=start.backs_off_until, shortage=start.shortage if short else None)
        candidate = Candidate(timetable.definition, slot, facts, executions, False, at, due_at)
        seen = _judged(candidate, slot, due_at, _OVER_BUDGET if short else PREDICTABLE)
        yield seen
        if seen.verdict is not None and seen.verdict.reason == "end_date":
            return
        if seen.waits_until is not None:
            waiting = waiting.joined(RunState.WAITING, seen.waits_until)
        elif seen.verdict is not None and seen.runs:
            waiting = waiting.joined(seen.verdict.state, None)
        executions += seen.runs
        slot = _following(timetable, seen, at)


def _judged(candidate: Candidate, slot: int, due_at: int, gates: tuple[Gate, ...]) -> ForecastSlot:
    verdicts = tuple((gate, gate.judge(candidate)) for gate in gates)
    verdict = next((verdict for _, verdict in verdicts if verdict is not None), None)
    if verdict is None or verdict.state is not RunState.WAITING:
        return ForecastSlot(slot, due_at, candidate, verdicts, verdict, None)
    final, until = _after_deferral(candidate, verdict)
    return ForecastSlot(slot, due_at, candidate, verdicts, final or verdict, until if final is None else None, until)


def _after_deferral(candidate: Candidate, deferred: Verdict) -> tuple[Verdict | None, int]:
    """The verdict on a deferred run at the end of its wait, and that time; None when it starts then. The run is already
    counted as an execution."""
    definition = replace(candidate.definition, ends_at=None, max_executions=None)
    facts = candidate.facts._replace(live=(), shortage=None)
    verdict: Verdict | None = deferred
    until = candidate.now
    while verdict is not None and verdict.state is RunState.WAITING:
        until = verdict.until or until
        again = candidate._replace(definition=definition, facts=facts, now=until)
        verdict = next((found for gate in PREDICTABLE if (found := gate.judge(again)) is not None), None)
    return verdict, until


def _following(timetable: Timetable, seen: ForecastSlot, at: int) -> int | None:
    """The next slot. An interval that counts from completion gets its earliest slot: the run's end is unknown."""
    if timetable.from_completion and seen.runs:
        return timetable.after_completion(0, seen.slot, seen.until or at)[0]
    following = timetable.trigger.next_ms(seen.slot)
    return timetable.trigger.next_ms(at) if following is not None and following <= at else following
