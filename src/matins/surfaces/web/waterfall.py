"""The waterfall of a run: its spans from due to end, as bars in percent of the whole."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from typing import NamedTuple

from matins.api.results import RunFacts, Span
from matins.surfaces.web import states

_NARROWEST_BAR = 0.4
_TICKS = 4
_FINE_S = 600
_WORDS = {"planned": "Due → planned", "waiting": "Waiting", "approval": "Approval"}
_NESTED = frozenset({"check", "step"})
_STATES = {"passed": "succeeded", "approved": "succeeded", "go": "succeeded", "rejected": "skipped"}


class Bar(NamedTuple):
    word: str
    nested: bool
    icon: str
    x: float
    width: float
    ms: float


class WaterfallTick(NamedTuple):
    x: float
    text: str


class Waterfall(NamedTuple):
    bars: list[Bar]
    ticks: list[WaterfallTick]
    late_ms: float | None


def waterfall(facts: RunFacts, now: datetime, zone: tzinfo) -> Waterfall:
    run = facts.run
    begin = min([facts.due_at, *(span.start for span in facts.spans)])
    total = max(((run.ended_at or now) - begin).total_seconds(), 0.001)
    bars = [_waterfall_bar(span, begin, total, now) for span in facts.spans]
    ticks = [_tick(begin, total, index / _TICKS, zone) for index in range(_TICKS)]
    late = None if run.started_at is None else max((run.started_at - facts.due_at).total_seconds() * 1000, 0)
    return Waterfall(bars, ticks, late)


def _waterfall_bar(span: Span, begin: datetime, total: float, now: datetime) -> Bar:
    length = max(((span.end or now) - span.start).total_seconds(), 0.0)
    x = min(max((span.start - begin).total_seconds() / total * 100, 0.0), 100 - _NARROWEST_BAR)
    width = max(min(length / total * 100, 100 - x), _NARROWEST_BAR)
    look = states.RUNS.get(span.state or "")
    icon = look.icon if look else _STATES.get(span.state or "", "running" if span.end is None else "planned")
    return Bar(
        span.title or span.label or _WORDS.get(span.name, span.name),
        span.name in _NESTED,
        icon,
        round(x, 2),
        round(width, 2),
        length * 1000,
    )


def _tick(begin: datetime, total: float, part: float, zone: tzinfo) -> WaterfallTick:
    local = (begin + timedelta(seconds=total * part)).astimezone(zone)
    tenths = f".{local.microsecond // 100_000}" if total < _TICKS else ""
    return WaterfallTick(part * 100, f"{local:%H:%M}" if total > _FINE_S else f"{local:%H:%M:%S}{tenths}")
