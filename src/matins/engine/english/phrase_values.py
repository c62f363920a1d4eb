"""The small parts of a phrase as values: numbers, durations, times of day, days, months, dates."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date

from matins.engine.english.grammar import Tree
from matins.engine.english.vocabulary import DAYS, MONTHS
from matins.engine.when.days import date_of, day_number, days_in_month
from matins.engine.when.definitions import clock_text
from matins.engine.when.durations import DAY_MS, HOUR_MS, MAX_DURATION_MS, MINUTE_MS, SECOND_MS
from matins.engine.when.durations import UNITS as LETTERS
from matins.engine.when.zones import Zone

UNITS = {"second": SECOND_MS, "minute": MINUTE_MS, "hour": HOUR_MS, "day": DAY_MS, "week": 7 * DAY_MS}
UNIT_RULES = tuple(name + ending for name in UNITS for ending in ("", "s"))
WEEK = tuple(day.lower() for day in DAYS)
GROUPS = {"weekday": {1, 2, 3, 4, 5}, "weekend": {0, 6}}
YEAR = tuple(month.lower() for month in MONTHS)
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_COMPACT = re.compile(r"([0-9]{1,9})([dhms])")
_CLOCK = re.compile(
    r"(?P<hour>[0-9]+)(:(?P<minute>[0-9]+))?(:(?P<second>[0-9]+))?(\.(?P<milli>[0-9]+))?(?P<half>am|pm)?"
)


class InvalidPhraseError(Exception):
    """A phrase that the grammar knows but that cannot be used, with alternatives."""

    def __init__(self, message: str, value: str, *instead: str, all_needed: bool = False) -> None:
        super().__init__(message)
        self.message, self.value, self.instead = message, value, instead
        self.all_needed = all_needed


@dataclass(slots=True)
class Context:
    """The context of a phrase: its words, the present, the zone, and notes about the reading."""

    words: list[str]
    now_ms: int
    zone: Zone
    notes: list[str] = field(default_factory=list[str])

    @property
    def today(self) -> int:
        return self.zone.wall_of(self.now_ms) // DAY_MS

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def text(self, tree: Tree) -> str:
        return join(self.words[tree.start : tree.end])

    def instead(self, tree: Tree, text: str) -> str:
        """The phrase with another text at this tree."""
        return join([*self.words[: tree.start], text, *self.words[tree.end :]])


def join(words: Iterable[str]) -> str:
    return " ".join(word for word in words if word).replace(" ,", ",")


def the(tree: Tree, *rules: str) -> Tree:
    """The first tree of these rules, which the grammar requires."""
    found = tree.first(*rules)
    if found is None:
        raise LookupError(f"{tree.rule} holds none of {rules}")
    return found


def number(tree: Tree) -> int:
    word = tree.words()[0]
    return _NUMBERS.index(word) + 1 if word in _NUMBERS else int(word)


def turns(tree: Tree, context: Context) -> int:
    """The units in a step: "every hour" 1, "every other hour" 2, "every 3 hours" 3."""
    counted = tree.first("count")
    if counted is None:
        return 2 if "other" in tree.words() else 1
    if number(counted) == 0:
        raise InvalidPhraseError("Every 0 is never: a step is 1 or more", "0", context.instead(counted, "2"))
    return number(counted)


def duration(tree: Tree, context: Context) -> int:
    """Milliseconds of "1 hour and 30 minutes", "an hour", "5m"."""
    compact = tree.first("COMPACT")
    if compact is not None:
        parts = _COMPACT.findall(compact.words()[0])
        return bounded(sum(int(number) * LETTERS[unit] for number, unit in parts), compact, context)
    pieces = tree.all("length", "delay_length") or [tree]
    sizes = [_unit(piece) for piece in pieces]
    for piece, size, larger in zip(pieces[1:], sizes[1:], sizes, strict=False):
        if size >= larger:
            text = context.text(piece)
            raise InvalidPhraseError(f'"{text}" must name a smaller unit than what stands before it', piece.words()[-1])
    counts = [number(counted) if (counted := piece.first("count")) else 1 for piece in pieces]
    return bounded(sum(n * size for n, size in zip(counts, sizes, strict=True)), tree, context)


def _unit(tree: Tree) -> int:
    return UNITS[the(tree, *UNIT_RULES).rule.removesuffix("s")]


def bounded(milliseconds: int, tree: Tree, context: Context) -> int:
    digits = next((word for word in tree.words() if word[0].isdigit()), tree.words()[-1])
    if milliseconds == 0:
        raise InvalidPhraseError(f'"{context.text(tree)}" is no time at all', digits, "every 5 minutes", "in 5 minutes")
    if milliseconds > MAX_DURATION_MS:
        raise InvalidPhraseError(f'"{context.text(tree)}" is longer than 100 years', digits)
    return milliseconds


def milliseconds_of_day(tree: Tree) -> int:
    """The milliseconds of a `time` or an `exact_time`."""
    text = "".join(tree.words())
    if text in ("noon", "midnight"):
        return 12 * HOUR_MS if text == "noon" else 0
    found = _CLOCK.fullmatch(text)
    if found is None:
        raise LookupError(f"{text} is not a time")
    hour, minute, second, milli = (int(found[name] or 0) for name in ("hour", "minute", "second", "milli"))
    if found["half"]:
        hour = hour % 12 + (12 if found["half"] == "pm" else 0)
    return hour * HOUR_MS + minute * MINUTE_MS + second * SECOND_MS + milli


def minute_of_day(tree: Tree, context: Context, before: str = "") -> int:
    """The minute of a `time`. A note explains how an ambiguous bare hour was read."""
    minute = milliseconds_of_day(tree) // MINUTE_MS
    if tree.first("HOUR") and 1 <= minute // 60 <= 12:
        context.note(f'"{before}{tree.words()[0]}" read as {clock_text(minute)} (24-hour clock)')
    return minute


def minutes_of_day(tree: Tree, context: Context) -> tuple[int, ...]:
    """The times of an `at_times`, in order and distinct."""
    return tuple(sorted({minute_of_day(time, context, "at ") for time in the(tree, "at_times").all("time")}))


def days_of(tree: Tree, context: Context) -> set[int]:
    """The days of the week in any list of them."""
    days: set[int] = set()
    for item in tree.all("day_span", "all_day", "each_day", "day_name"):
        names = [item] if item.rule == "day_name" else item.all("day_name", "day_names")
        numbers = [WEEK.index(_only_child(name).rule.removesuffix("s")) for name in names]
        if not names:
            days |= GROUPS[item.words()[0].removesuffix("s")]
        elif len(numbers) == 2 and numbers[0] == numbers[1]:
            raise InvalidPhraseError(
                f'"{context.text(item)}" begins and ends on one day',
                item.words()[-1],
                context.instead(item, item.words()[0]),
            )
        else:
            days |= {(numbers[0] + n) % 7 for n in range((numbers[-1] - numbers[0]) % 7 + 1)}
    return days


def _only_child(tree: Tree) -> Tree:
    return next(child for child in tree.children if isinstance(child, Tree))


def months_of(tree: Tree) -> list[int]:
    return sorted({YEAR.index(_only_child(month).rule) + 1 for month in tree.all("month")})


def day_in_month(tree: Tree) -> int:
    """The number of a DAY or an ORDINAL."""
    return int(re.sub("[^0-9]", "", tree.words()[0]))


def date_day(tree: Tree, context: Context) -> int:
    """The day number of a `date`."""
    iso = tree.first("ISO_DATE")
    if iso is not None:
        year, month, day = (int(part) for part in iso.words()[0].split("-"))
    else:
        year, month = int(the(tree, "YEAR").words()[0]), months_of(tree)[0]
        day = day_in_month(the(tree, "DAY", "ORDINAL"))
    text = context.text(tree)
    if not (1 <= month <= 12 and 1 <= year < date.max.year):
        raise InvalidPhraseError(f'There is no "{text}"', text)
    if not 1 <= day <= days_in_month(year, month):
        last = date(year, month, days_in_month(year, month)).isoformat()
        raise InvalidPhraseError(f'There is no "{text}"', text, context.instead(tree, last))
    return day_number(year, month, day)


def iso_date(day: int) -> str:
    return date_of(day).isoformat()
