"""Forecasts of future slots.

Each run is assumed to end before the next slot; that a newer run replaces one that waits
(`overlap: cancel_other`) is not foreseen.

Slots to come within a window: one by one where they are few, as spans with a number where they are many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from matins.engine.calendars import day_changes
from matins.engine.gates import (
    BITS,
    Candidate,
    Facts,
    Gate,
    Mask,
    Surroundings,
    Verdict,
    active_gates,
    applicable_gates,
    choose,
)
from matins.engine.gates.limits import BUDGET
from matins.engine.money import BudgetShortage
from matins.engine.planning import Timetable
from matins.engine.policies import Policies
from matins.engine.quiet_hours import quiet_spans
from matins.engine.reasons import FUTURE, sentence
from matins.model.run import RunState
from matins.model.words import Sentence

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


_PREDICTABLE: Mask = sum(BITS[gate.name] for gate in PREDICTABLE)
_MAX_SPANS = 50


class ComingSlot(NamedTuple):
    slot: int
    due_at: int
    label: str
    """runs, deferred, coalesced, queued or skipped."""
    verdict: Verdict | None = None
    until: int | None = None
    """When a deferred run continues."""


class ComingSpan(NamedTuple):
    """Slots that have the same verdict."""

    first: int
    last: int
    slots: int
    label: str
    verdict: Verdict | None = None
    until: int | None = None


def count_coming(timetable: Timetable, start: ForecastStart, end: int) -> int:
    """The number of slots before `end`. Of an interval that counts from completion: if runs took no time."""
    slot, definition = start.slot, timetable.definition
    if slot is None or slot >= end:
        return 0
    until = end if definition.ends_at is None else min(end, definition.ends_at + 1)
    count = timetable.trigger.count(slot, until) + timetable.elapsed
    limit = definition.max_executions
    return count if limit is None else min(count, max(0, limit - start.executions))


def count_runs(timetable: Timetable, start: ForecastStart, end: int) -> int | None:
    """The number of runs before `end`, without a step for each; None where a gate may stop some of them."""
    if not _is_ungated(timetable, start):
        return None
    slot, now, trigger = start.slot, start.now, timetable.trigger
    if slot is None or slot >= now:
        return count_coming(timetable, start, end)
    if not timetable.elapsed:
        return 1 + trigger.count(now + 1, end)  # slots that are overdue become one run
    following = trigger.next_ms(slot)
    counts_on = not timetable.from_completion and following is not None and following > now
    return count_coming(timetable, start if counts_on else start._replace(slot=now), end)


def coming_slots(timetable: Timetable, start: ForecastStart, end: int) -> Iterator[ComingSlot]:
    """The slots before `end`, each with its verdict."""
    if _is_plain(timetable, start):
        slot, next_ms = start.slot, timetable.trigger.next_ms
        while slot is not None and slot < end:
            yield ComingSlot(slot, slot, "runs")
            slot = next_ms(max(slot, start.now))
        return
    for seen in forecast(timetable, start):
        if seen.slot >= end:
            return
        yield ComingSlot(seen.slot, seen.due_at, seen.label, seen.verdict, seen.until)


def coming_spans(timetable: Timetable, start: ForecastStart, end: int) -> list[ComingSpan]:
    """The slots before `end` as spans, divided where quiet hours or a rate limit begin or end."""
    slot = start.slot
    plain = _is_plain(timetable, start)
    edges = () if slot is None or plain else _edges(timetable, start, slot, end)
    spans: list[ComingSpan] = []
    for until in (*edges, end):
        if slot is None or slot >= until:
            continue
        here = start._replace(slot=slot)
        count = count_coming(timetable, here, until)
        seen = None if plain else next(forecast(timetable, here), None)
        if not count or (seen is None and not plain):
            break
        spans.append(_span(timetable, slot, until, count, seen))
        slot = timetable.trigger.next_ms(spans[-1].last)
    return spans


def slot_sentence(verdict: Verdict | None, at: int, zone: str) -> Sentence | None:
    """Why a slot will not simply run; None if it will."""
    if verdict is None:
        return None
    return sentence(verdict.reason, verdict.evidence, zone, state=verdict.state, at=at, tense=FUTURE)


def fewest_first(counts: Mapping[int, int], most: int) -> set[int]:
    """The keys whose counts add up to `most` at the most, the smallest first."""
    chosen: set[int] = set()
    for key, count in sorted(counts.items(), key=lambda item: item[1]):
        most -= count
        if most < 0:
            break
        chosen.add(key)
    return chosen


def _is_plain(timetable: Timetable, start: ForecastStart) -> bool:
    """Whether no gate can stop a slot, so that none is asked: true of most schedules."""
    return not timetable.definition.jitter and _is_ungated(timetable, start)


def _is_ungated(timetable: Timetable, start: ForecastStart) -> bool:
    if start.waiting.runs or start.backs_off_until is not None:
        return False
    gates = applicable_gates(timetable.definition) | active_gates(Surroundings(start.policies))
    return not gates & _PREDICTABLE


def _edges(timetable: Timetable, start: ForecastStart, slot: int, end: int) -> Sequence[int]:
    policies: Policies = start.policies
    hours = policies.quiet_hours.get(timetable.definition.quiet_hours or "")
    edges = {edge for span in (quiet_spans(hours, slot, end) if hours else []) for edge in span}
    edges |= day_changes(timetable.definition.skip_on, policies.calendars, slot, end, timetable.trigger.timezone)
    throttle = policies.throttle_of(timetable.definition.provider, start.agent, start.now)
    if throttle is not None:
        edges.add(throttle.resets_at)
    if start.backs_off_until is not None:
        edges.add(start.backs_off_until)
    return sorted(edge for edge in edges if slot < edge < end)[:_MAX_SPANS]


def _span(timetable: Timetable, slot: int, until: int, count: int, seen: ForecastSlot | None) -> ComingSpan:
    when = timetable.trigger
    last = slot if count == 1 else when.prev_ms(until) or slot
    if timetable.elapsed and count > 1:
        step = (when.next_ms(slot) or slot) - slot
        last = slot + (count - 1) * step
    if seen is None:
        return ComingSpan(slot, last, count, "runs")
    deferred = seen.verdict is not None and seen.verdict.state is RunState.WAITING
    return ComingSpan(slot, last, count, "deferred" if deferred else seen.label, seen.verdict, seen.until)
