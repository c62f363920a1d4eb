"""Syris' three schedule types, and the policies that a schedule names."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from matins.api.results import Schedule
from matins.api.schedules import Api
from matins.app import parse_trigger
from matins.config.presets import PRESETS
from matins.engine.jobs import MESSAGE_JOB
from matins.engine.when.cron import parse_cron
from matins.engine.when.triggers import Trigger
from matins.errors import InstantError, IntervalParseError, TriggerError
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
