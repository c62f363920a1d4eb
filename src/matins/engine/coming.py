"""Slots to come within a window: one by one where they are few, as spans with a number where they are many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from matins.engine.forecast import PREDICTABLE, ForecastSlot, ForecastStart, forecast
from matins.engine.gates import BITS, Mask, Surroundings, Verdict, active_gates, applicable_gates
from matins.engine.planning import Timetable
from matins.engine.policies import Policies
from matins.engine.quiet_hours import quiet_spans
from matins.engine.reasons import FUTURE, sentence
from matins.model.run import RunState
from matins.model.sentence import Sentence

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


def coming_slots(timetable: Timetable, start: ForecastStart, end: int) -> Iterator[ComingSlot]:
    """The slots before `end`, each with its verdict."""
    if _is_plain(timetable, start):
        yield from _plain_slots(timetable, start, end)
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
    definition = timetable.definition
    if definition.jitter or start.waiting.runs or start.backs_off_until is not None:
        return False
    gates = applicable_gates(definition) | active_gates(Surroundings(start.policies))
    return not gates & _PREDICTABLE


def _plain_slots(timetable: Timetable, start: ForecastStart, end: int) -> Iterator[ComingSlot]:
    slot, next_ms = start.slot, timetable.trigger.next_ms
    while slot is not None and slot < end:
        yield ComingSlot(slot, slot, "runs")
        slot = next_ms(max(slot, start.now))


def _edges(timetable: Timetable, start: ForecastStart, slot: int, end: int) -> Sequence[int]:
    policies: Policies = start.policies
    hours = policies.quiet_hours.get(timetable.definition.quiet_hours or "")
    edges = {edge for span in (quiet_spans(hours, slot, end) if hours else []) for edge in span}
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
