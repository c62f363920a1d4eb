"""What every command has at hand: whoever answers, and how the answer is told."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import click

from matins.surfaces.cli import times
from matins.surfaces.cli.tables import Cell, Column, fields, table
from matins.surfaces.cli.telling import CANCELLED
from matins.surfaces.cli.text import block, is_harmful

if TYPE_CHECKING:
    from matins.surfaces.door import Door

_BEYOND = re.compile("[\x7f-\U0010ffff]")


class App(Protocol):
    """What the composition root gives to the command line."""

    def door(self, store: str | None, url: str | None, token: str | None, home: str | None) -> Door: ...

    def up(
        self, store: str | None, file: str | None, host: str, port: int | None, home: str | None, log: str, demo: bool
    ) -> None: ...

    def systemd_unit(self, store: str | None, file: str | None, home: str | None) -> str: ...


class Desk:
    def __init__(self, app: App) -> None:
        self.app = app
        self.as_json = False
        self.place: dict[str, str | None] = {"store": None, "url": None, "token": None, "home": None}

    # -- questions

    @cached_property
    def door(self) -> Door:
        return self.app.door(**self.place)

    def ask(self, use_case: str, /, **arguments: Any) -> Any:
        """Have a use case done; what is None is left out."""
        return self.door.call(use_case, **{name: value for name, value in arguments.items() if value is not None})

    # -- answers

    def show(self, document: Any, as_text: Callable[[], str | Iterable[str]]) -> None:
        """The answer itself, on stdout: for people, or as the document that it is."""
        self.out(_json(document, indent=2 if self.on_terminal else None) if self.as_json else _joined(as_text()))

    def show_line(self, document: Any, as_text: Callable[[], str]) -> None:
        """One of many answers, each on a line of its own."""
        self.out(_json(document) if self.as_json else as_text())

    def out(self, text: str) -> None:
        click.echo(text, color=self.colour or None)

    def tell(self, text: str) -> None:
        """What is not the answer."""
        click.echo(block(text), err=True)

    def tell_if_nothing_runs(self) -> None:
        """Whoever looks at what is to come should know that nobody will do it."""
        if not self.ask("stats")["running"]:
            self.tell("Nothing runs yet: start the daemon with matins up")

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[str | Cell]]) -> list[str]:
        return table(columns, rows, self.width, colour=self.colour)

    def fields(self, *pairs: tuple[str, object]) -> list[str]:
        return fields(pairs, self.width)

    def painted(self, cell: Cell) -> str:
        return click.style(cell.text, fg=cell.colour) if self.colour and cell.colour else cell.text

    def confirm(self, question: str, *, yes: bool) -> None:
        """Whoever types is asked, unless they have said yes already; a no ends it."""
        if not yes and self.somebody_types and not click.confirm(question, err=True):
            self.tell("Nothing is done.")
            raise click.exceptions.Exit(CANCELLED)

    # -- where it is read

    @cached_property
    def now(self) -> datetime:
        return times.now()

    def when(self, at: str | None) -> str:
        return times.when(at, self.now)

    def until(self, at: str) -> str:
        """Mon 09:00 (in 3d)."""
        return f"{times.local(at, self.now)} ({self.away(at)})"

    def away(self, at: str) -> str:
        return times.away(at, self.now)

    @property
    def width(self) -> int | None:
        """Of the terminal; what goes to a file or a program is not cut."""
        if os.environ.get("COLUMNS", "").isdigit() or self.on_terminal:
            return shutil.get_terminal_size().columns
        return None

    @property
    def colour(self) -> bool:
        return self.on_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    @property
    def on_terminal(self) -> bool:
        return sys.stdout.isatty()

    @property
    def somebody_types(self) -> bool:
        return sys.stdin.isatty() and sys.stderr.isatty()

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)


def _joined(text: str | Iterable[str]) -> str:
    return text if isinstance(text, str) else "\n".join(text)


def _json(document: Any, indent: int | None = None) -> str:
    """What is not seen is written out, so that no terminal obeys it either."""
    text = json.dumps(document, ensure_ascii=False, indent=indent)
    return _BEYOND.sub(lambda found: json.dumps(found[0])[1:-1] if is_harmful(found[0]) else found[0], text)
