"""Errors for phrases that the grammar knows but refuses as ambiguous or incomplete, with suggestions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from matins.engine.english.grammar import Tree
from matins.engine.english.phrase_calendar import nth_number
from matins.engine.english.phrase_values import (
    UNIT_RULES,
    UNITS,
    Context,
    InvalidPhraseError,
    day_in_month,
    months_of,
    number,
    the,
)
from matins.engine.when.days import date_of


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
