"""Text that is safe for a terminal, and fitted to its width."""

from __future__ import annotations

import re
import unicodedata
from typing import Any, cast

_HARMFUL = frozenset(["Cc", "Cf", "Cs", "Zl", "Zp"])
"""Controls, invisible characters (direction, joiners, tags), surrogates, and other line ends."""
_ESCAPE_CODE = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]"  # colours and the cursor
    "|\x1b[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)?"  # titles, links, the clipboard
    "|\x1b[ -/]*[0-~]?"
    "|\x9b[0-?]*[ -/]*[@-~]"
)
_LINE_END = re.compile("\r\n?")
_MORE = "…"
_MARKS_EACH = 4


def one_line(text: object) -> str:
    """The text on one line, with control and invisible characters escaped."""
    return _written_out(" ".join(str(text).split()))


def block(text: str) -> str:
    """The lines, with control characters escaped."""
    lines = _LINE_END.sub("\n", text).split("\n")
    return "\n".join(_written_out(line.expandtabs(4)) for line in lines)


def without_codes(text: str) -> str:
    """The output of a program, without colours and cursor movements."""
    return block(_ESCAPE_CODE.sub("", text))


def plain(value: Any) -> str:
    """Any value of a document on one line."""
    match value:
        case str():
            return one_line(value)
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(plain(item) for item in cast("list[Any]", value))
        case dict():
            return ", ".join(f"{one_line(word)}: {plain(item)}" for word, item in cast("dict[str, Any]", value).items())
        case _:
            return one_line(value)


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


def cells(text: str) -> int:
    """The width of a text in columns of a terminal."""
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def _cells_of(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fitted(text: str, width: int) -> str:
    """The text cut to a width, with … at its end if it was longer."""
    if cells(text) <= width and len(text) <= width * _MARKS_EACH:
        return text
    kept, left = "", width - 1
    for character in text[: width * _MARKS_EACH]:
        left -= _cells_of(character)
        if left < 0:
            break
        kept += character
    return kept.rstrip() + _MORE if width > 0 else ""


def padded(text: str, width: int, *, right: bool = False) -> str:
    gap = " " * (width - cells(text))
    return gap + text if right else text + gap


def wrapped(text: str, width: int | None) -> list[str]:
    """Lines of at most `width` columns, broken at spaces."""
    if width is None or cells(text) <= width:
        return [text]
    lines = [""]
    for word in text.split(" "):
        for piece in _pieces(word, width):
            longer = f"{lines[-1]} {piece}" if lines[-1] else piece
            if cells(longer) <= width:
                lines[-1] = longer
            else:
                lines.append(piece)
    return lines


def _pieces(word: str, width: int) -> list[str]:
    """The parts of a word, each of which fits on a line."""
    pieces = [""]
    for character in word:
        if pieces[-1] and cells(pieces[-1]) + _cells_of(character) > width:
            pieces.append("")
        pieces[-1] += character
    return pieces
