"""Rows of overviews: what screens show of many schedules and runs at once."""

from __future__ import annotations

from typing import Literal, NamedTuple


class PlannedRun(NamedTuple):
    id: int
    planned_at: int


class RecordCount(NamedTuple):
    """How many records of a schedule have a state, and where they lie."""

    schedule_id: int
    name: str
    agent: str
    state: int
    records: int
    first: int
    last: int


class LaneWindow(NamedTuple):
    """A stretch of time whose records are shown in lanes: by agent, or by the values of a label."""

    low: int
    """The first run that may be in it."""
    since: int
    until: int
    label: str | None


class LaneCount(NamedTuple):
    """How many records of a lane have a state, in one part of a window."""

    lane: str
    bucket: int
    state: int
    records: int


class LabelCounts(NamedTuple):
    """How many schedules have a label."""

    key: str
    value: str
    schedules: int


class FailureCount(NamedTuple):
    """How many runs of a schedule failed, in one part of a window."""

    schedule_id: int
    bucket: int
    records: int


class RecordSpan(NamedTuple):
    """Where the record of a slot lies: from its start to its end, or at its slot."""

    id: int
    schedule_id: int
    name: str
    agent: str
    rev: int
    state: int
    slot: int | None
    slots: int
    begins: int
    reason: str | None
    not_before: int | None
    started_at: int | None
    ended_at: int | None


class ComingCursor(NamedTuple):
    """The cursor of a schedule that fires soon, with its definition."""

    schedule_id: int
    name: str
    agent: str
    definition: str
    next_slot: int
    due_at: int | None
    """None while a run is on whose end decides the next slot."""
    executions: int
    failures: int
    failed_at: int | None


class RecentRecord(NamedTuple):
    """One of the last records of a schedule."""

    schedule_id: int
    id: int
    state: int
    slot: int | None
    slots: int
    attempt: int
    planned_at: int
    started_at: int | None
    ended_at: int | None
    reason: str | None


class RunCost(NamedTuple):
    """What a run has spent, with its steps, in micro-dollars and tokens."""

    run_id: int
    money: int
    tokens: int


class RunPlace(NamedTuple):
    """The agent of a run, and the process that runs it."""

    id: int
    agent: str
    worker: str | None
    starter: str | None
    """The process that started the present attempt. Another one may have adopted it."""


class DayCount(NamedTuple):
    """How many slots of a day have records in a state. The day counts from 1970 on a wall clock."""

    day: int
    state: int
    slots: int


class DaySpend(NamedTuple):
    day: int
    money: int
    tokens: int
    runs: int


class NamedSpend(NamedTuple):
    """What an agent or a schedule spent."""

    name: str
    agent: str
    money: int
    tokens: int
    runs: int


class EngineSpan(NamedTuple):
    """When an engine started and stopped; one that was killed is stopped by the next."""

    started_at: int
    stopped_at: int | None


class SlotState(NamedTuple):
    state: int
    slots: int


class PausedSchedule(NamedTuple):
    """A schedule that was paused together with others."""

    id: int
    agent: str
    name: str
    pause_id: str
    paused_by: str
    paused_at: int
    paused_until: int | None
    note: str | None


ScheduleSort = Literal["created", "name", "next"]
ScheduleTab = Literal["all", "active", "attention", "paused", "agents"]


class TabCounts(NamedTuple):
    """The number of schedules in each tab of the list."""

    all: int
    active: int
    attention: int
    paused: int
    agents: int


def pattern(text: str | None) -> str | None:
    """The pattern of a text that occurs anywhere."""
    if not text or not text.strip():
        return None
    plain = text.strip().lower()
    for special in "!%_":
        plain = plain.replace(special, f"!{special}")
    return f"%{plain}%"
