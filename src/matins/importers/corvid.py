"""corvid-agent's database: each row of agent_schedules is a schedule, and several actions are its steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from matins.engine.notify_addresses import NO_ADDRESS, NOTIFY_ADDRESS, fix_for, is_address
from matins.errors import InvalidInput
from matins.importers.entries import (
    Cron,
    Every,
    Imported,
    ImportEntry,
    Importer,
    OldTimes,
    read_schedules,
    slug,
    with_preset,
)

SOURCE = "corvid"
TABLE = "agent_schedules"


def read(path: str, zone: str) -> Imported:
    names: set[str] = set()
    entries, left_out = read_schedules(
        path, TABLE, f"{TABLE} {{id}}", lambda row, origin: _schedule(row, origin, zone, names)
    )
    return Imported(SOURCE, entries, left_out)


def _schedule(row: dict[str, Any], origin: str, zone: str, names: set[str]) -> ImportEntry:
    if row.get("status") == "completed":
        raise InvalidInput("it is completed.", value=row["status"], field="status")
    actions: list[dict[str, Any]] = orjson.loads(row["actions"]) if isinstance(row["actions"], str) else row["actions"]
    when, old = _when(row, zone)
    name = slug(row["name"], names, "schedule")
    address: str | None = row.get(NOTIFY_ADDRESS)
    settings = {
        "agent": row["agent_id"],
        "description": row.get("description") or None,
        "timezone": zone,
        **actions_settings(actions),
        "approval": row.get("approval_policy") or "owner_approve",
        "max_executions": _left(row),
        "labels": {NOTIFY_ADDRESS: address} if address else None,
    }
    paused = row.get("status") == "paused"
    notes = _about_address(address) if address else ()
    return ImportEntry("schedule", name, with_preset("corvid", when, settings), origin, old, paused, notes)


def _about_address(address: str) -> tuple[str, ...]:
    if not is_address(address):
        return (f"Nothing is sent to {address}: it {NO_ADDRESS}.",)
    return (f"Its notify_address hears of it by a destination of kind algorand: {fix_for(address)}",)


def actions_settings(actions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A schedule with one action has a job; with several, a step for each, side by side."""
    parts: list[dict[str, Any]] = [
        {"job": action["type"], "payload": {key: value for key, value in action.items() if key != "type"}}
        for action in actions
    ]
    if len(parts) == 1:
        return parts[0]
    if not parts:
        raise InvalidInput("A schedule needs an action.", field="actions", hint='actions=[{"type": "star_repo", …}]')
    titles: set[str] = set()
    for part in parts:
        part["title"] = slug(part["job"], titles, "action")
        titles.add(part["title"])
    return {"steps": parts}


def _when(row: dict[str, Any], zone: str) -> tuple[str, OldTimes]:
    if row.get("cron_expression"):
        return row["cron_expression"], Cron(row["cron_expression"], zone, both_days=True)
    if not row.get("interval_ms"):
        raise InvalidInput("it has neither cron_expression nor interval_ms.", field="cron_expression")
    return f"{row['interval_ms']}ms", Every(row["interval_ms"])


def _left(row: dict[str, Any]) -> int | None:
    """How often it may still run."""
    most = row.get("max_executions")
    return None if most is None else max(1, most - (row.get("execution_count") or 0))


IMPORTER = Importer("Import the database of corvid-agent, or its rows as JSON.", read)
