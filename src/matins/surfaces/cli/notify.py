"""`matins notify`: what is told to whom, and a test of it."""

from __future__ import annotations

import click

from matins.surfaces.cli import errors
from matins.surfaces.cli.context import CliContext, Document
from matins.surfaces.cli.framework import complete_keys
from matins.surfaces.cli.records import record_group
from matins.surfaces.cli.tables import Column

_COLUMNS = (
    Column("DESTINATION", "destination", 16, middle=True),
    Column("KIND", "kind"),
    Column("RESULT", lambda item, now: item["error"] or "delivered", 20),
)
_NONE = "There is no destination. Create one: matins destinations set phone --kind ntfy --to env:NTFY_TOPIC"
notify = record_group("notify")


@notify.command()
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete_keys("destinations"))
@click.pass_context
def test(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Send a test message to each destination, or to some, and say what came back."""
    context = ctx.ensure_object(CliContext)
    chosen = names or tuple(item["name"] for item in context.call("destinations.list"))
    items: list[Document] = [context.call("destinations.test", name=name) for name in chosen]
    context.show_list(_COLUMNS, items, _NONE)
    ctx.exit(errors.OK if all(item["delivered"] for item in items) else errors.FAILED)
