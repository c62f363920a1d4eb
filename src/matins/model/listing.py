"""What lists of schedules and runs are chosen by."""

from __future__ import annotations

from typing import Literal, NamedTuple

ScheduleSort = Literal["created", "name", "next"]
ScheduleTab = Literal["all", "active", "attention", "paused", "agents"]


class ScheduleFilter(NamedTuple):
    agent: str | None = None
    state: str | None = None
    """The stored state."""
    tab: ScheduleTab = "all"
    query: str | None = None
    """A pattern in lower case, with `!` before a character that means itself."""
    reader: str | None = None
    """The agent that asks, if it may look into the settings of its own schedules only."""


class RunFilter(NamedTuple):
    schedule_id: int | None = None
    agent: str | None = None
    lowest: int = 0
    """The lowest state."""
    highest: int = 99
    reason: str | None = None
    low: int = 0
    """The lowest id."""


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
