"""The context of every command: the transport of its calls, and the output."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import click

from matins.model.hidden_characters import write_out
from matins.surfaces.cli import times
from matins.surfaces.cli.errors import CANCELLED
from matins.surfaces.cli.states import moment
from matins.surfaces.cli.tables import Cell, Column, fields, table
from matins.surfaces.cli.terminal_text import block, one_line, wrapped

if TYPE_CHECKING:
    from matins.api.use_case import Caller, Transport, UseCase
    from matins.model.access import Principal

Document = dict[str, Any]


@runtime_checkable
class EventStream(Protocol):
    """A transport that sends live events. Other transports are polled."""

    def follow_documents(self, arguments: Mapping[str, Any]) -> Generator[Document]: ...


class App(Protocol):
    """The interface of the composition root to the command line."""

    def transport(self, store: str | None, url: str | None, token: str | None, home: str | None) -> Transport: ...

    def up(
        self, store: str | None, file: str | None, host: str, port: int | None, home: str | None, log: str
    ) -> None: ...

    def demo(self, home: str | None, port: int | None) -> None: ...

    def init(
        self, home: str | None, folder: str | None, account: Mapping[str, str], *, examples: bool
    ) -> tuple[str, list[str]]: ...

    def serve_mcp(
        self,
        client: str,
        toolset: str | None,
        serve_store: Callable[[Caller, Principal, str], None],
        store: str | None = None,
        url: str | None = None,
        token: str | None = None,
        home: str | None = None,
    ) -> None: ...

    def file_schema(self) -> str: ...

    def systemd_unit(self, store: str | None, file: str | None, home: str | None) -> str: ...

    def local_zone(self) -> str: ...


class CliContext:
    def __init__(self, app: App) -> None:
        self.app = app
        self.as_json = False
        self.location: dict[str, str | None] = {"store": None, "url": None, "token": None, "home": None}
        """The values of the options `--store`, `--url`, `--token` and `--home`."""

    # -- calls

    @cached_property
    def transport(self) -> Transport:
        return self.app.transport(**self.location)

    @property
    def where(self) -> str:
        """What the calls reach, for people: the daemon at a URL, or the store at a path."""
        return getattr(self.transport, "described", "this store")

    def call(self, use_case: str, /, **arguments: Any) -> Any:
        """The document of a use case; arguments that are None are left out."""
        return self.send(use_case, {name: value for name, value in arguments.items() if value is not None})

    def send(self, use_case: str, arguments: Mapping[str, Any]) -> Any:
        """The document of a use case for exactly these arguments: in an edit, None resets a setting."""
        if arguments.get("timezone") == "local":  # of whoever types, not of the daemon
            arguments = {**arguments, "timezone": self.app.local_zone()}
        return self.transport.document(use_cases()[use_case], arguments)

    def zone_for(self, when: str | None, settings: Mapping[str, Any]) -> Document:
        """The caller's time zone as a setting, unless the settings or the text of the trigger have one."""
        from matins.engine.when.named_zones import names_zone  # few commands need it

        if when is None or settings.get("timezone") is not None or names_zone(when):
            return {}
        return {"timezone": self.app.local_zone()}

    # -- results

    def show(self, document: Any, as_text: Callable[[], str | Iterable[str]]) -> None:
        """Print the result to stdout, as text or as the document."""
        self.out(json_text(document, indent=2 if self.on_terminal else None) if self.as_json else _joined(as_text()))

    def show_line(self, document: Any, as_text: Callable[[], str]) -> None:
        """Print one of many results, each on its own line."""
        self.out(json_text(document) if self.as_json else as_text())

    def out(self, text: str) -> None:
        click.echo(text, color=self.colour or None)

    def note(self, text: str) -> None:
        """Print a note to stderr, beside the result."""
        click.echo(block(text), err=True)

    def note_all(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.note(text)

    def note_if_not_running(self) -> bool:
        """Print a note if no engine is running, since no run starts without one. Returns whether one is."""
        running = bool(self.call("system.stats")["running"])
        if not running:
            self.note("No engine is running. Start the daemon: matins up")
        return running

    def show_list(self, columns: Sequence[Column], items: Sequence[Document], empty: str) -> None:
        """Print the items as a table, or as documents."""
        self.show(items, lambda: self.table(columns, items) if items else empty)

    def table(self, columns: Sequence[Column], items: Iterable[Document], beside: int = 0) -> list[str]:
        """The lines of a table, which leave so many columns of the terminal to what is beside it."""
        rows = [[column.cell(item, self.now) for column in columns] for item in items]
        width = None if self.width is None else self.width - beside
        return table(columns, rows, width, colour=self.colour)

    def fields(self, *pairs: tuple[str, object]) -> list[str]:
        return fields(pairs, self.width)

    def sentences(self, texts: Iterable[str]) -> list[str]:
        """Each text on lines of its own, fitted to the terminal."""
        return [line for text in texts for line in wrapped(one_line(text), self.width)]

    def painted(self, cell: Cell) -> str:
        return click.style(cell.text, fg=cell.colour) if self.colour and cell.colour else cell.text

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask for confirmation at a terminal, unless `--yes` is given. A no ends the command."""
        if not yes and self.is_interactive and not click.confirm(question, err=True):
            self.note("Nothing was changed.")
            raise click.exceptions.Exit(CANCELLED)

    # -- time and terminal

    @cached_property
    def now(self) -> datetime:
        return times.now()

    def when(self, at: str | None) -> str:
        return times.when(at, self.now)

    def moment(self, at: str | None) -> Cell:
        """The instant as a cell of a table."""
        return moment(at, self.now)

    def until(self, at: str) -> str:
        """The instant as text: Mon 09:00 (in 3d)."""
        return f"{times.local(at, self.now)} ({self.relative_time(at)})"

    def relative_time(self, at: str) -> str:
        return times.relative_time(at, self.now)

    @property
    def width(self) -> int | None:
        """The width of the terminal; None for a file or a pipe, where lines are not cut."""
        if os.environ.get("COLUMNS", "").isdigit() or self.on_terminal:
            from shutil import get_terminal_size  # takes long to load

            return get_terminal_size().columns
        return None

    @property
    def colour(self) -> bool:
        return self.on_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    @property
    def on_terminal(self) -> bool:
        return sys.stdout.isatty()

    @property
    def is_interactive(self) -> bool:
        return sys.stdin.isatty() and sys.stderr.isatty()

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)


def use_cases() -> Mapping[str, UseCase]:
    """All use cases by name."""
    import matins.api.schedules  # noqa: F401  # pyright: ignore[reportUnusedImport] - declares them all
    from matins.api.use_case import USE_CASES

    return USE_CASES


def _joined(text: str | Iterable[str]) -> str:
    return text if isinstance(text, str) else "\n".join(text)


def json_text(document: Any, indent: int | None = None) -> str:
    """The document as JSON, with invisible characters escaped, so that a terminal does not interpret them."""
    import json  # not needed for the help of commands

    text = json.dumps(document, ensure_ascii=False, indent=indent)
    if text.isascii() and "\x7f" not in text:
        return text
    return write_out(text, lambda character: json.dumps(character)[1:-1], keep="\n")
