"""Tables, states, text that is safe in a terminal.

Tables and lists of fields, fitted to the width of the terminal.

States as text, with a mark and, if the terminal has colours, a colour.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import zip_longest
from typing import Any, NamedTuple, cast

from matins.surfaces.cli.times import local, relative_time, when
from matins.surfaces.display import one_line

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


_RUNS = {
    "queued": ("◌", None),
    "ready": ("◌", None),
    "running": ("▸", "cyan"),
    "held": ("?", "yellow"),
    "succeeded": ("✓", "green"),
    "failed": ("✗", "red"),
    "skipped": ("↷", "yellow"),
    "missed": ("↷", "yellow"),
    "cancelled": ("⊘", None),
    "denied": ("⊘", "red"),
    "blocked": ("⊘", "yellow"),
    "expired": ("⊘", "yellow"),
    "interrupted": ("✗", "yellow"),
    "unknown": ("?", "yellow"),
    "over_budget": ("✗", "red"),
}
_SCHEDULES = {"paused": "yellow", "pending": "magenta", "rejected": "red", "broken": "red"}
_MISSIONS = {
    "active": ("▸", "cyan"),
    "paused": ("‖", "yellow"),
    "completed": ("✓", "green"),
    "failed": ("✗", "red"),
    "cancelled": ("⊘", None),
    "draft": ("◌", None),
}
_WAITS = "awaiting_approval"


def waits_for_approval(run: dict[str, Any]) -> bool:
    return run["state"] == "waiting" and run["status"] == _WAITS


def run_state(run: dict[str, Any]) -> Cell:
    """The state of a run; if it waits, the reason."""
    if waits_for_approval(run):
        return Cell("◆ needs approval", "magenta")
    if run["state"] == "waiting":
        return Cell(f"◌ waits: {state_text(run['status'])}", "yellow")
    if run["state"] == "succeeded" and run["reason"] == "with_denials":
        return Cell("✓ with denials", "yellow")
    mark, colour = _RUNS.get(run["state"], ("·", None))
    return Cell(f"{mark} {state_text(run['state'])}", colour)


def last_run(run: dict[str, Any] | None, at: datetime) -> Cell:
    if run is None:
        return Cell("–")
    state = run_state(run)
    if run["live"]:
        return state
    since = run["ended_at"] or run["started_at"] or run["slot"] or run["planned_at"]
    ago = relative_time(since, at)
    return state._replace(text=f"{state.text} {ago}", short=f"{state.text[0]} {ago}")


def moment(text: str | None, at: datetime) -> Cell:
    """An instant in a table: in 3h (09:00); where that has no room, 09:00."""
    return Cell("–") if text is None else Cell(when(text, at), short=local(text, at))


def next_run(schedule: dict[str, Any], at: datetime) -> Cell:
    """The time of the next run, or the reason why there is none."""
    if schedule["state"] == "active":
        return moment(schedule["next_run_at"], at)
    return schedule_state(schedule)


def schedule_state(schedule: dict[str, Any]) -> Cell:
    state = schedule["state"]
    if state == "pending":
        return Cell("◆ needs approval", "magenta")
    mark = {"active": "✓", "paused": "‖", "rejected": "⊘", "broken": "✗"}.get(state, "·")
    return Cell(f"{mark} {state}", _SCHEDULES.get(state))


def mission_status(mission: dict[str, Any]) -> Cell:
    status = mission["status"]
    mark, colour = _MISSIONS.get(status, ("·", None))
    return Cell(f"{mark} {status}", colour)


def gate_verdict(passes: bool | None) -> Cell:
    """The verdict of a gate; None if it is known only when the run starts."""
    if passes is None:
        return Cell("? asks", "yellow")
    return Cell("✓ passes", "green") if passes else Cell("✗ stops", "red")


def state_text(name: str) -> str:
    """The text of a state, reason or setting: `over budget` for `over_budget`."""
    return name.replace("_", " ")
