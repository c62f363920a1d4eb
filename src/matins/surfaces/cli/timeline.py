"""A timeline and strips of records as text: a mark for each stretch of time, or for each record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from matins.surfaces.cli.states import run_state
from matins.surfaces.cli.tables import Cell
from matins.surfaces.cli.terminal_text import fitted_ends, one_line, padded
from matins.surfaces.cli.times import instant

PAST, AHEAD = timedelta(hours=8), timedelta(hours=16)
_LABEL = 14
_LEAST = 24
_MAX_LANES = 12
_LABEL_HOURS = 4
_NOW = Cell("│", "cyan")
_SLOTS = {"runs": Cell("·"), "deferred": Cell("◌", "yellow"), "coalesced": Cell("◌", "yellow")}
_LATER = Cell("↷", "yellow")
_QUIET = Cell("░")
_MANY = Cell("▪", "green")
_RANK = "✗?◆▸↷⊘◌✓▪·░"
"""Of several marks in one place, the first of these is shown: trouble is not hidden by what went well."""
LEGEND = "✓ ran  ✗ failed  ↷ skipped, missed  ▸ running  ◆ needs you  · to come  ░ quiet"


class Scale(NamedTuple):
    start: datetime
    end: datetime
    width: int

    def place(self, text: str) -> int:
        """The column of an instant; outside the scale, that of its nearer end."""
        share = (instant(text) - self.start) / (self.end - self.start)
        return min(self.width - 1, max(0, int(share * self.width)))


def mark(run: Mapping[str, Any]) -> Cell:
    """The mark of a record: the first character of its state."""
    state = run_state({"status": run["reason"] or run["state"], **run})
    return state._replace(text=state.text[0])


def strip(bars: Iterable[Mapping[str, Any]]) -> list[Cell]:
    """A mark for each record."""
    return [mark(bar) for bar in bars]


def timeline(found: Mapping[str, Any], width: int) -> list[list[Cell]]:
    """The lines of a timeline: hours, and a lane for each agent."""
    scale = Scale(instant(found["start"]), instant(found["end"]), max(_LEAST, width - _LABEL))
    now = scale.place(found["now"])
    lanes: Sequence[Mapping[str, Any]] = found["lanes"]
    lines = [[Cell(" " * _LABEL), Cell(_hours(scale, now))]]
    lines += [_lane(lane, scale, now) for lane in lanes[:_MAX_LANES]]
    if len(lanes) > _MAX_LANES:
        lines.append([Cell(f"… and {len(lanes) - _MAX_LANES} more agents")])
    return lines


def _hours(scale: Scale, now: int) -> str:
    """The hours of the local clock above their places, and now above its own."""
    text = [" "] * scale.width
    hour = scale.start.astimezone().replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    while hour < scale.end:
        at, label = scale.place(hour.isoformat()), f"{hour:%H:%M}"
        if hour.hour % _LABEL_HOURS == 0 and abs(at - now) > len(label) and at + len(label) <= scale.width:
            text[at : at + len(label)] = label
        hour += timedelta(hours=1)
    text[now : now + 3] = "now"
    return "".join(text[: scale.width]).rstrip()


def _lane(lane: Mapping[str, Any], scale: Scale, now: int) -> list[Cell]:
    places: list[Cell | None] = [None] * scale.width
    for band in lane["bands"]:
        shown = {"quiet_hours": _QUIET, "records": _MANY, "slots": _SLOTS["runs"]}.get(band["kind"], _LATER)
        if "failed" in band["states"]:
            shown = Cell("✗", "red")
        for at in range(scale.place(band["start"]), scale.place(band["end"]) + 1):
            _put(places, at, shown)
    for slot in lane["slots"]:
        _put(places, min(scale.width - 1, max(now + 1, scale.place(slot["at"]))), _SLOTS.get(slot["verdict"], _LATER))
    for run in lane["runs"]:
        _put(places, max(0, min(now - 1, scale.place(run["at"]))), mark(run))
    places[now] = _NOW
    name = fitted_ends(one_line(lane["agent"] or "jobs"), _LABEL - 2)
    return [Cell(padded(name, _LABEL)), *(Cell(" ") if cell is None else cell for cell in places)]


def _put(places: list[Cell | None], at: int, cell: Cell) -> None:
    there = places[at]
    if there is None or _rank(cell) < _rank(there):
        places[at] = cell


def _rank(cell: Cell) -> int:
    found = _RANK.find(cell.text)
    return len(_RANK) if found < 0 else found
