"""Durations in units."""

from __future__ import annotations

import pytest

from matins.surfaces.cli.times import two_units
from matins.web.templates import length


@pytest.mark.parametrize(
    ("seconds", "command", "page"),
    [
        (0, "now", "0 s"),
        (44.6, "45s", "45 s"),
        (467, "7m 47s", "7 min"),
        (3_600, "1h", "1 h"),
        (28_085, "7h 48m", "7 h 48 min"),
        (86_400 * 3 + 8 * 3_600 + 59, "3d 8h", "3 d 8 h"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds: float, command: str, page: str) -> None:
    """The page leaves the seconds out beside minutes."""
    assert (two_units(seconds), length(seconds)) == (command, page)
