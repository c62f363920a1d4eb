"""Schedules and runs from the rows of a store."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import orjson

from matins.engine.schedules import UNREADABLE, decode
from matins.model.run import RunRecord, RunState
from matins.model.schedule import ScheduleDefinition, ScheduleRecord


def schedule_of(row: Sequence[Any]) -> ScheduleRecord:
    *values, under_way = row
    try:
        values[5] = _definition(values[5])
    except Exception as error:  # one bad row must not hide the others
        values[3], values[5], values[6] = "broken", UNREADABLE, f"{type(error).__name__}: {error}"
    if values[3] == "active" and values[9] is None and not under_way:
        values[3] = "completed"
    return ScheduleRecord(*values)


def _definition(text: str) -> ScheduleDefinition:
    """One is shared by all who read it, unless it has values that they could change."""
    short = len(text) <= _MAX_SHARED_LENGTH
    return _shared(text) if short and '"payload"' not in text and '"labels"' not in text else decode(text)


_shared = lru_cache(maxsize=1_024)(decode)
_MAX_SHARED_LENGTH = 4_096


def run_of(row: Sequence[Any]) -> RunRecord:
    values = list(row)
    values[4] = RunState(values[4])
    values[16] = orjson.loads(values[16]) if values[16] else None
    values[17] = orjson.loads(values[17]) if values[17] else None
    return RunRecord(*values)
