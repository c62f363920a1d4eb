"""Schedules and runs, from the rows that a store gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from matins.engine.schedules import UNREADABLE, decode
from matins.model.run import Run, RunState
from matins.model.schedule import Schedule


def schedule_of(row: Sequence[Any]) -> Schedule:
    *values, under_way = row
    try:
        values[5] = decode(values[5])
    except Exception as error:  # one bad row must not hide the others
        values[3], values[5], values[6] = "broken", UNREADABLE, f"{type(error).__name__}: {error}"
    if values[3] == "active" and values[9] is None and not under_way:
        values[3] = "completed"
    return Schedule(*values)


def run_of(row: Sequence[Any]) -> Run:
    values = list(row)
    values[4] = RunState(values[4])
    values[16] = orjson.loads(values[16]) if values[16] else None
    values[17] = orjson.loads(values[17]) if values[17] else None
    return Run(*values)
