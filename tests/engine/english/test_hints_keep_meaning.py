"""B10: a hint parses, and drops or adds no word that carries meaning. What carries meaning is written down here."""

from __future__ import annotations

import re
from random import Random

import pytest
from phrase_generator import PhraseGenerator, text_of

from matins.engine.english.phrases import phrase_grammar
from matins.engine.when.parse import parse_trigger
from matins.errors import TriggerError

NOW = 1_773_828_000_000  # a Wednesday in March 2026
EMPTY = frozenset([
    "at", "on", "the", "of", "a", "an", "in", "every", "each", "starting",
    "once", "please", "exactly", "sharp", ",", "and",
])  # fmt: skip
"""Words that may go: what is said is the same without them."""
ADDED = EMPTY - {"and", ","} | {"09:00", "1st", "1", "monday", "january", "month", "day", "minutes"}
"""What may be added where a day, a unit or a time is missing."""
PARAPHRASED = {"every quarter hour": "every 15 minutes"}
STRANGE = (
    "never",
    "not",
    "no",
    "non",
    "nor",
    "only",
    "half",
    "twice",
    "quarter",
    "unless",
    "but",
    "without",
    "unti",
    "ever",
)
PREFIXES = ("non-", "semi-", "half-", "tri-", "bi-", "un", "mid", "quarter-")


def hints(text: str) -> list[str]:
    """The phrases that the hint offers; none for the general examples."""
    try:
        parse_trigger(text, now_ms=NOW)
    except TriggerError as error:
        hint = error.hint or ""
        return re.findall(r'"([^"]+)"', hint) if hint.startswith("Did you mean") else []
    return []


def _parses(text: str) -> bool:
    try:
        return bool(parse_trigger(text, now_ms=NOW))
    except TriggerError:
        return False


def words_of(text: str) -> list[str]:
    return text.lower().replace(",", " , ").split()


def lost(typed: str, offered: str) -> list[str]:
    """The words that carry meaning and are not in the hint, nor mistyped there."""
    given, found = words_of(typed), words_of(offered)
    return [word for word in given if word not in found and word not in EMPTY and not _mistyped(word, found)]


def added(typed: str, offered: str) -> list[str]:
    given, found = words_of(typed), words_of(offered)
    new = [word for word in found if word not in given and word not in ADDED and not _mistyped(word, given)]
    return [*new, *(["and"] if found.count("and") > given.count("and") else [])]


def _mistyped(word: str, others: list[str]) -> bool:
    """Whether one of the others is the word but for two letters at most, behind the same beginning."""
    for other in others:
        same = 0
        while same < min(len(word), len(other)) and word[same] == other[same]:
            same += 1
        tail = 0
        while tail < min(len(word), len(other)) - same and word[-1 - tail] == other[-1 - tail]:
            tail += 1
        if same and max(len(word), len(other)) - same - tail <= 3 and same + tail >= 2:
            return True
    return False


def test_b10_no_hint_drops_or_adds_a_word() -> None:
    """B10: phrases of the grammar, with a word that no phrase has, another beginning of a word, or a slip"""
    random, generator = Random(20), PhraseGenerator(phrase_grammar(), 20)
    offered = 0
    for number in range(300):
        words = generator.tree().words()
        if not _parses(text_of(words)):  # refused for what it says, not for how it is written
            continue
        at = random.randrange(len(words))
        new = (random.choice(STRANGE), words[at]) if number % 3 == 0 else (random.choice(PREFIXES) + words[at],)
        if number % 3 == 2:
            at = max(range(len(words)), key=lambda n: len(words[n]))
            new = (
                (words[at][:-3] + words[at][-2] + words[at][-3] + words[at][-1],)
                if len(words[at]) > 5
                else (words[at],)
            )
        typed = text_of([*words[:at], *new, *words[at + 1 :]])
        for hint in hints(typed):
            if PARAPHRASED.get(typed.replace("each", "every")) != hint:
                offered += 1
                parse_trigger(hint, now_ms=NOW)
                assert lost(typed, hint) == [], (typed, hint)
                assert added(typed, hint) == [], (typed, hint)
    assert offered > 15


def test_b10_a_slip_still_gets_its_hint() -> None:
    """The control: a mistyped word is what was meant"""
    found = {typed: hints(typed) for typed in ("every wekday at 9am", "evrey monday at 9", "every tuseday at 9am",
                                               "tomorow at 9am", "every wendesday at 9am", "every 5 mintues")
             }  # fmt: skip
    assert found == {
        "every wekday at 9am": ["every weekday at 9am"],
        "evrey monday at 9": ["every monday at 9"],
        "every tuseday at 9am": ["every tuesday at 9am"],
        "tomorow at 9am": ["tomorrow at 9am"],
        "every wendesday at 9am": ["every wednesday at 9am"],
        "every 5 mintues": ["every 5 minutes"],
    }


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("never on sunday at 9am", []),
        ("non-weekdays at 9am", []),
        ("non weekdays at 9am", []),
        ("every non-weekday at 9am", []),
        ("half-hourly", ["every 30 minutes"]),
        ("quarter-hourly", ["every 15 minutes"]),
        ("semi-annually", ["every 6 months on the 1st at 09:00"]),
        ("biannually at 8am", ["every 6 months on the 1st at 8am"]),
        ("semi-weekly on friday at 9am", []),
        ("tri-weekly", ["every monday, wednesday and friday at 09:00", "every 3 weeks on monday at 09:00"]),
        ("every quarter hour", ["every 15 minutes"]),
        ("every quarter on friday at 9am", []),
        ("12 noon", ["every day at noon"]),
    ],
)
def test_b10_periods(typed: str, offered: list[str]) -> None:
    """B10: a hint says what was said, or there is none"""
    assert hints(typed) == offered
    for phrase in offered:
        parse_trigger(phrase, now_ms=NOW)


@pytest.mark.parametrize(
    ("typed", "same"),
    [
        ("2H", "2h"),
        ("1H30M", "1h30m"),
        ("1D", "1d"),
        ("every day at 12 noon", "every day at noon"),
        ("every day at 12 midnight", "every day at midnight"),
    ],
)
def test_b10_read_as_they_are_meant(typed: str, same: str) -> None:
    assert parse_trigger(typed, now_ms=NOW).definition == parse_trigger(same, now_ms=NOW).definition


@pytest.mark.parametrize("part", ["BYMINUTE=5", "BYHOUR=9"])
def test_b10_a_date_has_no_time(part: str) -> None:
    """RFC 5545, 3.3.10: not beside a DTSTART that is a date; the hint works"""
    with pytest.raises(TriggerError) as caught:
        parse_trigger(f"DTSTART:20260401 RRULE:FREQ=DAILY;{part}", now_ms=NOW)
    assert "is a date" in caught.value.message
    assert parse_trigger(f"DTSTART:20260401T000000 RRULE:FREQ=DAILY;{part}", now_ms=NOW)
