"""Refusals of phrases, with suggestions.

Errors for phrases that the grammar knows but refuses as ambiguous or incomplete, with suggestions.

Suggestions for a refused phrase: its words, corrected, or the nearest example.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from fractions import Fraction
from itertools import islice

from matins.engine.english.grammar import Grammar, Reading, Tree
from matins.engine.english.meanings import nth_number
from matins.engine.english.values import (
    UNIT_RULES,
    UNITS,
    Context,
    InvalidPhraseError,
    day_in_month,
    join,
    months_of,
    number,
    the,
)
from matins.engine.when.days import date_of
from matins.engine.when.definitions import clock_text


def reason_of(tree: Tree, context: Context) -> InvalidPhraseError:
    """The reason why a `refused` tree is refused."""
    part = the(tree, *_REASONS)
    return _REASONS[part.rule](part, context)


def _once_or_weekly(tree: Tree, context: Context) -> InvalidPhraseError:
    day, times = the(tree, "day_name").words()[0], context.text(the(tree, "at_times"))
    return InvalidPhraseError(f'"{day}" may be once or every week', day, f"every {day} {times}", f"next {day} {times}")


def _once_or_yearly(tree: Tree, context: Context) -> InvalidPhraseError:
    date, times = the(tree, "yearless_date"), context.text(the(tree, "at_times"))
    month, day = the(date, "month").words()[0], day_in_month(the(date, "DAY", "ORDINAL"))
    year = date_of(context.today).year
    coming = [f"on {y}-{months_of(date)[0]:02}-{day:02} {times}" for y in (year, year + 1)]
    return InvalidPhraseError(
        f'"{month} {day}" may be once or every year', month, f"every year on {month} {day} {times}", *coming
    )


def _weekly_or_monthly(tree: Tree, context: Context) -> InvalidPhraseError:
    nth, day, times = the(tree, "nth").words()[0], the(tree, "day_name").words()[0], context.text(the(tree, "at_times"))
    weeks = nth_number(nth)
    by_weeks = [f"every {weeks} weeks on {day} {times}"] if weeks > 1 else []
    return InvalidPhraseError(
        f'"{nth} {day}" may be counted in weeks or in every month',
        nth,
        f"on the {nth} {day} of every month {times}",
        *by_weeks,
    )


def _every_other_group(tree: Tree, context: Context) -> InvalidPhraseError:
    group, times = tree.words()[2], context.text(the(tree, "at_times"))
    return InvalidPhraseError(
        f'"every other {group}" may count days or weeks',
        group,
        f"every 2 weeks on {group}s {times}",
        f"every {group} {times}",
    )


def _weeks_alone(tree: Tree, context: Context) -> InvalidPhraseError:
    counted = tree.first("count")
    text, weeks = context.text(tree), number(counted) if counted else 2
    return InvalidPhraseError(
        f'"{text}" needs a day and a time', tree.words()[-1], f"{text} on monday at 09:00", f"every {7 * weeks} days"
    )


def _part_of_a_day(tree: Tree, context: Context) -> InvalidPhraseError:
    part = the(tree, "day_part").words()[0]
    return InvalidPhraseError(f'"{part}" names no hour', part, f"every day {_times_in(part, tree, context)}")


def _part_of_one_day(tree: Tree, context: Context) -> InvalidPhraseError:
    part = the(tree, "day_part").words()[0]
    day = "today" if tree.words()[0] == "this" else context.text(tree).partition(f" {part}")[0].removeprefix("on ")
    days = [f"every {day}", f"next {day}"] if tree.first("day_name") and " " not in day else [day]
    offered = (f"{day} {_times_in(part, tree, context)}" for day in days)
    return InvalidPhraseError(f'"{part}" names no hour', part, *offered)


def _times_in(part: str, tree: Tree, context: Context) -> str:
    """The times that are given, where they can be of that part of a day; "at 7" in the evening is 19:00."""
    given = tree.first("at_times")
    if given is None:
        return f"at {_PARTS_OF_A_DAY[part]}"
    words = context.text(given).split()
    late = len(words) == 2 and words[1].isdigit() and part != "morning" and 0 < int(words[1]) < 12
    return f"at {int(words[1]) + 12}:00" if late else " ".join(words)


def _no_month(tree: Tree, context: Context) -> InvalidPhraseError:
    nth, day, times = the(tree, "nth").words()[0], the(tree, "day_name").words()[0], context.text(the(tree, "at_times"))
    return InvalidPhraseError(f'"{nth} {day}" names no month', nth, f"on the {nth} {day} of every month {times}")


_PARTS_OF_A_DAY = {"morning": "09:00", "afternoon": "14:00", "evening": "18:00", "night": "22:00"}


def _part_of_a_unit(tree: Tree, context: Context) -> InvalidPhraseError:
    decimal = tree.first("DECIMAL")
    word = decimal.words()[0] if decimal else "half"
    part = Fraction(word) if decimal else Fraction(1, 2)
    unit = the(tree, *UNIT_RULES)
    length = part * UNITS[unit.rule.removesuffix("s")]
    whole = [f"{length // size} {name}s" for name, size in UNITS.items() if length and length % size == 0]
    return InvalidPhraseError(
        f'"{word}" is not a whole number; use a smaller unit',
        word,
        *(f"{tree.words()[0]} {text}" for text in whole[::-1][:1]),
    )


def _no_fixed_length(tree: Tree, context: Context) -> InvalidPhraseError:
    counted = tree.first("count")
    count, unit = number(counted) if counted else 1, tree.words()[-1]
    days = count * (365 if unit.startswith("year") else 30)
    return InvalidPhraseError(f'"{unit}" has no fixed length: name a date, or count days', unit, f"in {days} days")


def _two_meanings(tree: Tree, context: Context) -> InvalidPhraseError:
    word = next(word for word in tree.words() if word in _TWO_MEANINGS)
    return InvalidPhraseError(f'"{word}" means two things', word, *_TWO_MEANINGS[word])


def _amount_alone(tree: Tree, context: Context) -> InvalidPhraseError:
    text = context.text(tree)
    return InvalidPhraseError(f'"{text}" may be once or repeated', tree.words()[0], f"every {text}", f"in {text}")


_WEEKLY = ("every monday and thursday at 09:00", "every other monday at 09:00")
_MONTHLY = ("on the 1st and 15th of every month at 09:00", "every other month on the 1st at 09:00")
_TWO_MEANINGS = {"biweekly": _WEEKLY, "bi-weekly": _WEEKLY, "bimonthly": _MONTHLY, "bi-monthly": _MONTHLY}
_REASONS: dict[str, Callable[[Tree, Context], InvalidPhraseError]] = {
    "once_or_weekly": _once_or_weekly,
    "once_or_yearly": _once_or_yearly,
    "weeks_alone": _weeks_alone,
    "part_of_a_day": _part_of_a_day,
    "part_of_one_day": _part_of_one_day,
    "no_month": _no_month,
    "part_of_a_unit": _part_of_a_unit,
    "no_fixed_length": _no_fixed_length,
    "two_meanings": _two_meanings,
    "weekly_or_monthly": _weekly_or_monthly,
    "every_other_group": _every_other_group,
    "amount_alone": _amount_alone,
}


_MAX_WORDS = 30
_MAX_EDITS = 3
_MAX_INSERTIONS = 8
_LIKENESS = 0.65
_SMALL_WORDS = frozenset(["at", "on", "the", "of", "and", ",", "a", "an", "in", "every", "each", "starting", "once",
                          "please", "exactly", "sharp"])  # fmt: skip
_FILLED_IN = _SMALL_WORDS | {"09:00", "1st", "1", "monday", "january", "month", "day", "minutes", "nearest"}
"""What a suggestion adds where a day, a unit or a time is missing."""
_SHORTEST_SLIP, _LONG_WORD = 4, 6
_CLOCK = re.compile(r"(?P<hour>[0-9]{1,2})(?P<sign>[:.h])?(?P<minute>[0-9]{1,2})?(?P<half>am|pm)?")
_TEMPLATES = (
    "{} 09:00",
    "{} at 09:00",
    "{} on monday at 09:00",
    "{} on the 1st at 09:00",
    "{} on january 1 at 09:00",
    "{} of every month at 09:00",
    "{} minutes",
    "every {}",
    "every {} at 09:00",
    "every day at {}",
    "every day {}",
)


def time_problem(word: str) -> str | None:
    """The problem of a word that looks like a time; None if there is none."""
    found = _CLOCK.fullmatch(word)
    if found is None:
        return None
    hour, minute = int(found["hour"]), int(found["minute"] or 0)
    if found["sign"] not in (":", None) or (found["minute"] and not found["sign"]):
        return 'hours and minutes are parted by ":"'
    if found["half"] and not 1 <= hour <= 12:
        return "with am and pm the hours go from 1 to 12"
    if hour > 23:
        return "hours go from 0 to 23, and midnight is 00:00"
    if minute > 59:
        return "minutes go from 0 to 59"
    return None


def corrected_time(word: str) -> str | None:
    """The time that such a word seems to mean."""
    found = _CLOCK.fullmatch(word)
    if found is None:
        return None
    hour, minute, half = int(found["hour"]), int(found["minute"] or 0), found["half"] or ""
    if minute > 59 or hour > 24 or len(found["minute"] or "00") != 2:
        return None
    return f"{hour}:{minute:02}{half}" if half and 1 <= hour <= 12 else clock_text(hour % 24 * 60 + minute)


def corrected(words: list[str], grammar: Grammar, works: Callable[[str], bool]) -> str | None:
    """The words with up to three corrections, as a phrase that works; None if there is none."""
    if len(words) > _MAX_WORDS:
        return None
    vocabulary = grammar.vocabulary("phrase")
    for _ in range(_MAX_EDITS):
        reading = grammar.parse("phrase", words)
        for candidate in _edits(reading, vocabulary):
            if works(candidate):
                return candidate
        better = _closer(reading, vocabulary, grammar)
        if better is None:
            return None
        words = better
    return None


def _edits(reading: Reading, vocabulary: list[str]) -> Iterator[str]:
    """The words with one change where the reading failed, the likeliest first."""
    words, at = reading.words, reading.farthest
    if at < len(words):
        before, word, after = words[:at], words[at], words[at + 1 :]
        for other in _replacements(word, reading, vocabulary):
            yield join([*before, other, *after])
        yield join([*before, *after])
        for missing in islice((name for name, is_word in reading.wanted.items() if is_word), _MAX_INSERTIONS):
            yield join([*before, missing, word, *after])
    else:
        yield join(words[:-1])
    if at in (0, len(words)):
        yield from (template.format(join(words)) for template in _TEMPLATES)


def _replacements(word: str, reading: Reading, vocabulary: list[str]) -> Iterator[str]:
    time = corrected_time(word)
    if time is not None:
        yield time
    yield from get_close_matches(word, vocabulary, cutoff=_LIKENESS)
    if any(label.startswith("a time") for label in reading.wanted):
        yield "09:00"


def _closer(reading: Reading, vocabulary: list[str], grammar: Grammar) -> list[str] | None:
    """The words with a replacement where the reading failed, if that reads farther."""
    words, at = reading.words, reading.farthest
    if at == len(words):
        return None
    candidates = [[*words[:at], other, *words[at + 1 :]] for other in _replacements(words[at], reading, vocabulary)]
    readings = [grammar.parse("phrase", candidate) for candidate in candidates]
    best = max(readings, key=lambda other: other.farthest, default=reading)
    return best.words if best.farthest > at else None


def keeps_meaning(words: list[str], phrase: list[str]) -> bool:
    """Whether a suggestion says what the words say: each of them, or one that is written almost like it. What it adds
    is a day or a time where one is missing."""
    missing = [word for word in words if word not in phrase and word not in _SMALL_WORDS]
    free = [word for word in phrase if word not in words]
    for word in missing:
        meant = corrected_time(word)
        alike = [meant] if meant in free else [other for other in free if is_slip(word, other)]
        if not alike or (word[0].isdigit() and alike != [meant]):
            return False
        free.remove(alike[0])
    # No word that joins two others is more often there than before: "12 noon" is not "12 and noon".
    joins = any(phrase.count(word) > words.count(word) for word in ("and", ",", "except"))
    return not joins and all(word in _FILLED_IN for word in free)


def is_slip(typed: str, meant: str) -> bool:
    """Whether the word is the other one, mistyped: one letter is wrong, missing or too many, or two changed places; in
    a long word that begins in the same way, two such. A word with another beginning is another word."""
    if min(len(typed), len(meant)) < _SHORTEST_SLIP:
        return False
    few = _distance(typed, meant)
    return few == 1 or (few == 2 and typed[0] == meant[0] and min(len(typed), len(meant)) >= _LONG_WORD)


def _distance(one: str, other: str) -> int:
    """The number of letters to change, add, remove or swap with the next."""
    if abs(len(one) - len(other)) > 2:
        return len(one)
    before, last = [0] * (len(other) + 1), list(range(len(other) + 1))
    for n, letter in enumerate(one, 1):
        row = [n]
        for m, wanted in enumerate(other, 1):
            cost = min(last[m] + 1, row[m - 1] + 1, last[m - 1] + (letter != wanted))
            swapped = n > 1 and m > 1 and letter == other[m - 2] and one[n - 2] == wanted
            row.append(min(cost, before[m - 2] + 1) if swapped else cost)
        before, last = last, row
    return last[-1]
