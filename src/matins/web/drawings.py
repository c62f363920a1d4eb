"""Graph, heat, slots, timeline, waterfall as SVG.

The graph of a mission: steps in columns by what they wait for, and the edges between them.

A year of slots: a square for each day, one path for each state.

The bar of past slots: a mark for each, by shape and colour.

The timeline as SVG: every x is a percentage, so the picture fits any width and its text never scales.

The waterfall of a run: its spans from due to end, as bars in percent of the whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta, tzinfo
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from matins.api import results
from matins.api.results import (
    CalendarDay,
    Mission,
    Run,
    RunFacts,
    RunStep,
    ScheduleCalendar,
    Span,
    Timeline,
    TimelineBand,
    TimelineLane,
    TimelineRun,
    TimelineSlot,
)
from matins.model.words import counted, joined
from matins.web import templates
from matins.web.templates import Look, because, plain
from matins.web.visit import Visit

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 188, 72, 50, 40, 28
_MAX_TITLE = 19


class Node(NamedTuple):
    title: str
    short: str
    look: templates.Look
    agent: str
    detail: str
    x: int
    y: int
    run_id: str | None
    row: str


class Edge(NamedTuple):
    path: str
    kind: str


class Graph(NamedTuple):
    width: int
    height: int
    nodes: list[Node]
    edges: list[Edge]


class _Step(NamedTuple):
    title: str
    after: list[str]
    agent: str
    run: RunStep | None


def graph(mission: Mission) -> Graph:
    steps = _steps(mission)
    columns = _columns(steps)
    tallest = max((len(column) for column in columns), default=1)
    nodes: dict[str, Node] = {}
    for index, column in enumerate(columns):
        offset = (tallest - len(column)) * (_HEIGHT + _GAP_Y) // 2
        for row, step in enumerate(column):
            x = _MARGIN + index * (_WIDTH + _GAP_X)
            y = _MARGIN + offset + row * (_HEIGHT + _GAP_Y)
            nodes[step.title] = _node(step, x, y, steps.index(step) + 1)
    edges = [_edge(nodes[name], nodes[step.title]) for step in steps for name in step.after if name in nodes]
    width = 2 * _MARGIN + len(columns) * (_WIDTH + _GAP_X) - _GAP_X
    return Graph(width, 2 * _MARGIN + tallest * (_HEIGHT + _GAP_Y) - _GAP_Y, list(nodes.values()), edges)


def _steps(mission: Mission) -> list[_Step]:
    if mission.last_run is not None and mission.last_run.steps:
        return [_Step(step.title, list(step.after), step.agent, step) for step in mission.last_run.steps]
    return [_declared(step, mission.agent) for step in mission.steps]


def _declared(step: dict[str, Any], agent: str) -> _Step:
    return _Step(step["title"], list(step.get("after") or ()), step.get("agent") or agent, None)


def _columns(steps: list[_Step]) -> list[list[_Step]]:
    """The steps by depth: a step stands right of all that it waits for."""
    depth: dict[str, int] = {}
    for step in steps:  # a step waits only for earlier ones
        depth[step.title] = 1 + max((depth.get(name, -1) for name in step.after), default=-1)
    columns: list[list[_Step]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for step in steps:
        columns[depth[step.title]].append(step)
    return columns


def _node(step: _Step, x: int, y: int, number: int) -> Node:
    run = step.run
    look = templates.of_run(run) if run is not None else templates.Look("planned", "Not started")
    detail = templates.duration(run.duration_ms) if run is not None else ""
    short = step.title if len(step.title) <= _MAX_TITLE else f"{step.title[: _MAX_TITLE - 1]}…"
    return Node(step.title, short, look, step.agent, detail, x, y, run.run_id if run else None, f"step-{number}")


def _edge(source: Node, to: Node) -> Edge:
    x1, y1, x2, y2 = source.x + _WIDTH, source.y + _HEIGHT // 2, to.x - 6, to.y + _HEIGHT // 2
    middle = (x1 + x2) // 2
    kind = "done" if source.look.icon == "succeeded" else "stop" if source.look.icon in ("failed", "denied") else ""
    return Edge(f"M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}", kind)


_LEFT, _HEAT_TOP, _WEEK_STEP = 28, 16, 17.3
_WORST_FIRST = ("failed", "interrupted", "over_budget", "unknown", "held", "missed", "denied", "expired", "cancelled",
                "blocked", "skipped", "waiting", "queued", "ready", "running", "succeeded")  # fmt: skip
_OUTLINED = frozenset({"missed"})


class Square(NamedTuple):
    x: float
    y: float
    tip: str


class Heat(NamedTuple):
    paths: dict[str, str]
    """The path of each look."""
    outlined: dict[str, str]
    notable: list[Square]
    months: list[tuple[float, str]]
    label: str
    width: int


def heat(calendar: ScheduleCalendar) -> Heat | None:
    """The squares; None where there is nothing to show."""
    if not calendar.days:
        return None
    days = {date.fromisoformat(day.day): day for day in calendar.days}
    last = max(days)
    first = min(min(days), last - timedelta(days=363))
    monday = first - timedelta(days=first.weekday())
    paths: dict[str, list[str]] = {}
    outlined: dict[str, list[str]] = {}
    notable: list[Square] = []
    for at, day in sorted(days.items()):
        week, weekday = divmod((at - monday).days, 7)
        x, y = round(_LEFT + week * _WEEK_STEP, 1), round(_HEAT_TOP + weekday * _WEEK_STEP, 1)
        icon = _icon(day)
        if icon in _OUTLINED:
            outlined.setdefault(icon, []).append(f"M{x} {y}h13v13h-13z")
        else:
            paths.setdefault(icon, []).append(f"M{x} {y + 6.5}h13")
        if icon not in ("succeeded", "planned"):
            notable.append(Square(x, y, f"{at:%a} {at.day} {at:%b}\n{_said(day)}"))
    weeks = (last - monday).days // 7 + 1
    counts: Counter[str] = Counter()
    for day in calendar.days:
        counts.update(day.states)
    counted = ", ".join(f"{count} {templates.words(state).lower()}" for state, count in counts.most_common())
    return Heat(
        _joined(paths),
        _joined(outlined),
        notable,
        _months(monday, weeks),
        f"Slots by day, {calendar.timezone}: {counted or 'none yet'}",
        round(_LEFT + weeks * _WEEK_STEP),
    )


def _joined(paths: dict[str, list[str]]) -> dict[str, str]:
    return {icon: "".join(parts) for icon, parts in paths.items()}


def _icon(day: CalendarDay) -> str:
    worst = next((state for state in _WORST_FIRST if day.states.get(state)), None)
    return "planned" if worst is None else templates.RUNS[worst].icon


def _said(day: CalendarDay) -> str:
    return ", ".join(f"{count} {templates.words(state).lower()}" for state, count in day.states.items())


def _months(monday: date, weeks: int) -> list[tuple[float, str]]:
    found: list[tuple[float, str]] = []
    for week in range(weeks):
        start = monday + timedelta(days=7 * week)
        if start.day <= 7:
            found.append((round(_LEFT + week * _WEEK_STEP, 1), f"{start:%b}"))
    return found


_SLOT_STEP = 6


class SlotMark(NamedTuple):
    icon: str
    path: str
    outline: bool
    x: int
    tip: str


class SlotBar(NamedTuple):
    marks: list[SlotMark]
    label: str

    @property
    def svg(self) -> Markup:
        """The marks: one path for those that look alike, and a field with a tip for each."""
        paths: dict[str, str] = {}
        for mark in self.marks:
            look = f"is-{mark.icon}{' outlined' if mark.outline else ''}"
            paths[look] = paths.get(look, "") + mark.path
        drawn = [f'<path class="{look}" d="{path}"/>' for look, path in paths.items()]
        drawn += [
            f'<rect class="hit-area" x="{mark.x}" width="6" height="22" data-tip="{escape(plain(mark.tip))}"/>'
            for mark in self.marks
        ]
        return Markup("".join(drawn))


def slot_bar(runs: list[Run], zone: tzinfo, now: datetime, reasons_zone: str) -> SlotBar:
    """The runs, given newest first, as marks from the oldest; and the same as a sentence."""
    found = [(templates.of_run(run), run.slot or run.planned_at, because(run, reasons_zone)) for run in reversed(runs)]
    return _slot_bar(found, zone, now)


def bar_of(slots: list[results.SlotBar], zone: tzinfo, now: datetime) -> SlotBar:
    """The same for the records of a list."""
    found = [(templates.RUNS[slot.state], slot.at, templates.words(slot.reason or "")) for slot in slots]
    return _slot_bar(found, zone, now)


def _slot_bar(found: list[tuple[templates.Look, datetime, str]], zone: tzinfo, now: datetime) -> SlotBar:
    marks = [
        mark(index, look, f"{templates.clock(at, zone, now)} · {look.word}\n{reason}")
        for index, (look, at, reason) in enumerate(found)
    ]
    counts = Counter(look.word.lower() for look, _, _ in found)
    text = ", ".join(f"{count} {word}" for word, count in counts.most_common())
    return SlotBar(marks, f"Last {counted(len(found), 'slot')}: {text}" if found else "No slots yet")


_LINES = {
    "succeeded": "M{x} 3v16",
    "failed": "M{x} 3v9M{x} 14v5",
    "skipped": "M{x} 14v5",
    **dict.fromkeys(("deferred", "waiting"), "M{x} 9v10"),
    **dict.fromkeys(("unknown", "stuck", "denied"), "M{x} 3v4M{x} 15v4"),
}
"""Marks that are lines, by icon. The others are outlines."""
_BOX = "M{left} 3.5h3v15h-3z"
_BOXES = {"missed": "M{left} 9.5h3v9h-3z"}


def mark(index: int, look: templates.Look, tip: str) -> SlotMark:
    x = index * _SLOT_STEP + _SLOT_STEP // 2
    outline = look.icon not in _LINES
    path = _LINES.get(look.icon) or _BOXES.get(look.icon, _BOX)
    return SlotMark(look.icon, path.format(x=x, left=x - 1.5), outline, index * _SLOT_STEP, tip.strip())


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
        return templates.clock(at, self.zone, self.now)


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
    look = templates.of_run(run)
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
    return f"{look.word} in {templates.duration((run.ended_at - run.started_at).total_seconds() * 1000)}"


def _slot(slot: TimelineSlot, agent: str, scale: _Scale, y: int, number: int) -> LaneMark:
    look: Look = templates.of_verdict(slot.verdict)
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
    icon = templates.RUNS[worst].icon if band.kind == "records" else "planned"
    counts = ", ".join(f"{count} {templates.words(state).lower()}" for state, count in band.states.items())
    what = band.schedule or counted(band.schedules, "schedule")
    text = (
        joined(band.sentence or "", band.quote)
        or f"{what}: {counted(band.count, 'record' if band.kind == 'records' else 'slot')}"
    )
    address = scale.address("/schedules", agent if band.schedule else None, band.schedule)
    said = f"{text}{' (' + counts + ')' if counts else ''}"
    return Band(band.kind, x, width, icon, min(band.count, _MAX_DASHES), said, address, band.start >= scale.now)


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
    look = templates.RUNS.get(span.state or "")
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
