"""`matins audit`: verify that events are unchanged."""

from __future__ import annotations

import click

from matins.errors import MatinsError
from matins.model.counting import counted
from matins.surfaces.cli import errors
from matins.surfaces.cli.command_index import help_of
from matins.surfaces.cli.context import CliContext, Document
from matins.surfaces.cli.framework import NounGroup, pass_context

_SHOWN = 12
audit = NounGroup("audit", help_of("audit"), default="verify")


@audit.command()
@click.option("--seal", metavar="N:HASH", help="Seal that was stored elsewhere and must still be in the log.")
@click.pass_context
def verify(ctx: click.Context, seal: str | None) -> None:
    """Verify that no event was changed, deleted, moved or cut off.

    Reads only, also while an engine runs. The exit code is 1 when there is a problem; the first bad row of each chain
    is printed.
    """
    context = ctx.ensure_object(CliContext)
    found = context.call("audit.verify", seal=seal)
    intact = not found["problems"]
    context.show({"intact": intact, **found}, lambda: _verified(found))
    ctx.exit(errors.OK if intact else errors.FAILED)


@audit.command()
@pass_context
def seal(context: CliContext) -> None:
    """Print the newest seal.

    Store it where nobody who can write to the store can change it. With it, `verify` also finds a log that was cut.
    """
    newest = context.call("audit.seal")
    if newest is None:
        raise MatinsError("There is no seal yet.", hint="An engine makes one after an event: matins up")
    context.show(newest, lambda: newest)


def _verified(found: Document) -> list[str]:
    if found["problems"]:
        return ["The event log has problems:", *(f"  {problem}" for problem in found["problems"])]
    seal = "no seal yet" if found["seal"] is None else f"last seal {found['seal'][:_SHOWN]}…"
    events, chains = counted(found["events"], "event"), counted(found["chains"], "chain")
    return [f"The event log is intact: {events} in {chains}, {seal}"]
