"""English for numbers, lists, days and times."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from matins.engine.when.definitions import clock_text

DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
PLACES = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", -1: "last"}
WEEKDAYS = (1, 2, 3, 4, 5)
MAX_LISTED = 12
_UNITS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1_000, "second"), (1, "millisecond"))


def listed(items: Sequence[object], last: str = "and") -> str:
    """`a, b and c`."""
    texts = [str(item) for item in items]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} {last} {texts[-1]}"


def ordinal(number: int) -> str:
    """`1st`, `22nd`."""
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def place(number: int) -> str:
    """`first`, `last`, `second last`."""
    if number in PLACES:
        return PLACES[number]
    return f"{PLACES.get(-number, ordinal(-number))} last" if number < 0 else ordinal(number)


def every(count: int, unit: str) -> str:
    """`every hour`, `every 5 minutes`."""
    return f"every {unit}" if count == 1 else f"every {count} {unit}s"


def every_duration(milliseconds: int) -> str:
    """The text in the largest exact unit. One day is "24 hours": "every day" would promise a time of day."""
    units = _UNITS[1:] if milliseconds == _UNITS[0][0] else _UNITS
    size, unit = next((size, unit) for size, unit in units if milliseconds % size == 0)
    return every(milliseconds // size, unit)


def every_day(days: Sequence[int]) -> str:
    """`every day`, `every weekday`, `every Monday and Friday`."""
    if len(days) == 7:
        return "every day"
    return "every weekday" if tuple(days) == WEEKDAYS else f"every {listed([DAYS[day] for day in week_order(days)])}"


def on_days(days: Sequence[int]) -> str:
    """`on weekdays`, `on Monday and Friday`; empty for all seven."""
    if len(days) == 7:
        return ""
    return "on weekdays" if tuple(days) == WEEKDAYS else f"on {listed([DAYS[day] for day in week_order(days)])}"


def week_order(days: Sequence[int]) -> list[int]:
    """The days from Monday on."""
    return sorted(days, key=lambda day: (day - 1) % 7)


def even_step(times: Sequence[int]) -> int | None:
    """The distance between neighbours, if three or more are equally far apart."""
    steps = {b - a for a, b in pairwise(times)}
    return steps.pop() if len(times) >= 3 and len(steps) == 1 else None


def at_times(times: Sequence[int]) -> str:
    """`at 09:00 and 17:30`, for minutes of the day."""
    if len(times) > MAX_LISTED:
        return f"at {len(times)} times from {clock_text(times[0])} to {clock_text(times[-1])}"
    return f"at {listed([clock_text(time) for time in times])}"


def window(times: Sequence[int], step: int) -> str:
    """`every hour between 09:00 and 17:00`."""
    return f"{every_duration(step * 60_000)} between {clock_text(times[0])} and {clock_text(times[-1])}"


def on_times(days: Sequence[int], times: Sequence[int]) -> str:
    """Days of the week and times on them, in the phrases of the grammar."""
    step = even_step(times)
    if step is None:
        return f"{every_day(days)} {at_times(times)}"
    return f"{window(times, step)} {on_days(days)}".rstrip()
