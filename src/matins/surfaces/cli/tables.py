"""Tables and lists of fields, fitted to the width of the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple

from matins.surfaces.cli.terminal_text import cells, fitted, fitted_ends, one_line, padded, wrapped

_GAP = "  "
_NARROWEST = 20


class Cell(NamedTuple):
    text: str
    colour: str | None = None
    """Colour adds to the text, and never replaces it."""


class Column(NamedTuple):
    title: str
    least: int | None = None
    """The minimum width; None for a column that is never cut, because people copy its values."""
    right: bool = False
    wraps: bool = False
    """Whether a long text continues on the next line instead of being cut."""
    middle: bool = False
    """Whether a long text is cut in its middle: the ends of names tell them apart."""


def table(
    columns: Sequence[Column], rows: Iterable[Sequence[str | Cell]], width: int | None, *, colour: bool = False
) -> list[str]:
    """The lines of the table with a header, at most `width` columns wide if the columns allow it."""
    lines = [[_cell(item) for item in row] for row in rows]
    head = [Cell(column.title, "bold") for column in columns]
    natural = [max(cells(line[n].text) for line in [head, *lines]) for n in range(len(columns))]
    widths = _shrunk(columns, natural, width)
    return [text for line in [head, *lines] for text in _lines(columns, line, widths, width, colour)]


def _cell(item: str | Cell) -> Cell:
    return Cell(one_line(item)) if isinstance(item, str) else item._replace(text=one_line(item.text))


def _shrunk(columns: Sequence[Column], natural: list[int], width: int | None) -> list[int]:
    """The widths of the columns. The widest column shrinks first."""
    widths = list(natural)
    over = 0 if width is None else sum(widths) + len(_GAP) * (len(widths) - 1) - width
    while over > 0:
        able = [n for n, column in enumerate(columns) if column.least is not None and widths[n] > column.least]
        if not able:
            break
        widths[max(able, key=lambda n: widths[n])] -= 1
        over -= 1
    return widths


def _lines(
    columns: Sequence[Column], line: list[Cell], widths: list[int], width: int | None, colour: bool
) -> list[str]:
    parts = [
        [cell._replace(text=text) for text in wrapped(cell.text, size)] if column.wraps else [cell]
        for column, cell, size in zip(columns, line, widths, strict=True)
    ]
    rows = zip_longest(*parts, fillvalue=Cell(""))
    return [_line(columns, list(row), widths, width, colour) for row in rows]


def _line(columns: Sequence[Column], line: list[Cell], widths: list[int], width: int | None, colour: bool) -> str:
    parts = [
        _styled(padded(_cut(column, cell.text, size), size, right=column.right), cell.colour if colour else None)
        for column, cell, size in zip(columns, line, widths, strict=True)
    ]
    text = _GAP.join(parts).rstrip()
    return text if width is None or colour else fitted(text, max(width, _NARROWEST))


def _cut(column: Column, text: str, size: int) -> str:
    return fitted_ends(text, size) if column.middle else fitted(text, size)


def _styled(text: str, colour: str | None) -> str:
    if colour is None:
        return text
    import click

    return click.style(text, bold=True) if colour == "bold" else click.style(text, fg=colour)


def fields(pairs: Iterable[tuple[str, object]], width: int | None) -> list[str]:
    """Lines of `label  value`. Long values continue below, and empty ones are left out."""
    shown = [(one_line(label), one_line(value)) for label, value in pairs if value not in (None, "")]
    margin = max((cells(label) for label, _ in shown), default=0) + len(_GAP)
    available = None if width is None else max(width - margin, _NARROWEST)
    lines: list[str] = []
    for label, value in shown:
        first, *rest = wrapped(value, available)
        lines.append((padded(label, margin) + first).rstrip())
        lines += [" " * margin + line for line in rest]
    return lines
