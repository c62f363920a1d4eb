"""Printing of errors, and the exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, cast

import click

from matins.errors import Conflict, Example, InvalidInput, MatinsError, NotAllowed, NotFound, StoreError
from matins.surfaces.cli.terminal_text import block

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
