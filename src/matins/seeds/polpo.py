"""Polpo's end date and hook: a mission's schedule is the one by the name of `sched-{missionId}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from matins.api.results import Schedule
from matins.api.schedules import Api
from matins.engine.policies import BEFORE_RUN
from matins.engine.when.triggers import to_datetime
from matins.errors import InvalidInput
from matins.seeds.run_views import last_started, newest_first, text_of, under_way

MissionStatus = Literal["scheduled", "recurring", "active", "paused", "completed"]
_PREFIX = "sched-"
_SHAPE = f'{{"hooks": {{"{BEFORE_RUN}": {{"command": "node scripts/check-maintenance-window.js"}}}}}}'


def schedule_id(mission_id: str) -> str:
    return _PREFIX + mission_id


def mission_status(m: Api, mission_id: str) -> MissionStatus:
    """Of a mission that has a schedule; one whose end date has passed is completed."""
    schedule = m.get(schedule_id(mission_id))
    if under_way(last_started(m, schedule)):
        return "active"
    if schedule.state == "active" or _still_waits(m, schedule):
        return "scheduled" if schedule.trigger["kind"] == "once" else "recurring"
    return "completed" if schedule.state in ("completed", "expired") else "paused"


def _still_waits(m: Api, schedule: Schedule) -> bool:
    """Whether there is no slot to come, but the run of the last one is still to start."""
    newest = next(newest_first(m, schedule), None)
    return schedule.state == "completed" and newest is not None and newest.live


def expired_payload(event: Mapping[str, Any]) -> dict[str, str | None]:
    """The payload of `schedule:expired`, from an event of a subscriber."""
    name: str = event["data"]["name"]
    ends_at: int | None = event["data"]["ends_at"]
    return {
        "scheduleId": name,
        "missionId": name.removeprefix(_PREFIX),
        "endDate": text_of(to_datetime(ends_at)),
    }


def load_hooks(m: Api, data: Mapping[str, Any]) -> None:
    """The hook of a file in Polpo's JSON shape: a command that may cancel any scheduled run."""
    hooks = _mapping(data.get("hooks"), "hooks")
    for event in hooks:
        if event != BEFORE_RUN:
            raise InvalidInput(
                f'There is no hook "{event}".', value=event, field="hooks", allowed=BEFORE_RUN, hint=_SHAPE
            )
    if BEFORE_RUN in hooks:
        settings = _mapping(hooks[BEFORE_RUN], f"hooks.{BEFORE_RUN}")
        if list(settings) != ["command"]:
            raise _misshapen(f"hooks.{BEFORE_RUN}", settings)
        m.hooks.set(BEFORE_RUN, command=settings["command"])


def _mapping(value: object, field: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _misshapen(field, value)
    return value  # pyright: ignore[reportUnknownVariableType] - JSON


def _misshapen(field: str, value: object) -> InvalidInput:
    return InvalidInput(f'"{field}" does not have the form of a hook.', value=value, field=field, hint=_SHAPE)
