"""OpenClaw: the jobs of `openclaw cron list --json --all`, or of a former `cron/jobs.json`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
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
    jitter_share,
    present,
    read_schedules,
    slug,
)


def read(path: str, zone: str) -> Imported:
    """The jobs of `openclaw cron list --json --all`, or of a former `cron/jobs.json`."""
    reader = Assistant("openclaw", zone)
    listed = read_schedules("openclaw", path, "jobs", "job {name}", lambda row, origin: _job(reader, row, origin))
    return reader.found(listed, path)


def _job(reader: Assistant, row: Row, origin: str) -> ImportEntry:
    schedule, payload = mapping(row, "schedule"), mapping(row, "payload")
    zone = str(schedule.get("tz") or reader.zone)
    when, old, notes = _times(reader, schedule, zone)
    settings: dict[str, Any] = {"when": when, "timezone": zone, "description": row.get("description")}
    settings["jitter"], less = jitter_share(when, zone, int(schedule.get("staggerMs") or 0))
    notes += [less] if less else []
    kind = payload.get("kind")
    if kind == "command":
        command = payload.get("argv") or payload.get("command")
        settings["command"] = command
    elif kind in ("agentTurn", "systemEvent"):
        settings["prompt"] = escaped(str(payload.get("message") or payload.get("text") or ""))
        settings["agent"], settings["prompt_prefix"] = reader.agent(str(row.get("agentId") or "main")), False
        settings["model"] = payload.get("model")
        seconds = payload.get("timeoutSeconds")
        settings["timeout"] = f"{seconds}s" if seconds else None
        target = str(row.get("sessionTarget") or "isolated")
        if target != "isolated":
            settings["target"] = {"kind": "channel", "channel": f"openclaw-{target.replace(':', '-')}"}
            notes.append(f'It spoke in the session "{target}": here, its runs share a conversation of their own.')
    else:
        raise InvalidInput(f'its payload is a "{kind}", which is not known here.', field="payload")
    _delivery(reader, row, settings, notes, origin)
    name = slug(str(row.get("name") or row["id"]), reader.names, "job")
    paused = row.get("enabled") is False
    return ImportEntry("schedule", name, present(settings), origin, old, paused, tuple(notes))


def _times(reader: Assistant, schedule: Mapping[str, Any], zone: str) -> tuple[str, OldTimes | None, list[str]]:
    kind, notes = schedule.get("kind"), list[str]()
    if kind == "cron" and schedule.get("expr"):
        return (*reader.cron(str(schedule["expr"]).strip(), zone), notes)
    if kind == "every" and schedule.get("everyMs"):
        notes.append("Theirs counts from a fixed instant, and here from the last run: set anchor to choose.")
        return f"{schedule['everyMs']}ms", Every(int(schedule["everyMs"])), notes
    if kind == "at" and (at := schedule.get("at") or schedule.get("atMs")):
        if isinstance(at, int):
            return datetime.fromtimestamp(at / 1000, ZoneInfo("UTC")).isoformat(), Once(at), notes
        once = Once.parse(str(at), ZoneInfo(str(schedule.get("tz") or "UTC")), "schedule")
        return datetime.fromtimestamp(once.at_ms / 1000, ZoneInfo("UTC")).isoformat(), once, notes
    raise InvalidInput("it has no times.", field="schedule")


def _delivery(reader: Assistant, row: Row, settings: dict[str, Any], notes: list[str], origin: str) -> None:
    delivery = mapping(row, "delivery") if row.get("delivery") else {}
    mode = delivery.get("mode")
    if mode == "announce":
        settings["deliver"], note = reader.deliver(
            str(delivery.get("channel") or "the last chat"), str(delivery.get("to") or ""), origin
        )
        notes += [note] if note else []
    elif mode == "webhook":
        notes.append("Its result was posted to a URL. A destination of kind webhook does so: say deliver yourself.")


IMPORTER = Importer("Import the jobs of OpenClaw: the output of openclaw cron list --json --all.", read)
