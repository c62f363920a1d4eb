"""Schedules and runs from the rows of a store."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import orjson

from matins.engine.schedules import UNREADABLE, decode
from matins.model.rows import RunRow, ScheduleRow
from matins.model.run import RunRecord, RunState
from matins.model.schedule import ScheduleDefinition, ScheduleRecord
from matins.model.trigger import Never


def schedule_record(row: ScheduleRow) -> ScheduleRecord:
    values: dict[str, Any] = row._asdict()
    has_live_runs = values.pop("has_live_runs")
    try:
        values["definition"] = _definition(row.definition)
    except Exception as error:  # one bad row must not hide the others
        values |= {"state": "broken", "definition": UNREADABLE, "note": f"{type(error).__name__}: {error}"}
    if values["state"] == "active" and row.next_slot is None and not has_live_runs:
        values["state"] = "active" if _waits_for_calls(values["definition"], row.executions) else "completed"
    return ScheduleRecord(**values)


def _waits_for_calls(definition: ScheduleDefinition, executions: int) -> bool:
    """Whether a schedule without a next slot may still run: calls start it, or it never fires by time."""
    limit = definition.max_executions
    on_call = bool(definition.on) or isinstance(definition.trigger.when, Never)
    return on_call and (limit is None or executions < limit)


def _definition(text: str) -> ScheduleDefinition:
    """The parsed definition. Readers share it, unless it has values that they could change."""
    shared = _shared(text) if len(text) <= _MAX_SHARED_LENGTH else None
    return decode(text) if shared is None else shared


@lru_cache(maxsize=1_024)
def _shared(text: str) -> ScheduleDefinition | None:
    return None if any(name in text for name in _CHANGEABLE) else decode(text)


_MAX_SHARED_LENGTH = 4_096
_CHANGEABLE = ('"payload"', '"labels"', '"on"')


def run_record(row: RunRow) -> RunRecord:
    values: dict[str, Any] = row._asdict()
    values["state"] = RunState(row.state)
    values["evidence"] = orjson.loads(row.evidence) if row.evidence else None
    values["outcome"] = orjson.loads(row.outcome) if row.outcome else None
    return RunRecord(**values)
