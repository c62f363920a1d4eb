"""The accounts that agents run as, where Matins is root. A person at a terminal is asked for them."""

from __future__ import annotations

import os
import pwd
import shlex

import click

from matins.errors import InvalidInput
from matins.surfaces.cli.context import CliContext

_NONE = "none"
_ROOT = "Matins is root, and agents without an account could change everything here."
_HINT = (
    "useradd -m robin && matins init --user robin; or matins init --isolation none; or run Matins as an ordinary user."
)


def account_settings(context: CliContext, user: str | None, isolation: str | None) -> dict[str, str]:
    """The settings of all agents of a new file. Raises InvalidInput if root has no terminal to answer at."""
    if user is not None and isolation is not None:
        raise click.UsageError("--user and --isolation cannot be combined.")
    if user is not None:
        return {"user": _checked(user)}
    if isolation is not None or os.geteuid() != 0:
        return {} if isolation is None else {"isolation": isolation}
    if not context.is_interactive:
        raise InvalidInput(_ROOT, field="user", hint=_HINT)
    return ask_account()


def asked_account(context: CliContext, refused: InvalidInput, agent: str, runner: str) -> dict[str, str]:
    """The account of an agent that was refused. Without a terminal, raises the refusal with the commands that help."""
    if context.is_interactive:
        return ask_account()
    new = f"matins agents set {shlex.quote(agent)} --runner {runner}"
    hint = f"useradd -m robin && {new} --user robin; or {new} --isolation none; or run Matins as an ordinary user."
    raise InvalidInput(refused.message, field="user", hint=hint) from None


def ask_account() -> dict[str, str]:
    """The account that a person at the terminal names, or no isolation."""
    click.echo(_ROOT, err=True)
    question = f"Account for agents (useradd -m robin makes one), or {_NONE} to let them be root"
    answer: str = click.prompt(question, err=True, value_proc=lambda text: text if text == _NONE else _checked(text))
    return {"isolation": _NONE} if answer == _NONE else {"user": answer}


def _checked(name: str) -> str:
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise click.UsageError(f'There is no user "{name}": useradd -m {name}') from None
    if found.pw_uid == os.geteuid():
        raise click.UsageError(f"{name} is the account of Matins itself. Name another.")
    return name
