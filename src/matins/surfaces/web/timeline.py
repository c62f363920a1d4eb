"""The timeline as SVG: every x is a percentage, so the picture fits any width and its text never scales."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, tzinfo
from typing import NamedTuple

from matins.api.results import Timeline, TimelineBand, TimelineLane, TimelineRun, TimelineSlot
from matins.model.counting import counted
from matins.model.sentence import joined
from matins.surfaces.web import states, times
from matins.surfaces.web.states import Look
from matins.surfaces.web.visit import Visit

_LANES_TOP, _LANE = 30, 46
_NARROWEST_MARK = 0.35
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360)
"""Distances of ticks, in minutes."""
_PAST, _PAST_TICKS, _FUTURE_TICKS = 0.34, 5, 9
_SHORTEST_PAST = timedelta(minutes=5)
_MAX_DASHES = 200


class TimelineTick(NamedTuple):
    x: float
    text: str
    is_day: bool


class LaneMark(NamedTuple):
    """A record or a slot: a bar where it lasted, an icon where it did not."""

    id: str
    x: float
    width: float
    icon: str
    bar: bool
    future: bool
    address: str
    sentence: str
    to: float | None
    """Where a deferred one continues."""
    y: int


class Band(NamedTuple):
    kind: str
    x: float
    width: float
    icon: str
    dashes: int
    sentence: str
    address: str
    future: bool


class Lane(NamedTuple):
    agent: str
    runner: str
    y: int
    marks: list[LaneMark]
    bands: list[Band]
    label: str


class Picture(NamedTuple):
    height: int
    now: float
    ticks: list[TimelineTick]
    lanes: list[Lane]
    label: str
    omitted: int


class _Scale(NamedTuple):
    """The past takes a third of the width: what happened is read more closely than what is planned."""

    start: datetime
    end: datetime
    now: datetime
    zone: tzinfo
    address: Callable[..., str]

    def x(self, at: datetime) -> float:
        if at < self.now:
            part = _PAST * (at - self.start) / (self.now - self.start)
        else:
            part = _PAST + (1 - _PAST) * (at - self.now) / (self.end - self.now)
        return round(min(max(part, 0.0), 1.0) * 100, 1)

    def clock(self, at: datetime) -> str:
        return times.clock(at, self.zone, self.now)


def picture(timeline: Timeline, visit: Visit) -> Picture:
    scale = _Scale(_begin(timeline), timeline.end, timeline.now, visit.zone, visit.address)
    lanes = [_lane(lane, index, scale) for index, lane in enumerate(timeline.lanes)]
    height = _LANES_TOP + _LANE * max(len(lanes), 1)
    label = (
        f"{counted(len(lanes), 'agent')} from {scale.clock(scale.start)} to {scale.clock(timeline.end)}, "
        f"{visit.zone_name}. "
        "Past runs are left of now, planned fires right of it."
    )
    return Picture(height, scale.x(timeline.now), list(_ticks(scale)), lanes, label, timeline.omitted)


def _begin(timeline: Timeline) -> datetime:
    """Where the past begins: a young store has a short one."""
    first = [run.at for lane in timeline.lanes for run in lane.runs]
    first += [band.start for lane in timeline.lanes for band in lane.bands if band.kind == "records"]
    oldest = min(first, default=timeline.start)
    return max(timeline.start, min(oldest, timeline.now - _SHORTEST_PAST))


def _ticks(scale: _Scale) -> Iterator[TimelineTick]:
    yield from _ticks_between(scale, scale.start, scale.now, _PAST_TICKS)
    yield from _ticks_between(scale, scale.now, scale.end, _FUTURE_TICKS)


def _ticks_between(scale: _Scale, start: datetime, end: datetime, most: int) -> Iterator[TimelineTick]:
    minutes = (end - start) / timedelta(minutes=1)
    step = next((size for size in _STEPS if minutes / size <= most), _STEPS[-1])
    local = start.astimezone(scale.zone).replace(minute=0, second=0, microsecond=0)
    while local < end:
        if local > start and (local.hour * 60 + local.minute) % step == 0:
            is_day = local.hour == 0 and local.minute == 0
            yield TimelineTick(scale.x(local), f"{local:%a} {local.day}" if is_day else f"{local:%H:%M}", is_day)
        local += timedelta(minutes=min(step, 60))


def _lane(lane: TimelineLane, index: int, scale: _Scale) -> Lane:
    y = _LANES_TOP + index * _LANE
    marks = [_run(run, scale, y) for run in lane.runs]
    marks += [_slot(slot, lane.agent, scale, y, number) for number, slot in enumerate(lane.slots)]
    bands = [_band(band, lane.agent, scale) for band in lane.bands]
    label = f"{lane.agent or 'jobs'}: {counted(len(lane.runs), 'record')}, {counted(len(lane.slots), 'slot')} to come"
    return Lane(lane.agent, lane.runner or "", y, marks, bands, label)


def _run(run: TimelineRun, scale: _Scale, y: int) -> LaneMark:
    look = states.of_run(run)
    x = scale.x(run.at)
    ends = run.ended_at or (scale.now if run.started_at else None)
    lasted = run.started_at is not None and ends is not None
    width = max(round(scale.x(ends) - x, 1), _NARROWEST_MARK) if lasted and ends is not None else 0.0
    text = (
        f"{run.schedule} {scale.clock(run.slot or run.at)}: {joined(run.sentence or '', run.quote) or _took(run, look)}"
    )
    address = scale.address("/runs", run.run_id)
    return LaneMark(f"m-{run.run_id}", x, width, look.icon, lasted, False, address, text, None, y)


def _took(run: TimelineRun, look: Look) -> str:
    if run.started_at is None or run.ended_at is None:
        return look.word
    return f"{look.word} in {times.duration((run.ended_at - run.started_at).total_seconds() * 1000)}"


def _slot(slot: TimelineSlot, agent: str, scale: _Scale, y: int, number: int) -> LaneMark:
    look: Look = states.of_verdict(slot.verdict)
    text = f"{slot.schedule} {scale.clock(slot.at)}: {joined(slot.sentence or '', slot.quote) or look.word}"
    to = scale.x(slot.until) if slot.until is not None else None
    why = f"{scale.address('/schedules', agent, slot.schedule, at=slot.at.isoformat())}#why"
    return LaneMark(
        f"s-{slot.schedule_id}-{number}", scale.x(slot.due_at), 0.0, look.icon, False, True, why, text, to, y
    )


def _band(band: TimelineBand, agent: str, scale: _Scale) -> Band:
    x = scale.x(band.start)
    width = max(round(scale.x(band.end) - x, 1), _NARROWEST_MARK)
    worst = next((state for state in ("failed", "missed", "skipped") if band.states.get(state)), "succeeded")
    icon = states.RUNS[worst].icon if band.kind == "records" else "planned"
    counts = ", ".join(f"{count} {states.words(state).lower()}" for state, count in band.states.items())
    what = band.schedule or counted(band.schedules, "schedule")
    text = (
        joined(band.sentence or "", band.quote)
        or f"{what}: {counted(band.count, 'record' if band.kind == 'records' else 'slot')}"
    )
    address = scale.address("/schedules", agent if band.schedule else None, band.schedule)
    said = f"{text}{' (' + counts + ')' if counts else ''}"
    return Band(band.kind, x, width, icon, min(band.count, _MAX_DASHES), said, address, band.start >= scale.now)
