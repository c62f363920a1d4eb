"""`matins call`: any use case by name, also those without a command."""

from __future__ import annotations

import click

from matins.errors import InvalidInput
from matins.surfaces.cli.context import CliContext, json_text, use_cases
from matins.surfaces.cli.framework import Command, nearest, pass_context, root_command
from matins.surfaces.cli.options import split_assignment
from matins.surfaces.cli.states import state_text
from matins.surfaces.text_values import json_or_text

_FIRST = ("schedules", "runs", "approvals")


class CallCommand(Command):
    """A command whose help lists every use case by noun."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        nouns: dict[str, list[tuple[str, str]]] = {noun: [] for noun in _FIRST}
        for name, use_case in sorted(use_cases().items()):
            nouns.setdefault(use_case.noun, []).append((name, use_case.help))
        for noun, lines in nouns.items():
            with formatter.section(state_text(noun).capitalize()):
                formatter.write_dl(lines)


@root_command("call", CallCommand)
@click.argument("use_case")
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
@pass_context
def call(context: CliContext, use_case: str, arguments: tuple[str, ...]) -> None:
    """Names and arguments are the API's, values are JSON or text, and the document is printed.

    \b
    matins call runs.snapshot run_id=7
    matins call allowed_hosts.set hosts='["models.lan:8080"]'
    """
    name = use_case.replace("-", "_")
    known = use_cases()
    if name not in known:
        hint = nearest(name, known).strip() or "List them: matins call --help"
        raise InvalidInput(f'There is no use case "{use_case}".', value=use_case, field="use_case", hint=hint)
    pairs = [split_assignment(argument, "matins call runs.get run_id=7") for argument in arguments]
    found = context.send(name, {argument: json_or_text(text) for argument, text in pairs})
    context.show(found, lambda: json_text(found, indent=2))
