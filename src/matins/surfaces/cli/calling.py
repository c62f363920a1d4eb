"""`matins call`: any use case by its name, for what has no command of its own."""

from __future__ import annotations

import json
from typing import Any

import click

from matins.errors import InvalidInput
from matins.surfaces.cli.commands import Command, pass_desk
from matins.surfaces.cli.desk import Desk
from matins.surfaces.cli.words import valued
from matins.surfaces.routes import BY_USE_CASE


@click.command(cls=Command)
@click.argument("use_case")
@click.argument("words", nargs=-1, metavar="[WORD=VALUE]...")
@pass_desk
def call(desk: Desk, use_case: str, words: tuple[str, ...]) -> None:
    """Any use case by its name, as the API has it.

    The words are the API's, and so is what it prints: for what has no command of its own.

    \b
    matins call snapshot run_id=7
    matins call set_allowed_hosts hosts='["models.lan:8080"]'
    """
    name = use_case.replace("-", "_")
    if name not in BY_USE_CASE:
        from difflib import get_close_matches

        close = get_close_matches(name, BY_USE_CASE, n=1)
        hint = f'did you mean "{close[0]}"?' if close else f"known: {', '.join(sorted(BY_USE_CASE))}"
        raise InvalidInput(f'There is no use case "{use_case}"', value=use_case, field="use_case", hint=hint)
    found = desk.ask(name, **dict(_said(word) for word in words))
    desk.show(found, lambda: json.dumps(found, ensure_ascii=False, indent=2))


def _said(text: str) -> tuple[str, Any]:
    word, equals, value = text.partition("=")
    if not equals:
        raise InvalidInput(
            f'"{text}" says nothing', value=text, field="words", hint="word=value, the value as JSON or text"
        )
    return word.strip().replace("-", "_"), valued("json", value)
