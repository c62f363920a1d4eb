"""The small parts of a phrase as values: numbers, durations, times of day, days, months, dates.

Other ways to write a phrase, as the grammar writes it: `mon,wed,fri 7:30`, `@ 9am`, `tonight at 8pm`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import pairwise

from matins.engine.english.grammar import Tree
from matins.engine.when.days import date_of, day_number, days_in_month
from matins.engine.when.definitions import clock_text
from matins.engine.when.durations import DAY_MS, HOUR_MS, MAX_DURATION_MS, MINUTE_MS, SECOND_MS
from matins.engine.when.durations import UNITS as LETTERS
from matins.engine.when.zones import Zone

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


_DAY = "(?:mon|tues?|wed|thu(?:rs?)?|fri|sat|sun|monday|tuesday|wednesday|thursday|friday|saturday|sunday)"
_RANGE = re.compile(rf"({_DAY})-({_DAY})")
_ONE_DAY = re.compile(_DAY)
_TIME = re.compile(r"(?:[01]?[0-9]|2[0-3]):[0-5][0-9]|(?:0?[1-9]|1[0-2])(?::[0-5][0-9])?(?:am|pm)|noon|midnight")
_HOUR_SIGN = re.compile(r"(?:[01]?[0-9]|2[0-3])h(?:[0-5][0-9])?")
_DAYS = re.compile(rf"{_DAY}s?|weekdays?|weekends?|daily|today|tomorrow")
_GLUED = re.compile(r"@(.+)")
_HOUR = re.compile(r"[1-9]|1[01]")
_BEFORE_A_TIME = frozenset(["at", "and", ",", "between", "from", "to", "until"])
_QUARTERS = ["of", "every", "january", ",", "april", ",", "july", "and", "october"]
_QUARTERLY = ("on the 1st of every january, april, july and october at 09:00", "every 3 months on the 1st at 09:00")

_HALF_YEARS = ("every 6 months on the 1st at 09:00",)
_THREE = ("every monday, wednesday and friday at 09:00", "every 3 weeks on monday at 09:00")
_TWICE = ("every monday and thursday at 09:00",)
_PERIODS = {
    **dict.fromkeys(("half-hourly", "halfhourly"), ("every 30 minutes",)),
    **dict.fromkeys(("quarter-hourly", "quarterhourly"), ("every 15 minutes",)),
    **dict.fromkeys(("semi-annually", "semiannually", "half-yearly", "biannually", "bi-annually"), _HALF_YEARS),
    **dict.fromkeys(("tri-weekly", "triweekly"), _THREE),
    **dict.fromkeys(("semi-weekly", "semiweekly"), _TWICE),
    **dict.fromkeys(("semi-monthly", "semimonthly"), ("on the 1st and 15th of every month at 09:00",)),
    **dict.fromkeys(("tri-monthly", "trimonthly"), ("every 3 months on the 1st at 09:00",)),
    "fortnightly": ("every 2 weeks on monday at 09:00",),
}


def respelled(words: Sequence[str]) -> list[str]:
    """The words of a phrase in the spelling of the grammar."""
    given = list(words)
    for rewrite in _REWRITES:
        given = rewrite(given)
    return given


def _signs(words: list[str]) -> list[str]:
    """`@ 9am` and `@9am` are "at 9am"; `fri-mon` is "fri to mon"."""
    found: list[str] = []
    for word in words:
        days, glued = _RANGE.fullmatch(word), _GLUED.fullmatch(word)
        if days:
            found += [days[1], "to", days[2]]
        elif glued:
            found += ["at", glued[1]]
        else:
            found.append("at" if word == "@" else word)
    return found


def _is_hour_after_a_day(words: list[str]) -> bool:
    *before, hour = words
    after = bool(before and _DAYS.fullmatch(before[-1])) or before in (["every", "day"], ["each", "day"])
    return after and _HOUR_SIGN.fullmatch(hour) is not None


def _missing_at(words: list[str]) -> list[str]:
    """`every day 9am` is "every day at 9am", and `9am daily` is "at 9am daily". `14h` may be a length, but not after a
    day: it is refused as a time, with the hint "at 14:00"."""
    times = [n for n, word in enumerate(words) if _TIME.fullmatch(word) or _is_hour_after_a_day(words[: n + 1])]
    if not times or len(words) == 1 or "at" in words or (times[0] and words[times[0] - 1] in _BEFORE_A_TIME):
        return words
    return [*words[: times[0]], "at", *words[times[0] :]]


def _several_days(words: list[str]) -> list[str]:
    """`mon, wed, fri at 7:30` is every week: nobody names several days for once."""
    if "at" not in words:
        return words
    at = words.index("at")
    before = words[:at] if words[0] != "on" else words[1:at]
    days = [word for word in before if _ONE_DAY.fullmatch(word)]
    if len(days) < 2 or any(word not in (*days, ",", "and", "to", "through") for word in before):
        return words
    return ["every", *before, *words[at:]]


def _tonight(words: list[str]) -> list[str]:
    """`tonight at 8` is 20:00, and `tonight` alone has no hour."""
    if "tonight" not in words:
        return words
    if "at" not in words[:-1]:
        raise InvalidPhraseError('"tonight" names no hour', "tonight", "today at 20:00")
    hour = words.index("at") + 1
    rest = words[hour + 1 : hour + 2]
    if _HOUR.fullmatch(words[hour]) and rest not in (["am"], ["pm"]):
        words = [*words[:hour], f"{int(words[hour]) + 12}:00", *words[hour + 1 :]]
    return ["today" if word == "tonight" else word for word in words]


def _offered(phrases: Sequence[str], rest: list[str]) -> list[str]:
    """The phrases, with the times that the words have; none where other words would be lost."""
    if rest[:1] == ["at"]:
        return [phrase.replace("at 09:00", join(rest)) for phrase in phrases if phrase.endswith("at 09:00")]
    return list(phrases) if not rest else []


def _twelve(words: list[str]) -> list[str]:
    """`12 noon` is noon, and `12 midnight` midnight."""
    return [
        word
        for n, word in enumerate(words)
        if not (word in ("12", "12:00") and words[n + 1 : n + 2] in (["noon"], ["midnight"]))
    ]


def _periods(words: list[str]) -> list[str]:
    """Names of periods that no phrase has: what they mean is offered."""
    if words and words[0] in _PERIODS:
        word, *rest = words
        raise InvalidPhraseError(f'"{word}" names no days or times', word, *_offered(_PERIODS[word], rest))
    return words


def _quarterly(words: list[str]) -> list[str]:
    """`quarterly on the 1st at 9am`: in January, April, July and October."""
    text = join(words)
    for name in ("quarterly", "every quarter", "each quarter"):
        if text == name or text.startswith(f"{name} "):
            rest = words[len(name.split()) :]
            break
    else:
        return words
    if rest[:1] in (["hour"], ["hours"]):
        raise InvalidPhraseError(
            '"quarter" is not a whole number', "quarter", *(["every 15 minutes"] * (len(rest) == 1))
        )
    if rest[:2] != ["on", "the"] or "at" not in rest:
        raise InvalidPhraseError(f'"{name}" needs a day and a time', name.split()[-1], *_offered(_QUARTERLY, rest))
    at = rest.index("at")
    return [*rest[:at], *_QUARTERS, *rest[at:]]


_REWRITES: tuple[Callable[[list[str]], list[str]], ...] = (
    _signs,
    _periods,
    _twelve,
    _tonight,
    _missing_at,
    _several_days,
    _quarterly,
)
