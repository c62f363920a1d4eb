"""A year of slots: a square for each day, one path for each state."""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta
from typing import NamedTuple

from matins.api.results import Calendar, CalendarDay
from matins.surfaces.web import states

_LEFT, _HEAT_TOP, _WEEK_STEP = 28, 16, 17.3
_WORST_FIRST = ("failed", "interrupted", "over_budget", "unknown", "held", "missed", "denied", "expired", "cancelled",
                "blocked", "skipped", "waiting", "queued", "ready", "running", "succeeded")  # fmt: skip
_OUTLINED = frozenset({"missed"})


class Square(NamedTuple):
    x: float
    y: float
    tip: str


class Heat(NamedTuple):
    paths: dict[str, str]
    """The path of each look."""
    outlined: dict[str, str]
    notable: list[Square]
    months: list[tuple[float, str]]
    label: str
    width: int


def heat(calendar: Calendar) -> Heat | None:
    """The squares; None where there is nothing to show."""
    if not calendar.days:
        return None
    days = {date.fromisoformat(day.day): day for day in calendar.days}
    last = max(days)
    first = min(min(days), last - timedelta(days=363))
    monday = first - timedelta(days=first.weekday())
    paths: dict[str, list[str]] = {}
    outlined: dict[str, list[str]] = {}
    notable: list[Square] = []
    for at, day in sorted(days.items()):
        week, weekday = divmod((at - monday).days, 7)
        x, y = round(_LEFT + week * _WEEK_STEP, 1), round(_HEAT_TOP + weekday * _WEEK_STEP, 1)
        icon = _icon(day)
        if icon in _OUTLINED:
            outlined.setdefault(icon, []).append(f"M{x} {y}h13v13h-13z")
        else:
            paths.setdefault(icon, []).append(f"M{x} {y + 6.5}h13")
        if icon not in ("succeeded", "planned"):
            notable.append(Square(x, y, f"{at:%a} {at.day} {at:%b}\n{_said(day)}"))
    weeks = (last - monday).days // 7 + 1
    return Heat(
        _joined(paths),
        _joined(outlined),
        notable,
        _months(monday, weeks),
        _label(calendar),
        round(_LEFT + weeks * _WEEK_STEP),
    )


def _joined(paths: dict[str, list[str]]) -> dict[str, str]:
    return {icon: "".join(parts) for icon, parts in paths.items()}


def _icon(day: CalendarDay) -> str:
    worst = next((state for state in _WORST_FIRST if day.states.get(state)), None)
    return "planned" if worst is None else states.RUNS[worst].icon


def _said(day: CalendarDay) -> str:
    return ", ".join(f"{count} {states.words(state).lower()}" for state, count in day.states.items())


def _months(monday: date, weeks: int) -> list[tuple[float, str]]:
    found: list[tuple[float, str]] = []
    for week in range(weeks):
        start = monday + timedelta(days=7 * week)
        if start.day <= 7:
            found.append((round(_LEFT + week * _WEEK_STEP, 1), f"{start:%b}"))
    return found


def _label(calendar: Calendar) -> str:
    counts: Counter[str] = Counter()
    for day in calendar.days:
        counts.update(day.states)
    text = ", ".join(f"{count} {states.words(state).lower()}" for state, count in counts.most_common())
    return f"Slots by day, {calendar.timezone}: {text or 'none yet'}"
