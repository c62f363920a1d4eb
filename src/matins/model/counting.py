"""Numbers of things, as people write them."""

from __future__ import annotations

_ROUNDED = 0.1


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 run`, `1,440 runs`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def runs_per_period(per_day: float) -> str:
    """`5 runs a week` rather than 0.7 runs a day."""
    for days, period in ((1, "day"), (7, "week"), (30, "month"), (365, "year")):
        count = round(per_day * days)
        if count and abs(per_day * days - count) < _ROUNDED * count:
            return f"{counted(count, 'run')} a {period}"
    return f"{per_day:g} runs a day" if per_day else "no run"
