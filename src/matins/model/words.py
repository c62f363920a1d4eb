"""Words: numbers of things, sentences, characters that do not show, and the mark of what others wrote.

Sentences of Matins, and the words of others that belong to them.

A sentence holds names, times and codes. What a tool, a check or a person wrote is its quote: a surface for people joins
both, and an agent sees the quote only of what is its own.

Characters that people cannot see, or that change what they see. Every surface writes them out.

The mark of content: words that Matins did not write, of tools, checks, people and other systems.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Annotated, NamedTuple, TypeVar

_ROUNDED = 0.1


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 run`, `1,440 runs`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def runs_per_period(per_day: float) -> str:
    """`5 runs a week` rather than 0.7 runs a day."""
    for days, period in ((1, "day"), (7, "week"), (30, "month"), (365, "year")):
        count = round(per_day * days)
        if count and abs(per_day * days - count) < _ROUNDED * count:
            return f"{counted(count, 'run')} a {period}"
    return f"{per_day:g} runs a day" if per_day else "no run"


class Sentence(NamedTuple):
    text: str
    quote: str | None = None

    @property
    def joined(self) -> str:
        return joined(self.text, self.quote)


def joined(text: str, quote: str | None) -> str:
    """The sentence with its quote at the end."""
    if not quote:
        return text
    return f"{text.removesuffix('.')}: {quote.rstrip('.')}{'.' if text.endswith('.') else ''}"


def with_command(text: str, quote: str | None, command: str | None) -> str:
    """What became of an answer, and how it is sent again."""
    told = joined(text, quote)
    return told if command is None else f"{told} To send it again: {command}"


HIDDEN_CATEGORIES = frozenset(["Cc", "Cf", "Cs", "Zl", "Zp"])
"""Controls, format characters (direction, joiners, tags), surrogates, and line ends that are not "\\n"."""
DEFAULT_IGNORABLE = (
    (0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F),
    (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)  # fmt: skip
"""Unicode's Default_Ignorable_Code_Point: fonts show nothing for them. Fillers and selectors of a variant have other
categories than format characters."""
BLANK = frozenset("\u2800\ufffc\U00013441\U00013442\U00016fe4\U0001d159")
"""Letters and symbols without ink: Braille, a placeholder, hieroglyphs, Khitan, a note."""
_EMOJI = "\ufe0f"
"""It asks for the coloured form of the symbol before it."""
_ODD = re.compile("[^ -~]")
"""Most texts have no such character, and need no closer look."""


def is_hidden(character: str) -> bool:
    if " " <= character <= "~":
        return False
    number = ord(character)
    return (
        unicodedata.category(character) in HIDDEN_CATEGORIES
        or character in BLANK
        or any(first <= number <= last for first, last in DEFAULT_IGNORABLE)
    )


def write_out(text: str, written: Callable[[str], str], keep: str = "") -> str:
    """The text with `written` in the place of each hidden character, except those of `keep`.

    One U+FE0F directly after a symbol stays: it is a part of many emoji.
    """
    if text.isascii() and text.isprintable():
        return text

    def replaced(found: re.Match[str]) -> str:
        character = found[0]
        if character in keep or not is_hidden(character):
            return character
        if character == _EMOJI and found.start() > 0:
            before = text[found.start() - 1]
            if before > "~" and unicodedata.category(before).startswith("S") and not is_hidden(before):
                return character
        return written(character)

    return _ODD.sub(replaced, text)


def has_hidden(text: str) -> bool:
    """Whether `write_out` would change the text."""
    return write_out(text, lambda _: "") != text


T = TypeVar("T")


class ContentMark:
    """Marks a field of a result. An agent sees the field only of what is its own; over MCP it stands between marks."""


CONTENT = ContentMark()
Content = Annotated[T, CONTENT]
