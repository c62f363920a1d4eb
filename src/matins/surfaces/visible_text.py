"""Text of others, safe to show: control and invisible characters are written out."""

from __future__ import annotations

import re
import unicodedata

_HARMFUL = frozenset(["Cc", "Cf", "Cs", "Zl", "Zp"])
"""Controls, invisible characters (direction, joiners, tags), surrogates, and other line ends."""
_ESCAPE_CODE = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]"  # colours and the cursor
    "|\x1b[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)?"  # titles, links, the clipboard
    "|\x1b[ -/]*[0-~]?"
    "|\x9b[0-?]*[ -/]*[@-~]"
)
_LINE_END = re.compile("\r\n?")


def one_line(text: object) -> str:
    """The text on one line, with control and invisible characters escaped."""
    return _written_out(" ".join(str(text).split()))


def block(text: str) -> str:
    """The lines, with control characters escaped."""
    lines = _LINE_END.sub("\n", text).split("\n")
    return "\n".join(_written_out(line.expandtabs(4)) for line in lines)


def as_data(text: str) -> str:
    """The text as it is, with control and invisible characters escaped, except line ends and tabs."""
    return "".join(_escaped(c) if c not in "\n\t" and is_harmful(c) else c for c in text)


def without_codes(text: str) -> str:
    """The output of a program, without colours and cursor movements."""
    return block(_ESCAPE_CODE.sub("", text))


def _written_out(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(c) if is_harmful(c) else c for c in text)


def is_harmful(character: str) -> bool:
    return character == "\x7f" or unicodedata.category(character) in _HARMFUL


def _escaped(character: str) -> str:
    number = ord(character)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
