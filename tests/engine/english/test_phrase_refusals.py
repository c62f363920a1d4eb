"""B10: what is not a phrase is refused: the word is named, and something that works is offered."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from matins.engine.english.phrases import PhraseMeaning, parse_phrase, phrase_grammar
from matins.engine.when.zones import load_zone
from matins.errors import PhraseError
from steps import at_most

NOW = int(datetime(2026, 3, 18, 10, tzinfo=UTC).timestamp() * 1000)  # a Wednesday


def read(text: str, zone: str = "Europe/London") -> PhraseMeaning:
    return parse_phrase(text, now_ms=NOW, zone=load_zone(zone))


def refused(text: str) -> PhraseError:
    with pytest.raises(PhraseError) as caught:
        pytest.fail(f"{text} was read as {read(text)}")
    return caught.value


REFUSED: list[tuple[str, str, str, str]] = [
    # text, the word, part of the message, the hint
    ("every day", "day", 'after "day" expected', 'Did you mean "every day at 09:00"?'),
    ("every week", "week", "not complete", 'Did you mean "every week on monday at 09:00"?'),
    ("every month", "month", "not complete", 'Did you mean "every month on the 1st at 09:00"?'),
    ("every year", "year", "not complete", 'Did you mean "every year on january 1 at 09:00"?'),
    ("every weekday", "weekday", "not complete", 'Did you mean "every weekday at 09:00"?'),
    ("tomorrow", "tomorrow", 'after "tomorrow" expected "at"', 'Did you mean "tomorrow at 09:00"?'),
    ("every other tuesday", "tuesday", "not complete", 'Did you mean "every other tuesday at 09:00"?'),
    ("every 5", "5", "expected seconds, minutes, hours", 'Did you mean "every 5 minutes"?'),
    ("every morning", "morning", "names no hour", 'Did you mean "every day at 09:00"?'),
    ("every evening at 7pm", "evening", "names no hour", 'Did you mean "every day at 7pm"?'),
    ("5 minutes", "5", "once or repeated", 'Did you mean "every 5 minutes" or "in 5 minutes"?'),
    (
        "every 2 weeks",
        "weeks",
        "needs a day and a time",
        'Did you mean "every 2 weeks on monday at 09:00" or "every 14 days"?',
    ),
    ("every 1.5 hours", "1.5", "not a whole number", 'Did you mean "every 90 minutes"?'),
    ("every half hour", "half", "not a whole number", 'Did you mean "every 30 minutes"?'),
    ("in 2 months", "months", "no fixed length", 'Did you mean "in 60 days"?'),
    (
        "biweekly on monday at 9am",
        "biweekly",
        "means two things",
        'Did you mean "every monday and thursday at 09:00" or "every other monday at 09:00"?',
    ),
    (
        "bimonthly",
        "bimonthly",
        "means two things",
        'Did you mean "on the 1st and 15th of every month at 09:00" or "every other month on the 1st at 09:00"?',
    ),
    (
        "on monday at 9",
        "monday",
        "once or every week",
        'Did you mean "every monday at 9" or "next monday at 9"?',
    ),
    (
        "on december 25 at 9am",
        "december",
        "once or every year",
        'Did you mean "every year on december 25 at 9am" or "on 2026-12-25 at 9am"?',
    ),
    (
        "on the 1st of march at 9am",
        "march",
        "once or every year",
        'Did you mean "every year on march 1 at 9am" or "on 2027-03-01 at 9am"?',
    ),
    (
        "every second tuesday at 9am",
        "second",
        "in weeks or in every month",
        'Did you mean "on the second tuesday of every month at 9am" or "every 2 weeks on tuesday at 9am"?',
    ),
    (
        "every other weekday at 9am",
        "weekday",
        "may count days or weeks",
        'Did you mean "every 2 weeks on weekdays at 9am" or "every weekday at 9am"?',
    ),
    ("every 0 minutes", "0", "never", 'Did you mean "every 2 minutes"?'),
    ("in 0 minutes", "0", "no time at all", 'Did you mean "every 5 minutes" or "in 5 minutes"?'),
    ("in 999999999 days", "999999999", "longer than 100 years", ""),
    ("in 30 minutes and 1 hour", "hour", "smaller unit", ""),
    (
        "every 7 minutes on the clock",
        "7",
        "7 minutes do not divide the hour",
        'Did you mean "every 6 minutes on the clock" or "every 7 minutes"?',
    ),
    ("every 60 minutes on the clock", "60", "a whole hour", 'Did you mean "every hour on the hour"?'),
    ("every 24 hours on the hour", "24", "a whole day", 'Did you mean "every day at 00:00"?'),
    (
        "every 5 hours on the hour",
        "5",
        "5 hours do not divide the day",
        'Did you mean "every 4 hours on the hour" or "every 5 hours"?',
    ),
    ("at 75 minutes past every hour", "75", "from 0 to 59", 'Did you mean "at 59 minutes past every hour"?'),
    (
        "every hour between 22 and 6",
        "6",
        "past midnight",
        'Did you mean "every hour between 22 and 23:59"?',
    ),
    (
        "every hour from 9 to 5",
        "5",
        "past midnight",
        'Did you mean "every hour from 9 to 17:00" or "every hour from 9 to 23:59"?',
    ),
    ("every hour between 9 and 9", "9", "past midnight", ""),
    ("every 5 hours between 9 and 10", "hours", "is longer than", 'Did you mean "every day at 09:00"?'),
    ("every hour between 09:00 and 09:59", "hour", "is longer than", 'Did you mean "every day at 09:00"?'),
    ("every monday to monday at 9am", "monday", "begins and ends on one day", 'Did you mean "every monday at 9am"?'),
    ("every weekday except sunday at 9am", "sunday", "not among the days", 'Did you mean "every weekday at 9am"?'),
    ("every day except weekdays and weekends at 9am", "weekends", "no day is left", 'Did you mean "every day at 9am"?'),
    (
        "on the 30th of every february at 9am",
        "30th",
        "No year has a day 30 in february",
        'Did you mean "on the 29th of every february at 9am"?',
    ),
    (
        "on the 31st of every april and june at 9am",
        "31st",
        "in april or june",
        'Did you mean "on the 30th of every april and june at 9am"?',
    ),
    ("every year on feb 30 at 9am", "30", "No year has", 'Did you mean "every year on feb 29 at 9am"?'),
    (
        "on the 1st of every month at 09:00 and 17:30",
        "17:30",
        "every hour must have the same minutes",
        'Make 2 schedules: "on the 1st of every month at 09:00" and "on the 1st of every month at 17:30".',
    ),
    (
        "every 12 months on the 31st at 9am starting 2026-02-01",
        "2026-02-01",
        "No such day ever comes",
        'Did you mean "every 12 months on the 31st at 9am"?',
    ),
    (
        "on the weekday nearest the 15th of every month at 9am starting 2026-04-01",
        "starting",
        "cannot start at a date",
        'Did you mean "on the weekday nearest the 15th of every month at 9am"?',
    ),
    ("every 2 years on february 29 at 9am starting 2027-01-01", "2027-01-01", "No such day ever comes", ""),
    ("today at 9:00", "today", "has passed", 'Did you mean "tomorrow at 9:00"?'),
    ("today at 10:00", "today", "has passed", 'Did you mean "tomorrow at 10:00"?'),
    ("on 2026-03-10 at 9:00", "2026-03-10", "has passed", 'Did you mean "tomorrow at 9:00"?'),
    ("on 2026-04-31 at 9:00", "2026-04-31", 'There is no "2026-04-31"', 'Did you mean "on 2026-04-30 at 9:00"?'),
    ("on 31 april 2026 at 9:00", "31 april 2026", "There is no", 'Did you mean "on 2026-04-30 at 9:00"?'),
    ("on 2026-13-01 at 9:00", "2026-13-01", "There is no", ""),
    ("once at 2026-03-24T25:00Z", "2026-03-24t25:00z", "There is no", ""),
    ("once at 2025-03-24T12:00Z", "2025-03-24t12:00z", "has passed", ""),
    ("once at 9999-12-31T12:00Z", "9999-12-31t12:00z", "too far away", ""),
    ("on 9999-12-31 at 9:00", "9999-12-31", "There is no", ""),
    (
        "on 2026-03-29 at 01:30",
        "01:30",
        "does not exist on 2026-03-29 in Europe/London",
        'Did you mean "on 2026-03-29 at 02:00"?',
    ),
    ("every day at 9.30am", "9.30am", 'parted by ":"', 'Did you mean "every day at 9:30am"?'),
    ("every day at 0930", "0930", 'parted by ":"', ""),
    ("every day at 13pm", "13pm", "hours go from 1 to 12", 'Did you mean "every day at 13:00"?'),
    ("every day at 0am", "0am", "hours go from 1 to 12", 'Did you mean "every day at 00:00"?'),
    ("every day at 25:00", "25:00", "hours go from 0 to 23", ""),
    ("every day at 24:00", "24:00", "midnight is 00:00", 'Did you mean "every day at 00:00"?'),
    ("every day at 9:75", "9:75", "minutes go from 0 to 59", ""),
    ("every day at noonish", "noonish", 'after "at": expected a time', ""),
    ("every wekday at 9am", "wekday", 'after "every"', 'Did you mean "every weekday at 9am"?'),
    ("evry wekday at 9am", "evry", "at the beginning", 'Did you mean "every weekday at 9am"?'),
    ("every mondays at 9", "mondays", 'after "every"', 'Did you mean "every monday at 9"?'),
    ("in 2 hours please", "please", "or nothing more", 'Did you mean "in 2 hours"?'),
    ("every day at 9am and", "and", "not complete", 'Did you mean "every day at 9am"?'),
    ("tomorrow at 9am and 5pm", "and", "expected nothing more", ""),
    ("sometimes", "sometimes", "at the beginning", ""),
    ("every now and then", "now", 'after "every"', ""),
    ("every \u0665 minutes", "\u0665", "digits 0 to 9", 'Did you mean "every 5 minutes"?'),
    ("every day at \uff19am", "\uff19am", "digits 0 to 9", 'Did you mean "every day at 9am"?'),
    (
        "every wee\u212aday at 9am",
        "wee\u212aday",
        "no phrase has the character",
        "",
    ),
    ("every \u0665 min\u00fates", "\u0665", "digits 0 to 9", ""),
    ("\u6bcf\u5929", "\u6bcf\u5929", "no phrase has the character", ""),
    ("", "", "The phrase is empty", ""),
]


@pytest.mark.parametrize(("text", "word", "message", "hint"), REFUSED, ids=[case[0] for case in REFUSED])
def test_what_is_not_a_phrase_is_refused_by_name(text: str, word: str, message: str, hint: str) -> None:
    """B10: the word that could not be used, what was expected, and a phrase that works."""
    error = refused(text)
    assert error.value == word
    assert message in error.message
    assert error.hint is not None
    if hint:
        assert error.hint == hint
    for phrase in re.findall(r'"([^"]+)"', error.hint):
        read(phrase)


def test_every_shape_has_a_name_for_people() -> None:
    """B10: an error says "a time such as 9am", not a regular expression."""
    for text in (
        "every day at x",
        "on x",
        "every x",
        "every month on the x",
        "on march x",
        "on march 3 x at 9",
        "once at x",
    ):
        assert "expected" in refused(text).message
        assert not re.search(r"[\[\]\\]", refused(text).message)


HOSTILE = (
    "at " + "9," * 490 + "9 every day",
    "every " + "monday and " * 88 + "monday at 9",
    "every " + "monday and " * 88 + "moonday at 9",
    "on the " + "1st," * 240 + "1st of every month",
    "x" * 1000,
    "every " + "9" * 990,
    "every day at " + "1" * 980,
    "at " * 333,
    "9 " * 500,
    "," * 1000,
    "biweekly " * 111,
    "every\x00day at 9",
    "\u0665" * 1000,
    "in " + "9 weeks," * 120 + "1 day",
)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_read_or_refused_in_bounded_steps(text: str) -> None:
    """B10: lines of Python run, hint included, for anything that fits into 1,000 characters."""
    read("every day at 9am")
    with at_most(2_000_000):
        try:
            read(text)
        except PhraseError as error:
            hint = error.hint
        else:
            hint = "none needed"
    assert hint


def test_every_example_in_the_grammar_is_what_it_claims_to_be() -> None:
    """B10: an example stands above the rule that reads it, and has a meaning, or a reason not to."""
    grammar = phrase_grammar()
    examples = [(rule.name, text) for rule in grammar.rules.values() for text in rule.examples]
    assert len(examples) > 70
    for name, text in examples:
        words = text.lower().replace(",", " ,").split()
        assert grammar.parse(name, words).trees, text
        if name in grammar.reachable("phrase"):
            read(text)
        else:
            assert "cannot be used" not in refused(text).message
