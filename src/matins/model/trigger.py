"""Triggers as plain values. `matins.engine` compiles them.

Instants are integers of UTC milliseconds. A *wall* time is a local time, written as the
milliseconds since 1970-01-01T00:00 of that local time. Days of the week count from Sunday = 0, as in cron.
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
    """A cron expression of five fields, six with the seconds in front, or seven with the year at the end."""

    expression: str
    strict: bool = False


@dataclass(frozen=True, slots=True)
class OnCalendar:
    """A calendar event expression of systemd, without its time zone."""

    expression: str


@dataclass(frozen=True, slots=True)
class Interval:
    """Every `every_ms` milliseconds, from the last completion or start, or on a grid from `origin_ms`."""

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
    """An RFC 5545 rule without its DTSTART, and the wall time from which it counts."""

    rule: str
    start_wall: int
    exdates: tuple[str, ...] = ()
    """Days (`20261225`) and times (`20261225T090000`, in UTC with a `Z`) that are left out."""


@dataclass(frozen=True, slots=True)
class Never:
    """At no time. A person, a call or another schedule starts the runs."""


When = Cron | OnCalendar | Interval | Daily | Weekly | Once | Rrule | Never


@dataclass(frozen=True, slots=True)
class TriggerDefinition:
    """A *when*, its time zone, and the behaviour at clock changes."""

    when: When
    timezone: str = "UTC"
    dst_gap: DstGap = "after"
    dst_overlap: DstOverlap = "first"
