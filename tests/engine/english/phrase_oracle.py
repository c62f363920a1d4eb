"""Which minutes a phrase means, said a second time: by walking over dates and minutes and asking each one.

Nothing here comes from the parser's meanings. A phrase arrives as the tree that it grew from; the answer is
`None` where it must be refused, else one of three kinds of expectation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from phrase_oracle_days import (
    MONTHS,
    WEEK,
    DayRule,
    RefusedError,
    dates_of,
    many_dates,
    month_rule,
    named_date,
    need,
    on_days,
    split_list,
    week_rule,
    weekdays,
    year_rule,
)

from matins.engine.english.grammar import Tree

NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
NUMBERS |= {"seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12}
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
CENTURY = timedelta(days=36_525)
MIDNIGHT = time()


@dataclass(frozen=True)
class Every:
    """Again and again, this long after the last time."""

    length: timedelta


@dataclass(frozen=True)
class Moment:
    at: datetime


@dataclass(frozen=True)
class Calendar:
    """On the days that a rule allows, at these minutes of the day."""

    allows: DayRule
    minutes: frozenset[int]

    def walk(self, first: date, days: int) -> Iterator[tuple[date, int]]:
        """Day by day and minute by minute."""
        for day in (first + timedelta(days=n) for n in range(days)):
            if self.allows(day):
                yield from ((day, minute) for minute in range(1440) if minute in self.minutes)


Expectation = Every | Moment | Calendar


def expected(phrase: Tree, now: datetime) -> Expectation | None:
    """What a phrase that is given at `now` (aware, in the schedule's zone) must do."""
    (part,) = phrase.children
    assert isinstance(part, Tree)
    try:
        return _KINDS[part.rule](part, now)
    except RefusedError:
        return None


def _seconds(words: list[str]) -> int:
    """Of any of: 5 minutes, an hour, 5m, other hour, minute."""
    if re.fullmatch(r"[0-9]+[smhd]", words[-1]):
        return int(words[-1][:-1]) * SECONDS[words[-1][-1]]
    unit = SECONDS[words[-1][0]]
    if len(words) == 1 or words[0] in ("a", "an"):
        return unit
    return (2 if words[0] == "other" else _number(words[0])) * unit


def _number(word: str) -> int:
    return NUMBERS.get(word) or int(word)


def _step(words: list[str]) -> timedelta:
    """Of `every 5 minutes`, `hourly`, …"""
    if words in (["hourly"], ["minutely"]):
        return timedelta(seconds=SECONDS[words[0][0]])
    return _length([words[1:]])


def _length(pieces: list[list[str]]) -> timedelta:
    sizes = [SECONDS[piece[-1][0]] for piece in pieces]
    need(all(larger > smaller for larger, smaller in pairwise(sizes)))
    total = sum(map(_seconds, pieces))
    need(0 < total <= CENTURY.total_seconds())
    return timedelta(seconds=total)


def _elapsed(tree: Tree, now: datetime) -> Every:
    words = tree.words()
    if len(words) == 2 and words[1][0].isdigit():
        return Every(_compact(words[1]))
    return Every(_step(words) if words[0] in ("hourly", "minutely") else _length(split_list(words[1:])))


def _compact(word: str) -> timedelta:
    seconds = _seconds([word])
    need(0 < seconds <= CENTURY.total_seconds())
    return timedelta(seconds=seconds)


def _delay(tree: Tree, now: datetime) -> Moment:
    words = tree.words()[1:]
    length = _compact(words[0]) if len(words) == 1 else _length(split_list(words))
    return Moment(now.astimezone(UTC) + length)


def _aligned(tree: Tree, now: datetime) -> Calendar:
    words = tree.words()
    step = _step(words[: words.index("on")])
    whole = timedelta(hours=1) if "clock" in words else timedelta(days=1)
    need(step < whole and whole % step == timedelta(0))
    minutes = int(step.total_seconds()) // 60
    return Calendar(on_days(tree), frozenset(range(0, 1440, minutes)))


def _past_the_hour(tree: Tree, now: datetime) -> Calendar:
    words = tree.words()
    numbers = [_number(word) for word in words[1 : words.index("past")] if word.isdigit() or word in NUMBERS]
    need(max(numbers) < 60)
    return Calendar(on_days(tree), frozenset(m for m in range(1440) if m % 60 in numbers))


def _window(tree: Tree, now: datetime) -> Calendar:
    words = tree.words()
    at = words.index("between" if "between" in words else "from")
    step = int(_step(words[:at]).total_seconds()) // 60
    first, last = (_minute(bound.words()) for bound in tree.all("time"))
    need(first + step <= last)
    return Calendar(on_days(tree), frozenset(m for m in range(first, last + 1) if (m - first) % step == 0))


def _minute(words: list[str]) -> int:
    text = "".join(words)
    if text in ("noon", "midnight"):
        return 720 if text == "noon" else 0
    shape = ("%I:%M%p" if ":" in text else "%I%p") if text[-1] == "m" else ("%H:%M" if ":" in text else "%H")
    moment = datetime.strptime(text, shape)
    return moment.hour * 60 + moment.minute


def _times(tree: Tree) -> frozenset[int]:
    at_times = tree.first("at_times")
    assert at_times is not None
    words = [word for word in at_times.words() if word != "at"]
    return frozenset(_minute(piece) for piece in split_list(words))


def _square_times(tree: Tree) -> frozenset[int]:
    """Times that one list of hours and one of minutes can say."""
    times = _times(tree)
    need(all(a // 60 * 60 + b % 60 in times for a in times for b in times))
    return times


def _by_days(tree: Tree, now: datetime) -> Calendar:
    return Calendar(week_rule(tree), _times(tree))


def _by_months(tree: Tree, now: datetime) -> Calendar:
    return Calendar(year_rule(tree), _square_times(tree))


def _from_a_date(tree: Tree, now: datetime) -> Calendar:
    need(tree.first("nearest") is None)
    rule = week_rule(tree) if tree.first("which_days") else year_rule(tree)
    starting = tree.first("date")
    assert starting is not None
    first = named_date(starting)
    return Calendar(lambda day: day >= first and rule(day), _square_times(tree))


def _by_turns(tree: Tree, now: datetime) -> Calendar:
    period, start = tree.first("turn_days"), tree.first("date")
    assert period is not None
    words = period.words()
    turns = 2 if words[1] == "other" else _number(words[1])
    unit = _unit(words)
    need(0 < turns * {"day": 1, "week": 7, "month": 28, "year": 365}[unit] <= CENTURY.days)
    base, times = _base_rule(period, unit), _square_times(tree)
    if unit in ("month", "year"):
        need(any(map(base, many_dates(set(range(1, 13))))))
    first = named_date(start) if start else _first_after(base, times, now)
    calendar = Calendar(lambda day: day >= first and base(day) and _distance(first, day, unit) % turns == 0, times)
    need(start is None or unit in ("day", "week") or _ever(calendar.allows, first, unit, turns))
    return calendar


def _unit(words: list[str]) -> str:
    word = words[2].removesuffix("s")
    return word if word in ("day", "week", "month", "year") else "week"


def _base_rule(period: Tree, unit: str) -> DayRule:
    words = period.words()
    if unit == "day":
        return lambda day: True
    if unit == "week":
        days = weekdays(words[words.index("on") :] if "on" in words else words[2:])
        return lambda day: day.weekday() in days
    rule = month_rule(period)
    months = {MONTHS.index(month.words()[0][:3]) + 1 for month in period.all("month")} or set(range(1, 13))
    return lambda day: day.month in months and rule(day)


def _distance(first: date, day: date, unit: str) -> int:
    """How many days, weeks (from Monday), months or years lie between two dates."""
    if unit == "day":
        return (day - first).days
    if unit == "week":
        return ((day - timedelta(days=day.weekday())) - (first - timedelta(days=first.weekday()))).days // 7
    months = (day.year - first.year) * 12 + day.month - first.month
    return months if unit == "month" else day.year - first.year


def _first_after(base: DayRule, times: frozenset[int], now: datetime) -> date:
    day = now.date()
    while True:
        if base(day) and any(
            _on_the_clock(datetime.combine(day, MIDNIGHT) + timedelta(minutes=m), now) > now for m in times
        ):
            return day
        day += timedelta(days=1)


def _on_the_clock(wall: datetime, now: datetime) -> datetime:
    return wall.replace(tzinfo=now.tzinfo).astimezone(UTC)


def _ever(allows: DayRule, first: date, unit: str, turns: int) -> bool:
    """Whether any month that is reached from `first` has such a day: asked for 400 years, after which all repeats."""
    months = turns if unit == "month" else 1
    start = first.year * 12 + first.month - 1
    for n in range(start, start + 4800, months):
        year, month = divmod(n, 12)
        if any(map(allows, dates_of(year, month + 1))):
            return True
    return False


def _moment(tree: Tree, now: datetime) -> Moment:
    which, exact = tree.first("which_date"), tree.first("exact_time")
    assert which is not None
    assert exact is not None
    wall = datetime.combine(_day(which, now), MIDNIGHT) + _since_midnight(exact.words())
    assert isinstance(now.tzinfo, ZoneInfo)
    at = _on_the_clock(wall, now)
    need(at.astimezone(now.tzinfo).replace(tzinfo=None) == wall)  # what a gap swallows comes back shifted
    need(at > now)
    return Moment(at)


def _instant(tree: Tree, now: datetime) -> Moment:
    try:
        at = datetime.strptime(tree.words()[-1].upper(), _shape(tree.words()[-1]))
    except ValueError:
        raise RefusedError from None
    need(at > now)
    return Moment(at.astimezone(UTC))


def _shape(word: str) -> str:
    clock = re.sub("(z|[+-]..:..)$", "", word)
    return f"%Y-%m-%dT%H:%M{':%S' if clock.count(':') == 2 else ''}{'.%f' if '.' in clock else ''}%z"


def _day(which: Tree, now: datetime) -> date:
    named = which.first("date")
    if named is not None:
        return named_date(named)
    words = which.words()
    if "next" not in words:
        return now.date() + timedelta(days=words[-1] == "tomorrow")
    day = now.date() + timedelta(days=1)
    while day.weekday() != WEEK.index(words[-1][:3]):
        day += timedelta(days=1)
    return day


def _since_midnight(words: list[str]) -> timedelta:
    parts = words[0].split(":")
    if len(parts) < 3:
        return timedelta(minutes=_minute(words))
    return timedelta(hours=int(parts[0]), minutes=int(parts[1]), seconds=float(parts[2]))


_KINDS: dict[str, Callable[[Tree, datetime], Expectation]] = {
    "elapsed": _elapsed,
    "aligned": _aligned,
    "past_the_hour": _past_the_hour,
    "window": _window,
    "by_days": _by_days,
    "by_months": _by_months,
    "by_turns": _by_turns,
    "from_a_date": _from_a_date,
    "delay": _delay,
    "moment": _moment,
    "instant": _instant,
}
