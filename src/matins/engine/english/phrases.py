"""English schedules: "every weekday at 9am". The grammar in `phrases.ebnf` uses every word, or refuses the phrase."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import resources

from matins.engine.english import errors
from matins.engine.english.errors import reason_of
from matins.engine.english.grammar import Grammar, Reading, load_grammar
from matins.engine.english.meanings import meaning_of
from matins.engine.english.values import Context, InvalidPhraseError, join, listed, respelled
from matins.engine.when.zones import Zone
from matins.errors import PhraseError
from matins.model.trigger import When

_WORD = re.compile(r"[^\s,]+|,")
_MAX_EXPECTED = 8
_EXAMPLES = 'Write it like "every weekday at 9am", "every 2 hours" or "tomorrow at 14:00", or as a cron expression.'


@dataclass(frozen=True, slots=True)
class PhraseMeaning:
    """The meaning of a phrase, and notes about its reading."""

    when: When
    notes: tuple[str, ...] = ()


@cache
def phrase_grammar() -> Grammar:
    return load_grammar(resources.files("matins.engine.english").joinpath("phrases.ebnf").read_text("utf-8"))


def parse_phrase(text: str, *, now_ms: int, zone: Zone) -> PhraseMeaning:
    """The meaning of a phrase given at `now_ms`; PhraseError names the word that cannot be used."""
    try:
        return _read(text, now_ms, zone)
    except InvalidPhraseError as refusal:
        hint = _hint(text, refusal, lambda phrase: _works(phrase, now_ms, zone))
        raise PhraseError(_ended(refusal.message), value=refusal.value, hint=hint) from None


def _ended(message: str) -> str:
    return message if message.endswith("…") else f"{message}."


def split_words(text: str) -> list[str]:
    """Lower-case words, with each comma as a word. Characters that no phrase has are refused by name."""
    for word in _WORD.findall(text):
        if word.isascii():
            continue
        plain = "".join(str(unicodedata.digit(c, c)) for c in word)
        if plain != word:
            message = f'"{word}" is not written with the digits 0 to 9'
            raise InvalidPhraseError(message, word, text.replace(word, plain))
        odd = next(c for c in word if not c.isascii())
        raise InvalidPhraseError(f'"{word}" cannot be used: no phrase has the character "{odd}"', word)
    return _WORD.findall(text.lower())


def _read(text: str, now_ms: int, zone: Zone) -> PhraseMeaning:
    words = split_words(text)
    if not words:
        raise InvalidPhraseError("The phrase is empty", text)
    reading = phrase_grammar().parse("phrase", words)
    if not reading.trees and (others := respelled(words)) != words:
        again = phrase_grammar().parse("phrase", others)
        if again.trees or phrase_grammar().parse("refused", others).trees:
            words, reading = others, again  # otherwise the error is about the words as they are written
    context = Context(words, now_ms, zone)
    if not reading.trees:
        understood = phrase_grammar().parse("refused", reading.words).trees
        if understood:  # for a reason that the grammar knows
            raise reason_of(understood[0], context)
        raise InvalidPhraseError(_broken_off(reading), [*reading.words, ""][reading.farthest] or reading.words[-1])
    return _meaning(reading, context)


def _meaning(reading: Reading, context: Context) -> PhraseMeaning:
    meanings = [meaning_of(tree, context) for tree in reading.trees]
    if any(meaning != meanings[0] for meaning in meanings):
        raise AssertionError(f"the grammar reads {join(reading.words)!r} in two ways")
    return PhraseMeaning(meanings[0], tuple(context.notes))


def _broken_off(reading: Reading) -> str:
    words, at = reading.words, reading.farthest
    wanted = [f'"{name}"' if is_word else name for name, is_word in reading.wanted.items()]
    if reading.could_end:
        wanted.append("nothing more")
    if len(wanted) > _MAX_EXPECTED:
        wanted[_MAX_EXPECTED - 1 :] = ["…"]
    expected = f"expected {listed(wanted, 'or')}"
    if at == len(words):
        return f'"{join(words)}" is not complete: after "{words[-1]}" {expected}'
    fault = errors.time_problem(words[at])
    if fault and any(name.startswith("a time") for name in reading.wanted):
        return f'"{words[at]}" is not a time: {fault}'
    place = f'after "{words[at - 1]}"' if at else "at the beginning"
    return f'"{words[at]}" cannot be used {place}: {expected}'


def _works(phrase: str, now_ms: int, zone: Zone) -> bool:
    try:
        reading = phrase_grammar().parse("phrase", split_words(phrase))
        if reading.trees:
            _meaning(reading, Context(reading.words, now_ms, zone))
    except InvalidPhraseError:
        return False
    return bool(reading.trees)


def _hint(text: str, refusal: InvalidPhraseError, works: Callable[[str], bool]) -> str:
    offered = [f'"{phrase}"' for phrase in refusal.instead if works(phrase)]
    if offered:
        together = f"Make {len(offered)} schedules: {listed(offered)}."
        return together if refusal.all_needed else f"Did you mean {listed(offered[:2], 'or')}?"
    if not text.isascii():
        return _EXAMPLES
    words = split_words(text)
    with suppress(InvalidPhraseError):  # its own suggestions were of no use
        words = respelled(words)

    def keeps(phrase: str) -> bool:
        return errors.keeps_meaning(words, split_words(phrase)) and works(phrase)

    corrected = errors.corrected(words, phrase_grammar(), keeps)
    return _EXAMPLES if corrected is None else f'Did you mean "{corrected}"?'
