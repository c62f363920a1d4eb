"""The clock of the core."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """The wall clock, in UTC milliseconds. It decides only what is due."""
        ...

    def now_us(self) -> int:
        """The same in microseconds, for waits that must not end early."""
        ...

    def boot_ms(self) -> int:
        """Time since boot, including sleep. It drives timeouts, back-off and leases."""
        ...

    def boot_us(self) -> int:
        """The same in microseconds."""
        ...

    def local_zone(self) -> str:
        """The IANA name of the machine's time zone."""
        ...
