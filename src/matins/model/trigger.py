"""What a trigger is, as plain values. `matins.engine` turns one into something that yields instants.

Instants are integers of UTC milliseconds. A *wall* time is what a clock on the wall shows, written as the
milliseconds since 1970-01-01T00:00 on that wall. Days of the week count from Sunday = 0, as in cron.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DstGap = Literal["after", "skip", "shift"]
DstOverlap = Literal["first", "both"]
Anchor = Literal["completion", "start", "grid"]
First = Literal["after_interval", "immediately"]


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression of five fields, or six with the seconds in front."""

    expression: str
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Interval:
    """Every so many milliseconds, counted from the last completion or start, or on a grid from `origin_ms`."""

    every_ms: int
    origin_ms: int
    anchor: Anchor = "completion"
    first: First = "after_interval"


@dataclass(frozen=True, slots=True)
class Daily:
    """Every day at these minutes of the day (540 is 09:00)."""

    times: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Weekly:
    """On these days of the week at these minutes of the day."""

    days: tuple[int, ...]
    times: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Once:
    """At one instant."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class Rrule:
    """An RFC 5545 rule without its DTSTART, and the wall time that it counts from."""

    rule: str
    start_wall: int


When = Cron | Interval | Daily | Weekly | Once | Rrule


@dataclass(frozen=True, slots=True)
class TriggerDefinition:
    """When, where on earth, and what happens when the clocks change."""

    when: When
    timezone: str = "UTC"
    dst_gap: DstGap = "after"
    dst_overlap: DstOverlap = "first"
