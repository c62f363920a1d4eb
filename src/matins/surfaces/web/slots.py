"""The bar of past slots: a mark for each, by shape and colour."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, tzinfo
from typing import NamedTuple

from markupsafe import Markup, escape

from matins.api import results
from matins.api.results import Run
from matins.model.counting import counted
from matins.surfaces.web import states, times
from matins.surfaces.web.sentences import because
from matins.surfaces.web.templates import plain

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
    found = [(states.of_run(run), run.slot or run.planned_at, because(run, reasons_zone)) for run in reversed(runs)]
    return _slot_bar(found, zone, now)


def bar_of(slots: list[results.SlotBar], zone: tzinfo, now: datetime) -> SlotBar:
    """The same for the records of a list."""
    found = [(states.RUNS[slot.state], slot.at, states.words(slot.reason or "")) for slot in slots]
    return _slot_bar(found, zone, now)


def _slot_bar(found: list[tuple[states.Look, datetime, str]], zone: tzinfo, now: datetime) -> SlotBar:
    marks = [
        mark(index, look, f"{times.clock(at, zone, now)} · {look.word}\n{reason}")
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


def mark(index: int, look: states.Look, tip: str) -> SlotMark:
    x = index * _SLOT_STEP + _SLOT_STEP // 2
    outline = look.icon not in _LINES
    path = _LINES.get(look.icon) or _BOXES.get(look.icon, _BOX)
    return SlotMark(look.icon, path.format(x=x, left=x - 1.5), outline, index * _SLOT_STEP, tip.strip())
