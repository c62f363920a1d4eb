"""How errors are told, and the exit codes."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable
from typing import Any

import click

from matins.errors import Conflict, InvalidInput, MatinsError, NotAllowed, NotFound, StoreError
from matins.surfaces.cli.text import block

OK, FAILED, USAGE, CANCELLED, NOT_ALLOWED, RUN_FAILED, WAITS = 0, 1, 2, 3, 4, 5, 8
INTERRUPTED = 130
EXIT_CODES = """\b
Exit codes: 0 done; 1 failed; 2 what was said cannot be used; 3 cancelled or
timed out; 4 not allowed; 5 the run failed; 8 waiting for approval."""
_SPOKEN = {
    "set_quiet_hours": "matins quiet-hours set",
    "set_agent": "matins agents set",
    "set_hook": "matins hooks set",
    "set_work_source": "matins work-sources set",
    "add_webhook": "matins webhooks add",
}
"""Hints name use cases: here they are commands."""
_USE_CASE = re.compile(rf"\b({'|'.join(_SPOKEN)})\b")
_ARGUMENT = re.compile(r'\b([a-z_]+)="([^"]+)"')
_RATE = re.compile(r'set_rate\("(\w+)", usd=…\)')
_PRICE = re.compile(r'set_price\("([^"]+)", input=…, output=…\)')
_WHERE = {"run": "matins runs", "approval": "matins approvals", "agent": "matins agents", "thread": "matins threads"}
_NEXT: tuple[tuple[type[MatinsError], str], ...] = (
    (NotAllowed, "ask the owner, or use a token that may: --token"),
    (NotFound, "see what there is: matins list"),
    (Conflict, "look at it again: matins show, matins approvals"),
    (InvalidInput, "see how it is said: --help"),
    (StoreError, "matins doctor says what is wrong with it"),
)
_LAST_RESORT = "try again; matins doctor looks for what is wrong"


def exit_code(work: Callable[[], Any]) -> int:
    """Of whatever happens: nothing gets by as a traceback, unless MATINS_DEBUG asks for it."""
    try:
        code = work()
        return code if isinstance(code, int) else OK
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return INTERRUPTED
    except MatinsError as error:
        tell(error.message, _hint(error))
        return _code(error)
    except Exception as error:
        if os.environ.get("MATINS_DEBUG"):
            raise
        text = str(error) or "no more is known"
        tell(f"Something failed that should not: {type(error).__name__}: {text}", "MATINS_DEBUG=1 shows where")
        return FAILED


def tell(message: str, hint: str | None) -> None:
    click.echo(f"Error: {block(message)}", err=True)
    if hint:
        click.echo(f"Hint: {block(hint)}", err=True)


def _hint(error: MatinsError) -> str:
    if error.hint:
        return spoken(error.hint)
    if isinstance(error, NotFound) and error.field in _WHERE:
        return f"see what there is: {_WHERE[error.field]}"
    return next((hint for kind, hint in _NEXT if isinstance(error, kind)), _LAST_RESORT)


def spoken(hint: str) -> str:
    """Of the library, as one says it here: `per="day"` is `--per day`."""
    hint = _USE_CASE.sub(lambda found: _SPOKEN[found[0]], hint)
    hint = _RATE.sub(r"matins prices rate \1 1.10", hint)
    hint = _PRICE.sub(r"matins prices set \1 --input '$1' --output '$8'", hint)
    return _ARGUMENT.sub(lambda found: f"--{found[1].replace('_', '-')} {shlex.quote(found[2])}", hint)


def _code(error: MatinsError) -> int:
    if isinstance(error, NotAllowed):
        return NOT_ALLOWED
    return USAGE if isinstance(error, InvalidInput) and not isinstance(error, Conflict) else FAILED


def any_character() -> None:
    """Terminals that cannot show a character show another; it is no reason to fail."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
