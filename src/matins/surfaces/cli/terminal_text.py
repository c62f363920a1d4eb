"""Text that is safe for a terminal, and fitted to its width."""

from __future__ import annotations

import unicodedata
from typing import Any, cast

from matins.surfaces.visible_text import block as block
from matins.surfaces.visible_text import one_line as one_line
from matins.surfaces.visible_text import without_codes as without_codes

_MORE = "…"
_MARKS_EACH = 4
_SHORTEST_ENDS = 5


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


def fitted_ends(text: str, width: int) -> str:
    """The text cut to a width, with … in its middle if it was longer."""
    if cells(text) <= width or width < _SHORTEST_ENDS:
        return fitted(text, width)
    end = fitted(text[::-1], (width - 1) // 2 + 1).removesuffix(_MORE)[::-1].lstrip()
    while end and not _cells_of(end[0]):  # a mark whose letter was cut away
        end = end[1:]
    return fitted(text, width - cells(end)) + end


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
