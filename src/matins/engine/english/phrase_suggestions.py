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
    return _adds_nothing(words, phrase) and all(word in _FILLED_IN for word in free)


def _adds_nothing(words: list[str], phrase: list[str]) -> bool:
    """Whether no word that joins two others is more often there than before: "12 noon" is not "12 and noon"."""
    return all(phrase.count(word) <= words.count(word) for word in ("and", ",", "except"))


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
