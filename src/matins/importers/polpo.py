"""Polpo's missions: each mission that has a schedule is a schedule with steps, by the mission's id."""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast

import orjson

from matins.config.presets import PRESETS
from matins.engine.when.cron import parse_cron
from matins.engine.when.triggers import to_ms
from matins.errors import InvalidInput
from matins.importers.entries import Cron, Imported, ImportEntry, Importer, OldTimes, Once, read_schedules, with_preset

SOURCE = "polpo"
TABLE = "missions"
_ENDED = ("completed", "failed", "cancelled")
_NEXT_MATCH = "A one-shot by cron: it runs at its next match, once."


def read(path: str, zone: str) -> Imported:
    """The missions of a database, or of a JSON file. Polpo has the times of its machine."""
    schedules, left_out = read_schedules(
        path, TABLE, "mission {id}", lambda mission, origin: _schedule(mission, origin, zone)
    )
    names = {step["agent"] for entry in schedules for step in entry.settings["steps"] if "agent" in step}
    agents = [
        ImportEntry("agent", name, {"runner": "claude"}, path, notes=("An agent of Polpo: set its model.",))
        for name in sorted(names)
    ]
    return Imported(SOURCE, (*agents, *schedules), left_out)


def _schedule(mission: dict[str, Any], origin: str, zone: str) -> ImportEntry:
    status, text = str(mission.get("status") or "draft"), mission.get("schedule")
    if status in _ENDED:
        raise InvalidInput(f"it is {status}.", value=status, field="status")
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput("it has no schedule.", field="schedule")
    steps = [_step(task) for task in _tasks(mission)]
    if not steps:
        raise InvalidInput("it has no tasks.", field="tasks")
    recurring = status == "recurring" or bool(mission.get("recurring"))
    old = _old(text.strip(), zone, recurring=recurring)
    once = not recurring and isinstance(old, Cron)
    settings = {
        **({} if recurring else PRESETS["polpo"].once),
        "agent": steps[0].get("agent"),
        "description": mission.get("name"),
        "timezone": zone,
        "steps": steps,
        "ends_at": mission.get("endDate") or mission.get("end_date"),
        "max_executions": 1 if once else None,
    }
    return ImportEntry(
        "schedule", str(mission["id"]), with_preset("polpo", text.strip(), settings), origin, old,
        paused=status == "paused" or mission.get("enabled") is False,
        notes=(_NEXT_MATCH,) if once else (),
    )  # fmt: skip


def _tasks(mission: dict[str, Any]) -> list[dict[str, Any]]:
    """The tasks of a mission: its own, or those of the document that Polpo stores with it."""
    document: Any = mission.get("data")
    if isinstance(document, str):
        try:
            document = orjson.loads(document)
        except orjson.JSONDecodeError as error:
            raise InvalidInput(f"its data is not JSON: {error}.", field="data") from None
    inner = cast("dict[str, Any]", document).get("tasks") if isinstance(document, dict) else None
    found: Any = mission.get("tasks") or inner or []
    return cast("list[dict[str, Any]]", orjson.loads(found) if isinstance(found, str) else found)


def _step(task: dict[str, Any]) -> dict[str, Any]:
    step = {
        "title": task.get("title"),
        "prompt": task.get("description"),
        "agent": task.get("assignTo"),
        "after": task.get("dependsOn") or None,
    }
    return {name: value for name, value in step.items() if value is not None}


def _old(text: str, zone: str, *, recurring: bool) -> OldTimes:
    if not text[:4].isdigit() or text[4:5] != "-":
        parse_cron(text, strict=True)
        return Cron(text, zone)
    if recurring:
        raise InvalidInput("A recurring schedule takes a cron expression, not a timestamp.", value=text)
    try:
        return Once(to_ms(datetime.fromisoformat(text).astimezone()))
    except ValueError:
        raise InvalidInput(f'"{text}" is no ISO timestamp.', value=text, field="schedule") from None


IMPORTER = Importer("Import the missions of Polpo, from its database or as JSON.", read)
