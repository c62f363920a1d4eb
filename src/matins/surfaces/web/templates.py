"""The templates: files in `templates/`, with filters for times, states and texts from outside."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, cast

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from matins.api.codec import to_document
from matins.model.counting import counted, runs_per_period
from matins.model.hidden_characters import write_out
from matins.model.sentence import joined
from matins.records import record_kinds
from matins.surfaces.web import sentences, states, times
from matins.surfaces.web.paths import full_name
from matins.surfaces.web.static_files import StaticFiles
from matins.surfaces.web.visit import Visit

_WITHOUT_ZONE = ("interval", "never")
"""Triggers that name no time of day."""
_SHOWN_ELSEWHERE = ("name", "usage")


def environment(files: StaticFiles) -> Environment:
    found = Environment(
        loader=PackageLoader("matins.surfaces.web"),
        autoescape=True,
        finalize=plain,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols"],
    )
    filters: dict[str, Any] = {
        "shown": shown,
        "as_is": Markup.escape,
        "pretty": pretty,
        "facts": facts,
        "counted": counted,
        "frequency": runs_per_period,
        "without": str.removeprefix,
        "expected": sentences.expected,
        "with_quote": joined,
        "words": states.words,
        "duration": times.duration,
    }
    found.filters.update(filters)
    names: dict[str, Any] = {
        "static": files.path,
        "run_look": states.of_run,
        "schedule_look": states.of_schedule,
        "verdict_look": states.of_verdict,
        "full_name": full_name,
        "example": example,
    }
    found.globals.update(names)
    return found


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
        return "" if instant is None else times.full(instant, visit.zone, visit.now)

    def trigger(schedule: Any) -> str:
        """When it fires, with the zone of its times where that is not the viewer's."""
        match schedule.trigger:
            case {"kind": "once", "at": at}:
                return f"once, {_title(datetime.fromisoformat(at))}"
            case {"kind": kind} if kind in _WITHOUT_ZONE or schedule.timezone == visit.zone_name:
                return schedule.trigger_text
            case _:
                return f"{schedule.trigger_text}, {schedule.timezone}"

    return {
        "visit": visit,
        "address": visit.address,
        "can": visit.can,
        "trigger": trigger,
        "at": at,
        "ago": ago,
        "day": day,
        "full": _title,
    }


def shown(text: Any) -> Markup:
    """A text from outside. Characters that would hide or reorder others are written out, and marked."""
    return Markup(write_out(str(Markup.escape(str(text))), _marked, keep="\n\t"))


def _marked(character: str) -> str:
    return f'<span class="hidden-character">{_written(character)}</span>'


def plain(value: Any) -> Any:
    """What a template prints. Of texts, attributes too have hidden characters written out; `as_is` is for the values of
    fields."""
    return write_out(value, _written, keep="\n\t") if type(value) is str else value


def _written(character: str) -> str:
    return "ESC" if character == "\x1b" else f"U+{ord(character):04X}"


def example(noun: str) -> str:
    """A command that makes a record of this kind."""
    return record_kinds()[noun].example


def facts(record: Any) -> list[tuple[str, str]]:
    """The settings of a record that are set, in words."""
    return [
        (states.words(key), _flat(value))
        for key, value in to_document(record).items()
        if key not in _SHOWN_ELSEWHERE and _is_set(value)
    ]


def _is_set(value: Any) -> bool:
    return value not in (None, "", [], {})


def _flat(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case dict():
            return ", ".join(
                f"{key}: {_flat(item)}" for key, item in cast("dict[str, Any]", value).items() if _is_set(item)
            )
        case list():
            return ", ".join(map(_flat, cast("list[Any]", value)))
        case _:
            return str(value)


def pretty(value: Any) -> str:
    """A value as indented JSON."""
    return json.dumps(to_document(value), ensure_ascii=False, indent=2, default=str)
