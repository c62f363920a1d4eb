"""Hermes: the jobs of a `~/.hermes/cron/jobs.json`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, cast
from zoneinfo import ZoneInfo

from matins.engine.prompts import escaped
from matins.errors import InvalidInput
from matins.importers.assistants import Assistant, mapping
from matins.importers.entries import (
    Every,
    Imported,
    ImportEntry,
    Importer,
    OldTimes,
    Once,
    Row,
    present,
    read_schedules,
    slug,
)


def read(path: str, zone: str) -> Imported:
    """The jobs of a `~/.hermes/cron/jobs.json`."""
    reader = Assistant("hermes", zone)
    listed = read_schedules("hermes", path, "jobs", "job {name}", lambda row, origin: _job(reader, row, origin, path))
    return reader.found(listed, path)


def _job(reader: Assistant, row: Row, origin: str, path: str) -> ImportEntry:
    if row.get("state") == "completed":
        raise InvalidInput("it is completed.", field="state")
    schedule, notes = mapping(row, "schedule"), list[str]()
    when, old = _times(reader, schedule)
    repeat = cast("dict[str, Any]", row.json("repeat") or {})
    left = None if repeat.get("times") is None else int(repeat["times"]) - int(repeat.get("completed") or 0)
    settings: dict[str, Any] = {
        "when": when, "timezone": reader.zone, "max_executions": None if left is None else max(1, left),
    }  # fmt: skip
    script = row.get("script")
    command = None if not script else _script(str(script), path)
    if command is not None and row.get("no_agent"):
        settings["command"] = command
    else:
        settings["prompt"] = escaped(_with_skills(row))
        settings["agent"], settings["prompt_prefix"] = reader.agent(str(row.get("profile") or "default")), False
        settings["model"] = row.get("model")
        if command is not None:
            settings["pre_check"] = command
            notes.append("Its script ran before the prompt, with its output; here it is a pre-check without it.")
    monitor = row.get("monitor_command") or row.get("monitor_script")
    if monitor:
        settings["pre_check"] = shlex.split(str(monitor))
    if row.get("context_from"):
        notes.append("It began with the answers of other jobs: make it follow them, with on and {{call.text}}.")
    for place in _places(row):
        platform, _, chat = place.partition(":")
        if platform != "local":
            there, note = reader.deliver(platform, chat, origin)
            settings["deliver"] = [*settings.get("deliver", ()), *(there or ())]
            notes += [note] if note else []
    name = slug(str(row.get("name") or row["id"]), reader.names, "job")
    paused = row.get("enabled") is False or row.get("state") == "paused"
    return ImportEntry("schedule", name, present(settings), origin, old, paused, tuple(notes))


def _times(reader: Assistant, schedule: Mapping[str, Any]) -> tuple[str, OldTimes | None]:
    kind = schedule.get("kind")
    if kind == "cron" and schedule.get("expr"):
        return reader.cron(str(schedule["expr"]).strip(), reader.zone)
    if kind == "interval" and schedule.get("minutes"):
        return f"{schedule['minutes']}m", Every(int(schedule["minutes"]) * 60_000)
    if kind == "once" and schedule.get("run_at"):
        once = Once.parse(str(schedule["run_at"]), ZoneInfo(reader.zone), "schedule")
        return datetime.fromtimestamp(once.at_ms / 1000, ZoneInfo("UTC")).isoformat(), once
    raise InvalidInput("it has no times.", field="schedule")


def _script(script: str, path: str) -> list[str]:
    """The command of a script, which is in `scripts` beside the folder of the jobs unless it has a path."""
    file = Path(script).expanduser()
    if not file.is_absolute():
        file = Path(path).expanduser().absolute().parent.parent / "scripts" / script
    return (
        ["python3", str(file)] if file.suffix == ".py" else ["bash", str(file)] if file.suffix == ".sh" else [str(file)]
    )


def _with_skills(row: Row) -> str:
    skills = row.json("skills") or ([row["skill"]] if row.get("skill") else [])
    prompt = str(row.get("prompt") or "")
    return f"Use these skills: {', '.join(map(str, skills))}.\n\n{prompt}" if skills else prompt


def _places(row: Row) -> Iterator[str]:
    """Where its answers go, each as platform:chat."""
    for place in str(row.get("deliver") or "local").split(","):
        place = place.strip()
        if place == "origin":
            origin = cast("dict[str, Any]", row.json("origin") or {})
            yield f"{origin.get('platform') or 'the chat of its origin'}:{origin.get('chat_id') or ''}"
        elif place:
            yield place


IMPORTER = Importer("Import the jobs of Hermes: ~/.hermes/cron/jobs.json.", read)
