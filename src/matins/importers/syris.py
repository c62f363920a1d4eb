"""Syris' table of schedules: a database, or its rows as JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson

from matins.engine.jobs import MESSAGE_JOB
from matins.engine.when.triggers import to_ms
from matins.errors import InvalidInput
from matins.importers.entries import (
    Cron,
    Every,
    Imported,
    ImportEntry,
    Importer,
    OldTimes,
    Once,
    read_schedules,
    slug,
    with_preset,
)

SOURCE = "syris"
TABLE = "schedules"


def read(path: str, zone: str) -> Imported:
    """Each row with its own time zone, which is UTC by default."""
    names: set[str] = set()
    entries, left_out = read_schedules(
        path, TABLE, f"{TABLE} {{schedule_id}}", lambda row, origin: _schedule(row, origin, names)
    )
    return Imported(SOURCE, entries, left_out)


def _schedule(row: dict[str, Any], origin: str, names: set[str]) -> ImportEntry:
    name = slug(row.get("name") or row["schedule_id"], names, "schedule")
    when, old = _when(row)
    payload = row.get("payload")
    settings = {
        "job": MESSAGE_JOB,
        "payload": orjson.loads(payload) if isinstance(payload, str) else payload,
        "timezone": row.get("timezone") or "UTC",
        "quiet_hours": row.get("quiet_hours_policy_id"),
        "catch_up": row.get("catch_up_policy") or "skip",
    }
    return ImportEntry(
        "schedule", name, with_preset("syris", when, settings), origin, old, paused=not row.get("enabled", True)
    )


def _when(row: dict[str, Any]) -> tuple[str, OldTimes]:
    kind, spec, zone = row.get("type"), str(row.get("spec", "")), row.get("timezone") or "UTC"
    if kind == "cron":
        return spec, Cron(spec, zone)
    if kind == "interval" and spec.isdigit() and int(spec):
        return f"{spec}s", Every(int(spec) * 1000)
    if kind == "one_shot":
        at = datetime.fromisoformat(spec)
        return spec, Once(to_ms(at if at.tzinfo else at.replace(tzinfo=UTC)))
    raise InvalidInput(f'type "{kind}" with spec "{spec}" is unknown.', value=kind, field="type")


IMPORTER = Importer("Import the database of Syris, or its rows as JSON.", read)
