"""The system clock."""

from __future__ import annotations

import time

import pytest

from matins.runtime.clock import SystemClock, seconds_left
from matins.testing import ManualClock


def test_a_sleep_ends_with_its_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock gives whole milliseconds; without what has passed of the present one, a sleep is up to one too long."""
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_000_750_000)
    assert seconds_left(SystemClock(), 3) == pytest.approx(0.00225)
    assert seconds_left(SystemClock(), 1) == pytest.approx(0.00025)
    assert seconds_left(ManualClock(), 3) == 0.003
