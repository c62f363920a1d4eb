"""Other ways to write a phrase, and hints that keep its meaning."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from matins import parse_trigger
from matins.engine.english.errors import keeps_meaning
from matins.errors import PhraseError

NOW = datetime(2026, 3, 27, 8, tzinfo=UTC)
QUARTERS = "january, april, july and october"
SAME = [
    ("mon,wed,fri 7:30", "every monday, wednesday and friday at 7:30"),
    ("mon, wed and fri at 7:30", "every monday, wednesday and friday at 7:30"),
    ("fri-mon 9am", "every friday to monday at 9am"),
    ("every fri-mon at 9am", "every friday to monday at 9am"),
    ("every day @ 9am", "every day at 9am"),
    ("every day @9am", "every day at 9am"),
    ("every day 9am", "every day at 9am"),
    ("9am every day", "every day at 9am"),
    ("weekdays 9am and 5pm", "every weekday at 9am and 5pm"),
    ("tuesdays 14:00", "every tuesday at 14:00"),
    ("tonight at 8pm", "today at 20:00"),
    ("tonight at 8", "today at 20:00"),
    ("tonight at 10:30pm", "today at 22:30"),
    ("quarterly on the 1st at 9am", "on the 1st of every january, april, july and october at 9am"),
    ("every quarter on the last day at noon", "on the last day of every january, april, july and october at noon"),
    ("every 14h", "every 14 hours"),
    ("every 1h30m", "every 90 minutes"),
    ("1h30m", "90m"),
    ("1d2h3s", "93603s"),
    ("in 1h30m", "in 90 minutes"),
]


@pytest.mark.parametrize(("text", "meant"), SAME)
def test_s8_as_people_write_it(text: str, meant: str) -> None:
    """S8, B19: the same trigger as the phrase of the grammar"""
    assert parse_trigger(text, now=NOW).definition == parse_trigger(meant, now=NOW).definition


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("@ 9am", 'Did you mean "every day at 9am"?'),
        ("tonight", 'Did you mean "today at 20:00"?'),
        ("monday 9am", 'Did you mean "every monday at 9am" or "next monday at 9am"?'),
        ("quarterly at 8am", f'Did you mean "on the 1st of every {QUARTERS} at 8am" or "every 3 months on the 1st at 8am"?'),  # noqa: E501
        ("tomorrow morning", 'Did you mean "tomorrow at 09:00"?'),
        ("tomorrow evening at 7", 'Did you mean "tomorrow at 19:00"?'),
        ("tomorrow evening at 7pm", 'Did you mean "tomorrow at 7pm"?'),
        ("every evening at 7", 'Did you mean "every day at 19:00"?'),
        ("this afternoon", 'Did you mean "today at 14:00"?'),
        ("monday morning", 'Did you mean "every monday at 09:00" or "next monday at 09:00"?'),
        ("next monday morning", 'Did you mean "next monday at 09:00"?'),
        ("every tuesday night", 'Did you mean "every tuesday at 22:00"?'),
        ("every other tuesday 14h", 'Did you mean "every other tuesday at 14:00"?'),
        ("every day 14h", 'Did you mean "every day at 14:00"?'),
        ("tomorrow 14h30", 'Did you mean "tomorrow at 14:30"?'),
        ("last friday 5pm", 'Did you mean "on the last friday of every month at 5pm"?'),
        ("first monday at 9am", 'Did you mean "on the first monday of every month at 9am"?'),
        ("evry weekdya at 7:45", 'Did you mean "every weekday at 7:45"?'),
    ],
)  # fmt: skip
def test_b19_a_hint_says_what_was_meant(text: str, hint: str) -> None:
    """B19"""
    with pytest.raises(PhraseError) as caught:
        parse_trigger(text, now=NOW)
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    "text",
    ["every fortnight", "whenever it rains", "every 7 blue moons at 6:15", "next week", "at 9am on mars"],
)
def test_b19_no_hint_is_better_than_another_meaning(text: str) -> None:
    """B19: examples of how to write, and no proposal"""
    with pytest.raises(PhraseError) as caught:
        parse_trigger(text, now=NOW)
    assert str(caught.value.hint).startswith('Write it like "every weekday at 9am"')


@pytest.mark.parametrize(
    ("words", "phrase"),
    [
        ("mon,wed,fri 7:30", "every 30 seconds"),
        ("tonight at 8pm", "today at 18:00"),
        ("quarterly", "hourly"),
        ("every 5 days at 9am", "every 2 days at 9am"),
        ("every monday at 9am", "every day at 9am"),
    ],
)
def test_what_does_not_keep_the_meaning(words: str, phrase: str) -> None:
    assert not keeps_meaning(words.replace(",", " , ").split(), phrase.split())


@pytest.mark.parametrize("text", ["30m1h", "1h1h", "1h30", "1x30m"])
def test_a_compound_duration_has_smaller_units_each_time(text: str) -> None:
    with pytest.raises(Exception, match=r"smaller|unit"):
        parse_trigger(text, now=NOW)
