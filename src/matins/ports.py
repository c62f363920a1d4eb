"""What the core needs from outside, as protocols. Knows the model only."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """The wall clock, in UTC milliseconds: it decides what is due."""
        ...

    def local_zone(self) -> str:
        """The IANA name of the machine's own time zone."""
        ...
