"""Suggestions for a refused phrase: its words, corrected, or the nearest example."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from itertools import islice

from matins.engine.english.grammar import Grammar, Reading
from matins.engine.english.phrase_values import join
from matins.engine.when.definitions import clock_text

_MAX_WORDS = 30
_MAX_EDITS = 3
_MAX_INSERTIONS = 8
_LIKENESS = 0.65
_SAME_WORD = 0.7
_SMALL_WORDS = frozenset(["at", "on", "the", "of", "and", ",", "a", "an", "in", "every", "each", "starting", "once",
                          "please", "exactly", "sharp"])  # fmt: skip
_FILLED_IN = frozenset(["09:00", "1st", "1"])
"""What a suggestion adds where a day or a time is missing."""
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
    """Whether a suggestion says what the words say: the same numbers and times, days and months, and each other word or
    one like it. It may add to them."""
    missing = [word for word in words if word not in phrase and word not in _SMALL_WORDS]
    free = [word for word in phrase if word not in words]
    for word in missing:
        time = corrected_time(word)
        alike = [time] if time in free else get_close_matches(word, free, 1, _SAME_WORD)
        if not alike or (word[0].isdigit() and alike != [time]):
            return False
        free.remove(alike[0])
    return not any(word[0].isdigit() and word not in _FILLED_IN for word in free)
