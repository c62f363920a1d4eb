"""A duration in days, hours, minutes and seconds."""

from __future__ import annotations

SIZES = (86_400, 3_600, 60, 1)
"""The seconds of a day, an hour, a minute and a second."""


def amounts(seconds: float, units: tuple[str, str, str, str]) -> list[str]:
    """The amounts of the units that are not 0, the largest first, each followed by its unit."""
    left, found = round(seconds), list[str]()
    for size, unit in zip(SIZES, units, strict=True):
        amount, left = divmod(left, size)
        if amount:
            found.append(f"{amount}{unit}")
    return found
