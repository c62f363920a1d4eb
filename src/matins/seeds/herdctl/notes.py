"""What a program writes into the state of a schedule: herdctl's fields, kept beside the schedule as labels.

A note counts until a run starts: from then on the state follows from the runs. That a schedule is running is known only
to the process that says so, so that no crash leaves one stuck.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from matins.api.results import Run, Schedule
from matins.api.schedules import Api
from matins.engine.when.definitions import instant_text
from matins.engine.when.triggers import to_ms
from matins.errors import InvalidInput
from matins.model.settings import MAX_NAME_LENGTH
from matins.seeds.herdctl.types import ScheduleState

FIELDS = ("status", "last_run_at", "next_run_at", "last_error")
_PREFIX = "herdctl-"
_RUN = f"{_PREFIX}noted_after_run"
_NONE = "-"
_running: set[tuple[str, str, str, datetime]] = set()
"""The schedules that a program of this process runs by itself."""


def check_updates(updates: Mapping[str, Any]) -> dict[str, str | None]:
    """The texts to note. Raises InvalidInput for another field, or a value that is no time."""
    for name in updates:
        if name not in FIELDS:
            allowed = ", ".join(FIELDS)
            raise InvalidInput(
                f'The state of a schedule has no "{name}".', value=name, field=name, allowed=allowed,
                hint=f"Known: {allowed}.",
            )  # fmt: skip
    return {name: _text(name, value) for name, value in updates.items() if name != "status"}


def _text(name: str, value: Any) -> str | None:
    if value is None or name == "last_error":
        text = " ".join(str(value or "").split())
        return text[:MAX_NAME_LENGTH] or None
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (TypeError, ValueError):
        hint = f'For example: {{"{name}": "2025-01-19T10:00:00Z"}}.'
        raise InvalidInput(
            f'"{name}" must be an ISO timestamp, not {value!r}.', value=value, field=name, hint=hint
        ) from None
    return instant_text(to_ms(moment.astimezone(UTC)))  # without a zone it is local, as in herdctl


def write(m: Api, schedule: Schedule, texts: Mapping[str, str | None], last: Run | None) -> None:
    earlier = schedule.labels if schedule.labels.get(_RUN) == _id(last) else _others(schedule)
    noted = {f"{_PREFIX}{name}": text or _NONE for name, text in texts.items()}
    m.edit(schedule.name, agent=schedule.agent, labels={**earlier, **noted, _RUN: _id(last)})


def _others(schedule: Schedule) -> dict[str, str]:
    return {name: text for name, text in schedule.labels.items() if not name.startswith(_PREFIX)}


def _id(last: Run | None) -> str:
    return _NONE if last is None else last.id


def with_notes(state: ScheduleState, schedule: Schedule, last: Run | None) -> ScheduleState:
    """The state with what was noted since the last run started."""
    if schedule.labels.get(_RUN) != _id(last):
        return state
    noted = {name: schedule.labels.get(f"{_PREFIX}{name}") for name in FIELDS}
    return state._replace(**{name: None if text == _NONE else text for name, text in noted.items() if text is not None})


def mark_running(schedule: Schedule, *, running: bool) -> None:
    if running:
        _running.add(_key(schedule))
    else:
        _running.discard(_key(schedule))


def is_marked(schedule: Schedule) -> bool:
    return _key(schedule) in _running


def _key(schedule: Schedule) -> tuple[str, str, str, datetime]:
    """Schedules of two stores may have the same name and id, but hardly the same birth."""
    return schedule.agent, schedule.name, schedule.id, schedule.created_at
