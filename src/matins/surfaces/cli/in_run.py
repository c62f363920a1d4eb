"""`matins context` and `matins report`: commands for agents in their runs."""

from __future__ import annotations

import click

from matins.surfaces.cli.context import CliContext
from matins.surfaces.cli.framework import pass_context, root_command
from matins.surfaces.cli.states import state_text
from matins.surfaces.cli.terminal_text import plain

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
