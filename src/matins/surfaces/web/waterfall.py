"""The waterfall of a run: from due to its end, as bars in percent of the whole."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from typing import NamedTuple

from matins.api.results import Check, Run
from matins.surfaces.web import states

_LEAST = 0.4
_TICKS = 4


class Bar(NamedTuple):
    word: str
    nested: bool
    icon: str
    x: float
    width: float
    ms: float


class Tick(NamedTuple):
    x: float
    text: str


class Waterfall(NamedTuple):
    bars: list[Bar]
    ticks: list[Tick]
    late_ms: float | None


def waterfall(run: Run, checks: list[Check], now: datetime, zone: tzinfo) -> Waterfall:
    due = run.slot or run.planned_at
    begin, end = min(due, run.planned_at), run.ended_at or now
    total = max((end - begin).total_seconds(), 0.001)

    def bar(word: str, start: datetime, stop: datetime, icon: str = "plan", nested: bool = False) -> Bar:
        length = max((stop - start).total_seconds(), 0.0)
        x = min(max((start - begin).total_seconds() / total * 100, 0), 100 - _LEAST)
        return Bar(
            word, nested, icon, round(x, 2), round(max(min(length / total * 100, 100 - x), _LEAST), 2), length * 1000
        )

    bars = [bar("Due → planned", due, run.planned_at)]
    for check in checks:
        start = check.at - timedelta(milliseconds=check.duration_ms)
        bars.append(bar(states.words(check.gate), start, check.at, "ok" if check.verdict == "passed" else "skip", True))
    if run.started_at is not None:
        bars.append(bar("Planned → started", run.planned_at, run.started_at))
        bars.append(bar("Execution", run.started_at, end, states.of_run(run).icon))
        for step in run.steps:
            if step.started_at is not None:
                look = states.of_run(step)
                bars.append(bar(step.title, step.started_at, step.ended_at or now, look.icon, True))
    elif run.live:
        bars.append(bar("Waiting", run.planned_at, now, states.of_run(run).icon))
    ticks = [_tick(begin, total, index / _TICKS, zone) for index in range(_TICKS)]
    late = None if run.slot is None or run.started_at is None else (run.started_at - run.slot).total_seconds() * 1000
    return Waterfall(bars, ticks, late)


def _tick(begin: datetime, total: float, part: float, zone: tzinfo) -> Tick:
    local = (begin + timedelta(seconds=total * part)).astimezone(zone)
    return Tick(part * 100, f"{local:%H:%M}" if total > 600 else f"{local:%H:%M:%S}")
