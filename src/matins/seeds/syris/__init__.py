"""Syris' three schedule types, the policies that a schedule names, and its importer."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

from matins.api.results import Schedule
from matins.api.schedules import Api
from matins.app import parse_trigger
from matins.config.presets import PRESETS
from matins.engine.jobs import MESSAGE_JOB
from matins.engine.when.cron import parse_cron
from matins.engine.when.triggers import Trigger
from matins.errors import InstantError, IntervalParseError, InvalidInput, TriggerError
from matins.importers.entries import (
    Cron,
    Every,
    Imported,
    ImportEntry,
    Importer,
    OldTimes,
    Once,
    Row,
    read_schedules,
    slug,
    with_preset,
)
from matins.model.schedule import CatchUp

TYPES = ("cron", "interval", "one_shot")


def schedule_trigger(type: str, spec: str, *, timezone: str = "UTC", now: datetime | None = None) -> Trigger:  # noqa: A002
    """spec is a cron expression, a whole number of seconds (counted from the last run), or an ISO instant."""
    if type == "cron":
        parse_cron(spec)
        return parse_trigger(spec, timezone=timezone)
    if type == "interval":
        if not (spec.isascii() and spec.isdigit()):
            raise IntervalParseError(
                f'spec must be an integer of seconds, not "{spec}".', value=spec, field="spec", allowed="1, 2, 3 …"
            )
        return parse_trigger(f"{spec}s", timezone=timezone, now=now, anchor="start", first="immediately")
    if type == "one_shot":
        trigger = parse_trigger(spec, timezone=timezone)
        if trigger.kind != "once":
            raise InstantError(f'spec must be an ISO instant, not "{spec}".', value=spec, field="spec")
        return trigger
    raise TriggerError(f'Unknown schedule type "{type}".', value=type, field="type", allowed=", ".join(TYPES))


def create_schedule(
    m: Api,
    name: str,
    type: str,  # noqa: A002
    spec: str,
    *,
    job: str = MESSAGE_JOB,
    payload: Any = None,
    timezone: str = "UTC",
    quiet_hours_policy_id: str | None = None,
    catch_up_policy: CatchUp = "skip",
    catch_up_cap: int | None = None,
) -> Schedule:
    """In the columns of the schedules table. Its fires emit a message made from the payload, unless `job` names another
    job. While its quiet hours hold, slots are skipped and it moves on. `catch_up_cap` is the N of run_all_capped."""
    trigger = schedule_trigger(type, spec, timezone=timezone)
    preset = PRESETS["syris"].settings_for(trigger.definition.when)
    return m.add(
        name,
        when=trigger,
        job=job,
        payload=payload,
        quiet_hours=quiet_hours_policy_id,
        catch_up=catch_up_policy,
        catch_up_limit=catch_up_cap,
        grace=preset["grace"],
        failure_backoff=preset["failure_backoff"],
    )


class ScheduleRow(NamedTuple):
    """A schedule in the thirteen columns of the schedules table."""

    schedule_id: str
    name: str
    enabled: bool
    type: str
    spec: str
    next_run_at: datetime | None
    last_run_at: datetime | None
    timezone: str
    quiet_hours_policy_id: str | None
    catch_up_policy: CatchUp
    payload: Any
    created_at: datetime
    updated_at: datetime


def schedule_row(schedule: Schedule) -> ScheduleRow:
    """The row of a schedule: every column of the seed, from what Matins holds."""
    kind, settings = schedule.trigger["kind"], schedule.settings
    spec = settings["when"]
    if kind == "interval":
        spec = f"{schedule.trigger['every_ms'] / 1000:g}"
    return ScheduleRow(
        schedule.id, schedule.name, schedule.state == "active", {"once": "one_shot"}.get(kind, kind), spec,
        schedule.next_run_at, schedule.last_run_at, schedule.timezone, settings.get("quiet_hours"),
        settings.get("catch_up", "skip"), settings.get("payload"), schedule.created_at, schedule.updated_at,
    )  # fmt: skip


SOURCE = "syris"
TABLE = "schedules"


def read(path: str, zone: str) -> Imported:
    """Each row with its own time zone, which is UTC by default."""
    names: set[str] = set()
    return read_schedules(
        SOURCE, path, TABLE, f"{TABLE} {{schedule_id}}", lambda row, origin: _schedule(row, origin, names)
    )


def _schedule(row: Row, origin: str, names: set[str]) -> ImportEntry:
    name = slug(row.get("name") or row["schedule_id"], names, "schedule")
    when, old = _when(row)
    settings = {
        "job": MESSAGE_JOB,
        "payload": row.json("payload"),
        "timezone": row.get("timezone") or "UTC",
        "quiet_hours": row.get("quiet_hours_policy_id"),
        "catch_up": row.get("catch_up_policy") or "skip",
    }
    return ImportEntry(
        "schedule", name, with_preset("syris", when, settings), origin, old, paused=not row.get("enabled", True)
    )


def _when(row: Row) -> tuple[str, OldTimes]:
    kind, spec, zone = row.get("type"), str(row.get("spec", "")), row.get("timezone") or "UTC"
    if kind == "cron":
        return spec, Cron(spec, zone)
    if kind == "interval" and spec.isdigit() and int(spec):
        return f"{spec}s", Every(int(spec) * 1000)
    if kind == "one_shot":
        return spec, Once.parse(spec, UTC, "spec")
    raise InvalidInput(f'type "{kind}" with spec "{spec}" is unknown.', value=kind, field="type")


IMPORTER = Importer("Import the database of Syris, or its rows as JSON.", read)
