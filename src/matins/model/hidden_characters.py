"""Characters that people cannot see, or that change what they see. Every surface writes them out."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

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
        is_part = character == _EMOJI and found.start() > 0 and _is_symbol(text[found.start() - 1])
        return character if is_part else written(character)

    return _ODD.sub(replaced, text)


def has_hidden(text: str) -> bool:
    """Whether `write_out` would change the text."""
    return write_out(text, lambda _: "") != text


def _is_symbol(character: str) -> bool:
    return character > "~" and unicodedata.category(character).startswith("S") and not is_hidden(character)
