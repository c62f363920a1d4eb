"""The system clock."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from matins.runtime import clock as module
from matins.runtime.clock import SystemClock, seconds_left
from matins.testing import ManualClock


def test_a_sleep_ends_with_its_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock gives whole milliseconds; without what has passed of the present one, a sleep is up to one too long."""
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_000_750_000)
    assert seconds_left(SystemClock(), 3) == pytest.approx(0.00225)
    assert seconds_left(SystemClock(), 1) == pytest.approx(0.00025)
    assert seconds_left(ManualClock(), 3) == pytest.approx(0.003)


def test_the_local_zone_is_read_at_most_every_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked for each schedule that is added. A changed variable TZ counts at once."""
    reads: list[str] = []
    boot = 1_000_000

    class Counted(type(Path())):  # type: ignore[misc]
        def __init__(self, name: str) -> None:
            reads.append(name)

    monkeypatch.setattr(module, "Path", Counted)
    monkeypatch.setattr(SystemClock, "boot_ms", lambda self: boot)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    clock = SystemClock()
    assert [clock.local_zone() for _ in range(3)] == ["Asia/Tokyo"] * 3
    assert len(reads) == 2
    monkeypatch.setenv("TZ", ":Europe/Paris")
    assert clock.local_zone() == "Europe/Paris"
    assert len(reads) == 4
    boot += 9_999
    clock.local_zone()
    assert len(reads) == 4
    boot += 1
    clock.local_zone()
    assert len(reads) == 6
    monkeypatch.setenv("TZ", "Etc/Zulu")
    assert clock.local_zone() == "UTC"
