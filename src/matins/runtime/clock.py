"""The system clock."""

from __future__ import annotations

import os
import time
from functools import lru_cache
from pathlib import Path
from typing import Literal

from matins.engine.when.zones import is_zone
from matins.model.clock import Clock

_SAME_AS_UTC = ("Etc/UTC", "Etc/UCT", "Etc/Zulu", "Etc/Universal", "UCT", "Zulu", "Universal")
_ZONE_KEPT_MS = 10_000
_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def now_us(self) -> int:
        return time.time_ns() // 1_000

    def boot_ms(self) -> int:
        return time.clock_gettime_ns(_BOOT) // 1_000_000

    def boot_us(self) -> int:
        return time.clock_gettime_ns(_BOOT) // 1_000

    def local_zone(self) -> str:
        """The zone from TZ, /etc/timezone, or the target of /etc/localtime; UTC if none of them names a zone."""
        return _local_zone(os.environ.get("TZ", "").removeprefix(":"), self.boot_ms() // _ZONE_KEPT_MS)


@lru_cache(maxsize=1)
def _local_zone(variable: str, _moment: int) -> str:
    file = Path("/etc/timezone")
    written = file.read_text(encoding="utf-8").strip() if file.is_file() else ""
    linked = str(Path("/etc/localtime").resolve()).partition("/zoneinfo/")[2]
    name = next((name for name in (variable, written, linked) if name and is_zone(name)), "UTC")
    return "UTC" if name in _SAME_AS_UTC else name


def seconds_left(clock: Clock, delay_ms: int) -> float:
    """The seconds of a delay that was computed just now from whole milliseconds: a part of the first one has passed
    already."""
    return delay_ms / 1_000 - clock.now_us() % 1_000 / 1_000_000


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
