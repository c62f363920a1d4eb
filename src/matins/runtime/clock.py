"""The system clock."""

from __future__ import annotations

import os
import time
import zoneinfo
from functools import cache
from pathlib import Path
from typing import Literal

from matins.model.clock import Clock

_SAME_AS_UTC = ("Etc/UTC", "Etc/UCT", "Etc/Zulu", "Etc/Universal", "UCT", "Zulu", "Universal")
_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def boot_ms(self) -> int:
        return time.clock_gettime_ns(_BOOT) // 1_000_000

    def local_zone(self) -> str:
        """The zone from TZ, /etc/timezone, or the target of /etc/localtime; UTC if none of them names a zone."""
        file = Path("/etc/timezone")
        written = file.read_text(encoding="utf-8").strip() if file.is_file() else ""
        linked = str(Path("/etc/localtime").resolve()).partition("/zoneinfo/")[2]
        for name in (os.environ.get("TZ", "").removeprefix(":"), written, linked):
            if name and name in _zones():
                return "UTC" if name in _SAME_AS_UTC else name
        return "UTC"


def seconds_left(clock: Clock, delay_ms: int) -> float:
    """The seconds of a delay that was computed just now. The clock gives whole milliseconds, so a part of the first
    one has passed already."""
    passed = time.time_ns() % 1_000_000 if isinstance(clock, SystemClock) else 0
    return delay_ms / 1_000 - passed / 1_000_000_000


@cache
def _zones() -> frozenset[str]:
    """All zone names. Cached, because finding them reads every file of the zone database."""
    return frozenset(zoneinfo.available_timezones())


Verdict = Literal["steady", "back", "wait"]
MAX_STEP_BACK_MS = 1_000
_MAX_STEP_FORWARD_MS = 3_600_000


class ClockWatch:
    """Compares wall time with boot time. After a step back, schedules are planned again. A leap forward is accepted if
    the second reading confirms it."""

    def __init__(self, now: int, boot: int) -> None:
        self._offset = now - boot
        self._unconfirmed: int | None = None

    def check(self, now: int, boot: int) -> Verdict:
        offset = now - boot
        step = offset - self._offset
        confirmed = self._unconfirmed is not None and abs(offset - self._unconfirmed) <= MAX_STEP_BACK_MS
        if step > _MAX_STEP_FORWARD_MS and not confirmed:
            self._unconfirmed = offset
            return "wait"
        taken_back = (
            self._unconfirmed is not None and step <= _MAX_STEP_FORWARD_MS
        )  # records may have been written with that time meanwhile
        self._unconfirmed = None
        self._offset = offset
        return "back" if step < -MAX_STEP_BACK_MS or taken_back else "steady"
