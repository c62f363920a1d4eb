"""Cortex's schedules.json: each task is a schedule by its id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matins.config import cortex
from matins.config.reader import invalid_file
from matins.importers.entries import (
    Cron,
    Every,
    Imported,
    ImportEntry,
    Importer,
    OldTimes,
    Once,
    read_text,
    with_preset,
)
from matins.texts.yaml_nodes import to_python

SOURCE = "cortex"


def read(path: str, zone: str) -> Imported:
    """The tasks of a file. Cortex has the times of its machine."""
    text = read_text(path)
    parsed = cortex.with_profiles(cortex.read(text), cortex.Profiles())
    if parsed.problems:
        raise invalid_file(Path(path), list(parsed.problems))
    entries = [
        ImportEntry("agent", name, {"runner": "claude"}, path, notes=("A profile of Cortex: set its model.",))
        for name in sorted({item.block.values["agent"] for item in parsed.items if "agent" in item.block.values})
    ]
    for item in parsed.items:
        task: dict[str, Any] = to_python(item.block.location.node)
        values = {name: value for name, value in item.block.values.items() if name not in ("when", "paused")}
        settings = with_preset("cortex", item.block.values["when"], {"timezone": zone, **values})
        entries.append(
            ImportEntry(
                "schedule", item.name, settings, item.block.location.path, _old(task, zone),
                paused=bool(item.block.values.get("paused")),
            )
        )  # fmt: skip
    return Imported(SOURCE, tuple(entries))


def _old(task: dict[str, Any], zone: str) -> OldTimes:
    kind = task["type"]
    if kind == "interval":
        return Every(task["intervalMs"], task.get("nextRun"))
    if kind == "once":
        return Once(task["runAt"])
    hour, minute = task["time"].split(":")
    day = task["dayOfWeek"] if kind == "weekly" else "*"
    return Cron(f"{int(minute)} {int(hour)} * * {day}", zone)


IMPORTER = Importer("Import the schedules.json of Cortex.", read)
