"""The context of every command: the transport of its calls, and the output.

Instants as options: in local time, in UTC, or as a duration from now.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import click

from matins.errors import Conflict, Example, InstantError, InvalidInput, MatinsError, NotAllowed, NotFound, StoreError
from matins.model.words import write_out
from matins.surfaces.cli import times
from matins.surfaces.cli.tables import Cell, Column, fields, moment, table, wrapped
from matins.surfaces.display import block, one_line

if TYPE_CHECKING:
    from pathlib import Path

    from matins.api.use_case import Caller, Transport, UseCase
    from matins.model.access import Principal
    from matins.service.moving import Move


OK, FAILED, USAGE, CANCELLED, NOT_ALLOWED, RUN_FAILED, OVER_BUDGET, WAITS = 0, 1, 2, 3, 4, 5, 6, 8
INTERRUPTED = 130
EXIT_CODES = """\b
Exit codes: 0 done; 1 failed; 2 invalid input; 3 cancelled or timed out;
4 not allowed; 5 the run failed; 6 over budget; 8 waiting for approval."""
_LISTS = {"run": "matins runs", "approval": "matins approvals", "agent": "matins agents", "thread": "matins threads"}
_DEFAULT_HINTS: tuple[tuple[type[MatinsError], str], ...] = (
    (NotAllowed, "Ask the owner, or use another token: --token TOKEN"),
    (NotFound, "List what there is: matins list"),
    (Conflict, "Check its state: matins show, matins runs or matins approvals"),
    (InvalidInput, "See the options: --help"),
    (StoreError, "Check the store: matins doctor"),
)
_LAST_HINT = "Try again, or check the installation: matins doctor"


def exit_code(work: Callable[[], Any], *, as_json: bool = False) -> int:
    """The exit code of a command. Errors are printed without a traceback, unless MATINS_DEBUG is set; as JSON, one
    document on stderr."""
    try:
        code = work()
        return code if isinstance(code, int) else OK
    except click.ClickException as error:
        if as_json:
            _print_document("usage", error.format_message(), None)
        else:
            error.show()
        return error.exit_code
    except click.Abort:
        return INTERRUPTED
    except MatinsError as error:
        if as_json:
            _print_document(error.code, error.message, _hint(error), getattr(error, "field", None))
        else:
            print_error(error.message, _hint(error))
        return _code(error)
    except Exception as error:
        if os.environ.get("MATINS_DEBUG"):
            raise
        text = str(error) or "no message"
        print_error(f"Unexpected error: {type(error).__name__}: {text}", "To see where: MATINS_DEBUG=1 matins …")
        return FAILED


def _print_document(code: str, message: str, hint: str | None, field: str | None = None) -> None:
    import json  # most commands have no errors

    click.echo(json.dumps({"error": {"code": code, "message": message, "field": field, "hint": hint}}), err=True)


def print_error(message: str, hint: str | None) -> None:
    click.echo(f"Error: {block(message)}", err=True)
    if hint:
        click.echo(f"Hint: {block(hint)}", err=True)


def _hint(error: MatinsError) -> str:
    """The hint of the error, with settings as options: `--period day`."""
    if isinstance(error.hint, Example):
        return f"For example: {', '.join(_option(name, value) for name, value in error.hint.settings.items())}"
    return error.hint or _default_hint(error)


def _option(name: str, value: Any) -> str:
    import json  # most commands have no errors
    import shlex

    if isinstance(value, list) and all(isinstance(item, str) for item in cast("list[Any]", value)):
        value = ", ".join(cast("list[str]", value))
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"--{name.replace('_', '-')} {shlex.quote(text)}"


def _default_hint(error: MatinsError) -> str:
    if isinstance(error, NotAllowed) and os.environ.get("MATINS_IN_RUN"):
        return "Ask the owner: a run has the rights of its agent, and no other token."
    if isinstance(error, NotFound) and error.field in _LISTS:
        return f"List what there is: {_LISTS[error.field]}"
    return next((hint for kind, hint in _DEFAULT_HINTS if isinstance(error, kind)), _LAST_HINT)


def _code(error: MatinsError) -> int:
    if isinstance(error, NotAllowed):
        return NOT_ALLOWED
    return USAGE if isinstance(error, InvalidInput) and not isinstance(error, Conflict) else FAILED


def replace_unknown_characters() -> None:
    """Print another character for one that the terminal cannot show, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


Document = dict[str, Any]


@runtime_checkable
class EventStream(Protocol):
    """A transport that sends live events. Other transports are polled."""

    def follow_documents(self, arguments: Mapping[str, Any]) -> Generator[Document]: ...


class DaemonService(Protocol):
    """The daemon as a service of this machine, in one file of systemd or launchd."""

    @property
    def path(self) -> Path: ...

    @property
    def text(self) -> str: ...

    def install(self) -> Document: ...

    def remove(self) -> Document: ...


class App(Protocol):
    """The interface of the composition root to the command line."""

    def transport(self, store: str | None, url: str | None, token: str | None, home: str | None) -> Transport: ...

    def up(
        self,
        store: str | None,
        file: str | None,
        host: str,
        port: int | None,
        home: str | None,
        log: str,
        node: Mapping[str, Any] | None,
    ) -> None: ...

    def move(
        self,
        target: str,
        tell: Callable[[str], None],
        store: str | None,
        url: str | None,
        token: str | None,
        home: str | None,
    ) -> Move: ...

    def worker(
        self, source: str | None, home: str | None, name: str | None, labels: tuple[str, ...], max_runs: int | None
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

    def service(self, store: str | None, file: str | None, home: str | None) -> DaemonService: ...

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
        if arguments.get("timezone") == "local":  # the zone of the person, not of the daemon
            arguments = {**arguments, "timezone": self.app.local_zone()}
        return self.transport.document(use_cases()[use_case], arguments)

    def zone_for(self, when: str | None, settings: Mapping[str, Any]) -> Document:
        """The caller's time zone as a setting, unless the settings or the text of the trigger have one."""
        from matins.engine.when.zones import names_zone  # few commands need it

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


_LENGTH = re.compile(r"(?:([0-9]{1,6})d)?(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,6})s)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,6})?")


class Instant(click.ParamType[str]):
    """A click type that returns an ISO text with an offset."""

    name = "instant"

    def __init__(self, *, future: bool = False, past: bool = False, zoned: bool = False) -> None:
        """`future` accepts 2h for two hours from now, `past` for two hours ago. `zoned` leaves any other text to the
        service, for its zone."""
        self._future = future
        self._past = past
        self._zoned = zoned

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        # What is counted from now is shown as counted from the same instant: "in 2h", not "in 1h".
        context = ctx.find_object(CliContext) if ctx is not None else None
        try:
            return self._read(value.strip(), times.now() if context is None else context.now)
        except (ValueError, OverflowError):
            message = f'"{value}" is not an instant.'
            raise InstantError(message, value=value, field=param and param.name, hint=self._hint(value)) from None

    def _read(self, text: str, now: datetime) -> str:
        length = _LENGTH.fullmatch(text) if text and (self._future or self._past) else None
        if length is not None:
            return _iso(now - _length(length) if self._past else now + _length(length))
        if self._zoned:
            return text
        if _DATE.fullmatch(text):
            raise ValueError(text)
        return _iso(datetime.fromisoformat(text).astimezone())

    def _hint(self, text: str) -> str:
        if _DATE.fullmatch(text.strip()):
            return f"Add the time: {text.strip()}T09:00"
        ways = "2026-12-31T18:00 for your own clock, or 2026-12-31T18:00:00Z."
        return f"Use 2h, {ways}" if self._future or self._past else f"Use {ways}"


class Seconds(click.ParamType[float]):
    """A click type for a length of time: a number of seconds, or 3s, 2m, 1h30m."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip()
        length = _LENGTH.fullmatch(text) if text else None
        if length is not None:
            return _length(length).total_seconds()
        if _NUMBER.fullmatch(text):
            return float(text)
        return self.fail(f'"{value}" is not a length of time. Use 90s, 5m or 1h30m.', param, ctx)


def _length(found: re.Match[str]) -> timedelta:
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return timedelta(days, seconds, 0, 0, minutes, hours)


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds" if at.microsecond else "seconds")


FUTURE, PAST, ANY = Instant(future=True), Instant(past=True), Instant()
SECONDS = Seconds()
ZONED = Instant(future=True, zoned=True)
"""For a record with its own time zone: instants without an offset are in that zone."""
