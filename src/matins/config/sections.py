"""The structure of the file: a section for each kind of record, schedules, and top-level keys."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, get_args

from matins.config.presets import PRESETS
from matins.engine.schedules import SETTINGS
from matins.model.settings import Choice, Declared, Duration, Flag, Kind, Name, Pause, Setting, Table, Text
from matins.records import record_kinds
from matins.records.kind import RecordKind

Edits = Literal["refuse", "write_back"]
SCHEDULES = "schedules"
SCHEDULES_HELP = "When which agent is woken for what, by name."
DEFAULTS = "defaults"
DEFAULTS_HELP = "Settings of all schedules that do not set them themselves; `isolation` and `user` of all such agents."


def _declared(name: str, kind: Kind, text: str, example: Any) -> Declared:
    return Declared(name, name, Setting(kind, text, example), None)


_FILE_ONLY = (
    _declared(
        "when", Text(1_000, lines=True), 'When: "every weekday at 9am", "0 2 * * *", "5m", an ISO instant, an RRULE.',
        "every weekday at 9am",
    ),
    _declared("agent", Name("agents"), "Agent to wake, by name.", "scout"),
    _declared("preset", Choice(tuple(PRESETS)), "System whose defaults apply to the schedule.", "herdctl"),
    _declared("paused", Pause(), "Whether the file pauses the schedule; text is the reason.", "until the key is there"),
    _declared("type", Choice(("interval", "cron", "webhook", "chat")),
              "As herdctl writes it: with interval or expression, or started by calls.", "interval"),
    _declared("interval", Duration(), "Interval of a schedule with `type: interval`.", "5m"),
    _declared("expression", Text(1_000), "Cron expression of a schedule with `type: cron`.", "0 9 * * 1-5"),
    _declared("cron", Text(1_000), "The same, as newer versions of herdctl write it.", "0 9 * * 1-5"),
    _declared("enabled", Flag(), "As herdctl writes it: `false` pauses the schedule.", False),
    _declared("resume_session", Flag(), "As herdctl writes it: whether runs continue the agent's conversation.", True),
)  # fmt: skip
SCHEDULE: Table = {**{declared.name: declared for declared in _FILE_ONLY}, **SETTINGS}
"""The settings of a schedule in the file."""
OF_AGENTS = ("isolation", "user")
"""The defaults that are settings of agents."""
TOP: Table = {
    "preset": _declared("preset", Choice(tuple(PRESETS)), "System whose defaults apply to this file.", "herdctl"),
    "edits": _declared(
        "edits", Choice(get_args(Edits)),
        "Whether changes made elsewhere to what the file defines are refused, or written back into it.", "write_back",
    ),
}  # fmt: skip


@cache
def default_settings() -> Table:
    """The settings that `defaults` may have."""
    agents = record_kinds()["agents"].table
    return {**SETTINGS, **{name: agents[name] for name in OF_AGENTS}}


@cache
def sections() -> Mapping[str, RecordKind[Any]]:
    """The kinds of records that have a section, by its name."""
    return {noun: kind for noun, kind in record_kinds().items() if kind.in_file and not kind.single}


@cache
def singles() -> Mapping[str, RecordKind[Any]]:
    """The kinds with a single record, by their top-level key."""
    return {noun: kind for noun, kind in record_kinds().items() if kind.in_file and kind.single}


@cache
def top_level() -> tuple[str, ...]:
    return (*TOP, *singles(), DEFAULTS, SCHEDULES, *sections())


def of_agents(defaults: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in defaults.items() if name in OF_AGENTS}


def of_schedules(defaults: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in defaults.items() if name not in OF_AGENTS}
