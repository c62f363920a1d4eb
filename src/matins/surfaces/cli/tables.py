"""Tables and lists of fields, fitted to the width of the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import zip_longest
from typing import Any, NamedTuple

from matins.surfaces.cli.terminal_text import cells, fitted, fitted_ends, one_line, padded, wrapped

_GAP = "  "
_NARROWEST = 20


class Cell(NamedTuple):
    text: str
    colour: str | None = None
    """Colour adds to the text, and never replaces it."""
    short: str | None = None
    """What is shown where the text has no room: the part that matters."""


class Layout(NamedTuple):
    """How a column gives way where the terminal is narrow."""

    least: int | None = None
    """The minimum width; None for a column that gives way last, because people copy its values."""
    wraps: bool = False
    """Whether a long text continues on the next line instead of being cut."""
    middle: bool = False
    """Whether a long text is cut in its middle: the ends of names tell them apart."""


class Column:
    """A column: its title, and the cell of each item. No named tuple: checkers do not know lambdas in one."""

    def __init__(
        self,
        title: str,
        value: str | Callable[[dict[str, Any], datetime], str | Cell],
        least: int | None = None,
        *,
        right: bool = False,
        wraps: bool = False,
        middle: bool = False,
    ) -> None:
        """`value` is a field of an item, or the cell of an item at a time."""
        self.title = title
        self.right = right
        self.layout = Layout(least, wraps, middle)
        self._value = value

    def cell(self, item: dict[str, Any], now: datetime) -> str | Cell:
        if not isinstance(self._value, str):
            return self._value(item, now)
        value = item[self._value]
        return "–" if value in (None, "") else str(value)


LAYOUTS: Mapping[str, Mapping[str, Layout]] = {
    "budgets": {
        "NAME": Layout(10, middle=True), "FOR": Layout(10, middle=True),
        "SPENT": Layout(17, wraps=True), "LIMIT": Layout(17, wraps=True),
    },
    "chat": {"CHANNELS": Layout(12)},
    "destinations": {"TO": Layout(20, middle=True)},
    "hooks": {"COMMAND": Layout(20)},
    "inbound": {"PATH": Layout(12, middle=True), "EVENTS": Layout(10)},
    "limits": {"SCOPE": Layout(10, middle=True)},
    "prices": {"MODEL": Layout(20, middle=True)},
    "quiet_hours": {"WINDOWS": Layout(20, wraps=True)},
    "throttles": {"AGENTS": Layout(8), "REASON": Layout(10)},
    "webhooks": {"URL": Layout(20, middle=True), "EVENTS": Layout(10)},
    "work_sources": {"SOURCE": Layout(12, middle=True), "LABELS": Layout(8)},
}  # fmt: skip
"""The columns of records that are cut or wrapped before names are, by noun and title."""


def table(
    columns: Sequence[Column], rows: Iterable[Sequence[str | Cell]], width: int | None, *, colour: bool = False
) -> list[str]:
    """The lines of the table with a header, at most `width` columns wide."""
    head = [Cell(column.title, "bold") for column in columns]
    lines = [head, *([_cell(item) for item in row] for row in rows)]
    lines, widths = _arranged(columns, lines, width)
    return [text for line in lines for text in _lines(columns, line, widths, colour)]


def _cell(item: str | Cell) -> Cell:
    return Cell(one_line(item)) if isinstance(item, str) else item._replace(text=one_line(item.text))


def _arranged(
    columns: Sequence[Column], lines: list[list[Cell]], width: int | None
) -> tuple[list[list[Cell]], list[int]]:
    """The lines and the widths of their columns. Texts are cut first, then short ones are taken, and names are cut
    last: an hour is worth more than the end of a sentence.
    """
    widths = _natural(lines)
    if width is None or _total(widths) <= width:
        return lines, widths
    for shorter in (lines, *_shortened(lines)):
        lines, widths = shorter, _shrunk(_natural(shorter), [column.layout.least for column in columns], width)
        if _total(widths) <= width:
            return lines, widths
    return lines, _shrunk(widths, [1] * len(columns), max(width, _NARROWEST))


def _natural(lines: list[list[Cell]]) -> list[int]:
    return [max(cells(line[n].text) for line in lines) for n in range(len(lines[0]))]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _shortened(lines: list[list[Cell]]) -> Iterator[list[list[Cell]]]:
    """The lines with the short texts of one more column each time, from the right."""
    for column in reversed(range(len(lines[0]))):
        if any(line[column].short is not None for line in lines):
            lines = [[*line[:column], _short(line[column]), *line[column + 1 :]] for line in lines]
            yield lines


def _short(cell: Cell) -> Cell:
    return cell if cell.short is None else cell._replace(text=cell.short, short=None)


def _shrunk(natural: list[int], least: Sequence[int | None], width: int) -> list[int]:
    """The widths of the columns. The widest column shrinks first."""
    widths = list(natural)
    for _ in range(_total(widths) - width):
        able = [n for n, size in enumerate(least) if size is not None and widths[n] > size]
        if not able:
            break
        widths[max(able, key=lambda n: widths[n])] -= 1
    return widths


def _lines(columns: Sequence[Column], line: list[Cell], widths: list[int], colour: bool) -> list[str]:
    parts = [
        [cell._replace(text=text) for text in wrapped(cell.text, size)] if column.layout.wraps else [cell]
        for column, cell, size in zip(columns, line, widths, strict=True)
    ]
    rows = zip_longest(*parts, fillvalue=Cell(""))
    return [_line(columns, list(row), widths, colour) for row in rows]


def _line(columns: Sequence[Column], line: list[Cell], widths: list[int], colour: bool) -> str:
    parts = [
        _styled(padded(_cut(column.layout, cell.text, size), size, right=column.right), cell.colour if colour else None)
        for column, cell, size in zip(columns, line, widths, strict=True)
    ]
    return _GAP.join(parts).rstrip()


def _cut(layout: Layout, text: str, size: int) -> str:
    return fitted_ends(text, size) if layout.middle or layout.least is None else fitted(text, size)


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
