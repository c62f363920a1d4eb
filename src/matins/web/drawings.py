"""Graph, heat, slots, timeline, waterfall as SVG.

The graph of a mission: steps in columns by what they wait for, and the edges between them.

A year of slots: a square for each day, one path for each state.

The bar of past slots: a mark for each, by shape and colour.

Lanes as SVG: a dense lane is bars, one path a colour; of few runs, each is a mark. Every x is a part of the width.

The waterfall of a run: its spans from due to end, as bars in percent of the whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta, tzinfo
from typing import Any, NamedTuple

from markupsafe import Markup, escape
from msgspec import structs

from matins.api import results
from matins.api.results import (
    CalendarDay,
    Mission,
    Run,
    RunFacts,
    RunStep,
    ScheduleCalendar,
    Span,
)
from matins.model.words import counted
from matins.web import templates
from matins.web.templates import because, plain
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
    day: str


class Heat(NamedTuple):
    paths: dict[str, str]
    """The path of each look."""
    outlined: dict[str, str]
    days: list[Square]
    """Those with records."""
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
        if day.states:
            notable.append(Square(x, y, f"{at:%a} {at.day} {at:%b}\n{_said(day)}", day.day))
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
    """The bar of the records of a list."""
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


_TALLEST = 33.0
_NARROWEST_MARK = 0.5
_STEPS = (5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 7200)
"""Distances of ticks, in minutes."""
_MOST_TICKS = 9
_STACK = (
    ("succeeded", ("succeeded",)),
    ("skipped", ("skipped", "denied", "expired", "cancelled", "blocked", "waiting", "queued", "ready")),
    ("running", ("running",)),
    ("failed", ("failed", "interrupted", "over_budget", "unknown", "held", "missed")),
)
"""The colours of a bar from below, and the states of each."""


class TimelineTick(NamedTuple):
    x: float
    text: str
    minor: bool


class LanePicture(NamedTuple):
    lane: results.Lane
    name: str
    note: str
    address: str | None
    """Its runs; None for the lanes that are folded."""
    paths: list[tuple[str, str]]
    """The bars of each colour."""
    good: str
    """For the pointer: how many of each part ended well, or are planned."""
    bad: str
    marks: list[DrawnMark]
    label: str


class DrawnMark(NamedTuple):
    kind: str
    """bar, sign or slot."""
    icon: str
    x: float
    width: float
    tip: str
    address: str


class LaneChart(NamedTuple):
    now: float | None
    """Position of now, in percent; None if the time has passed."""
    clock: str
    ticks: list[TimelineTick]
    lanes: list[LanePicture]
    start_ms: int
    end_ms: int


class _Scale(NamedTuple):
    start: datetime
    end: datetime
    now: datetime
    zone: tzinfo
    address: Callable[..., str]

    def x(self, at: datetime) -> float:
        return round(min(max((at - self.start) / (self.end - self.start), 0.0), 1.0) * 100, 2)

    def clock(self, at: datetime) -> str:
        return templates.clock(at, self.zone, self.now)


def lane_chart(found: results.Lanes, visit: Visit) -> LaneChart:
    scale = _Scale(found.start, found.end, found.now, visit.zone, visit.address)
    rows = [*found.lanes, *([found.rest] if found.rest else [])]
    here = found.start < found.now < found.end
    return LaneChart(
        scale.x(found.now) if here else None,
        f"{found.now.astimezone(visit.zone):%H:%M}",
        list(_ticks(scale)),
        [_lane_picture(lane, found, scale) for lane in rows],
        round(found.start.timestamp() * 1000),
        round(found.end.timestamp() * 1000),
    )


def run_chart(found: results.Lanes, visit: Visit) -> LaneChart:
    """All lanes as one, with its bars."""
    lanes = [*found.lanes, *([found.rest] if found.rest else [])]
    states = {state for lane in lanes for state in lane.parts}
    parts = {
        state: [
            sum(column) for column in zip(*(lane.parts[state] for lane in lanes if state in lane.parts), strict=True)
        ]
        for state in states
    }
    whole = results.Lane("", 0, found.runs, found.failed, 0, 0, parts, [], None)
    return lane_chart(structs.replace(found, lanes=[whole], rest=None), visit)


def _lane_picture(lane: results.Lane, found: results.Lanes, scale: _Scale) -> LanePicture:
    is_rest = lane is found.rest
    by_agent = found.by == "agent"
    name = f"{lane.folded} more" if is_rest else lane.name or ("jobs" if by_agent else "without it")
    here = {"agent": lane.name} if by_agent else {"select": f'{found.by}="{lane.name}"'}
    planned = lane.parts.get("planned", [])
    stack = [(icon, [lane.parts[state] for state in states if state in lane.parts]) for icon, states in _STACK]
    counts = [(icon, [sum(column) for column in zip(*rows, strict=True)]) for icon, rows in stack if rows]
    totals = [sum(column) for column in zip(*(row for _, row in counts), strict=True)] if counts else []
    tallest = max([*totals, 1]) if lane.runs else max([*planned, 1])
    paths, heights = list[tuple[str, str]](), [0.0] * found.parts
    for icon, row in counts:
        paths.append((icon, _bars(row, heights, tallest)))
    if planned:
        paths.append(("planned", _bars(planned, list(heights), tallest)))
    bad = dict(counts).get("failed", [])
    good = [
        total - (bad[part] if bad else 0) + (planned[part] if planned else 0)
        for part, total in enumerate(totals or [0] * found.parts)
    ]
    return LanePicture(
        lane,
        name,
        lane.note or "",
        None if is_rest or not lane.name else scale.address("/runs", **here),
        paths,
        " ".join(map(str, good)),
        " ".join(map(str, bad)),
        [_drawn_mark(mark, scale) for mark in lane.marks],
        f"{name}: {counted(lane.runs, 'run')} since {scale.clock(scale.start)}, {lane.failed} failed; "
        f"{lane.planned} planned until {scale.clock(scale.end)}. The table of runs says the same.",
    )


def _bars(row: list[int], heights: list[float], tallest: int) -> str:
    """One path for the bars of a colour, each on top of those before it."""
    parts: list[str] = []
    for index, count in enumerate(row):
        if count:
            tall = max(round(min(count / tallest, 1.0) * _TALLEST, 1), 2.0)
            parts.append(f"M{index + 0.5:g} {round(36 - heights[index], 1):g}v-{tall:g}")
            heights[index] += tall
    return "".join(parts)


def _drawn_mark(mark: results.LaneMark, scale: _Scale) -> DrawnMark:
    look = (
        templates.of_verdict(mark.state) if mark.run_id is None else templates.of_run(_Stated(mark.state, mark.status))
    )
    whole = f"{mark.agent}/{mark.schedule}" if mark.agent else mark.schedule
    tip = f"{scale.clock(mark.at)} {whole}\n{look.word}"
    x = scale.x(mark.at)
    if mark.run_id is None:
        at = mark.slot.isoformat() if mark.slot else None
        return DrawnMark(
            "slot", look.icon, x, 0, tip, f"{scale.address('/schedules', mark.agent, mark.schedule, at=at)}#why"
        )
    address = scale.address("/runs", mark.run_id)
    if mark.state in ("succeeded", "failed", "running", "interrupted", "unknown", "over_budget", "held"):
        width = max(round(scale.x(mark.ended_at or scale.now) - x, 2), _NARROWEST_MARK)
        return DrawnMark("bar", look.icon, x, width, tip, address)
    return DrawnMark("sign", look.icon, x, 0, tip, address)


class _Stated(NamedTuple):
    state: str
    status: str
    reason: str | None = None


def _ticks(scale: _Scale) -> Iterator[TimelineTick]:
    minutes = (scale.end - scale.start) / timedelta(minutes=1)
    step = next((size for size in _STEPS if minutes / size <= _MOST_TICKS), _STEPS[-1])
    local = scale.start.astimezone(scale.zone).replace(hour=0, minute=0, second=0, microsecond=0)
    number = 0
    while local < scale.end:
        if local > scale.start:
            x = scale.x(local)
            is_day = local.hour == 0 and local.minute == 0
            if 2 < x < 98:
                yield TimelineTick(x, f"{local:%a} {local.day}" if is_day else f"{local:%H:%M}", bool(number % 2))
            number += 1
        local += timedelta(minutes=step)


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
