"""`matins call`, completion, and what a run says of itself.

`matins call`: any use case by name, also those without a command.

`matins completion`: shell completion of commands, options and names.

`matins context` and `matins report`: commands for agents in their runs.
"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from matins.errors import InvalidInput
from matins.surfaces.cli.context import CliContext, json_text, use_cases
from matins.surfaces.cli.framework import Command, nearest, pass_context, root_command
from matins.surfaces.cli.options import split_assignment
from matins.surfaces.cli.tables import plain, state_text
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


@root_command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
@pass_context
def completion(context: CliContext, ctx: click.Context, shell: str) -> None:
    """\b
    bash: eval "$(matins completion bash)" in ~/.bashrc
    zsh:  eval "$(matins completion zsh)" in ~/.zshrc
    fish: matins completion fish > ~/.config/fish/completions/matins.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(ctx.find_root().command, {}, "matins", "_MATINS_COMPLETE")
    text = script.source_template % script.source_vars()
    context.show({"shell": shell, "script": text}, lambda: text)


_OUTCOMES = ("done", "nothing", "failed")


@root_command("context")
@pass_context
def context_command(context: CliContext) -> None:
    """Outside a run, only the role and the name are known."""
    found = context.call("system.context")
    limits = ", ".join(f"{item['cost'] or item['tokens']} {item['limit']}" for item in found["limits"])
    shown = {**found, "limits": limits or None}
    context.show(found, lambda: context.fields(*((state_text(name), plain(value)) for name, value in shown.items()
                                                 if value is not None)))  # fmt: skip


@root_command("report")
@click.argument("outcome", type=click.Choice(_OUTCOMES))
@click.option("--reason", metavar="TEXT", help="Reason, in one sentence.")
@pass_context
def report(context: CliContext, outcome: str, reason: str | None) -> None:
    """OUTCOME is done, nothing (there is nothing to tell) or failed. It counts when the run ends."""
    context.call("runs.report_outcome", outcome=outcome, reason=reason)
    context.show({"reported": outcome}, lambda: f"Reported: {outcome}.")
