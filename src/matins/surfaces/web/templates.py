"""The templates: files in `templates/`, with filters for times, states and texts from outside."""

from __future__ import annotations

import json
import unicodedata
from datetime import datetime
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from matins.api.codec import to_document
from matins.engine.counting import counted, runs_per_period
from matins.surfaces.web import states, times
from matins.surfaces.web.files import StaticFiles
from matins.surfaces.web.paths import full_name, schedule_path, why_path
from matins.surfaces.web.visit import Visit

_KEPT = frozenset("\n\t")
_HIDDEN = frozenset({"Cc", "Cf", "Zl", "Zp"})
"""Control and format characters: ANSI escapes, bidirectional overrides, zero-width characters."""


def environment(files: StaticFiles) -> Environment:
    found = Environment(
        loader=PackageLoader("matins.surfaces.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols"],
    )
    filters: dict[str, Any] = {
        "shown": shown,
        "pretty": pretty,
        "words": states.words,
        "duration": times.duration,
        "counted": counted,
        "frequency": runs_per_period,
        "segments": _segments,
        "segment": _segment,
    }
    found.filters.update(filters)
    names: dict[str, Any] = {
        "static": files.path,
        "run_look": states.of_run,
        "schedule_look": states.of_schedule,
        "verdict_look": states.of_verdict,
        "schedule_path": schedule_path,
        "why_path": why_path,
        "full_name": full_name,
    }
    found.globals.update(names)
    return found


def _segments(text: object) -> str:
    return quote(str(text), safe="/")


def _segment(text: object) -> str:
    return quote(str(text), safe="")


def values_of(visit: Visit) -> dict[str, Any]:
    """What every template can use: the visit, and instants in its zone."""

    def at(instant: datetime | None) -> Markup:
        text = "" if instant is None else times.clock(instant, visit.zone, visit.now)
        return times.time_element(instant, text, _title(instant))

    def ago(instant: datetime | None) -> Markup:
        text = "" if instant is None else times.relative(instant, visit.now)
        return times.time_element(instant, text, _title(instant), live=True)

    def day(instant: datetime) -> str:
        local = instant.astimezone(visit.zone)
        return f"{local:%A} {local.day} {local:%B}, {local:%H:%M}"

    def _title(instant: datetime | None) -> str:
        return "" if instant is None else times.full(instant, visit.zone)

    return {"visit": visit, "at": at, "ago": ago, "day": day, "full": _title, "can": visit.can}


def shown(text: Any) -> Markup:
    """A text from outside. Characters that would hide or reorder others are written out."""
    parts: list[str] = []
    for part in _runs(str(text)):
        plain = Markup.escape(part)
        parts.append(plain if _is_plain(part) else Markup('<span class="ctl">{}</span>').format(_written(part)))
    return Markup("").join(parts)


def _runs(text: str) -> list[str]:
    """The text, with each hidden character on its own."""
    found: list[str] = []
    start = 0
    for index, character in enumerate(text):
        if not _is_plain(character):
            found += [text[start:index], character]
            start = index + 1
    return [part for part in [*found, text[start:]] if part]


def _is_plain(part: str) -> bool:
    return len(part) > 1 or part in _KEPT or unicodedata.category(part) not in _HIDDEN


def _written(character: str) -> str:
    return "ESC" if character == "\x1b" else f"U+{ord(character):04X}"


def pretty(value: Any) -> str:
    """A value as indented JSON."""
    return json.dumps(to_document(value), ensure_ascii=False, indent=2, default=str)
