"""The bar of past slots: a mark for each, by shape and colour."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, tzinfo
from typing import NamedTuple

from matins.api.results import Run
from matins.surfaces.web import states, times
from matins.surfaces.web.sentences import because

_STEP = 6


class Mark(NamedTuple):
    icon: str
    path: str
    outline: bool
    x: int
    tip: str


class SlotBar(NamedTuple):
    marks: list[Mark]
    label: str


def slot_bar(runs: list[Run], zone: tzinfo, now: datetime, reasons_zone: str) -> SlotBar:
    """The runs, oldest first, as marks; and the same as a sentence."""
    ordered = runs[::-1]
    looks = [states.of_run(run) for run in ordered]
    marks = [
        mark(
            index,
            look,
            f"{times.clock(run.slot or run.planned_at, zone, now)} · {look.word}\n{because(run, reasons_zone)}",
        )
        for index, (run, look) in enumerate(zip(ordered, looks, strict=True))
    ]
    counts = Counter(look.word.lower() for look in looks)
    text = ", ".join(f"{count} {word}" for word, count in counts.most_common())
    return SlotBar(marks, f"Last {len(runs)} slots: {text}" if runs else "No slots yet")


def mark(index: int, look: states.Look, tip: str) -> Mark:
    x = index * _STEP + _STEP // 2
    match look.icon:
        case "ok":
            path, outline = f"M{x} 3v16", False
        case "fail":
            path, outline = f"M{x} 3v9M{x} 14v5", False
        case "skip":
            path, outline = f"M{x} 14v5", False
        case "defer" | "wait":
            path, outline = f"M{x} 9v10", False
        case "unk" | "stuck" | "deny":
            path, outline = f"M{x} 3v4M{x} 15v4", False
        case "miss":
            path, outline = f"M{x - 1.5} 9.5h3v9h-3z", True
        case _:
            path, outline = f"M{x - 1.5} 3.5h3v15h-3z", True
    return Mark(look.icon, path, outline, index * _STEP, tip.strip())
