"""`matins webhooks`: the commands of every record, and those of webhooks only."""

from __future__ import annotations

from typing import Any

import click

from matins.records import record_kind
from matins.surfaces.cli.context import CliContext, Document
from matins.surfaces.cli.framework import complete_keys, pass_context
from matins.surfaces.cli.options import given_settings, setting_options
from matins.surfaces.cli.records import record_group
from matins.surfaces.cli.states import moment
from matins.surfaces.cli.tables import Column
from matins.surfaces.cli.terminal_text import one_line

_DELIVERIES = (
    Column("EVENT", "event"),
    Column("ATTEMPTS", "attempts", right=True),
    Column("NEXT ATTEMPT", lambda item, now: moment(item["next_at"], now)),
    Column("ERROR", "last_error", 20),
)
_SETTINGS = record_kind("webhooks").table
_name = click.argument("name", shell_complete=complete_keys("webhooks"))
webhooks = record_group("webhooks")


@webhooks.command()
@click.argument("name")
@click.argument("address", metavar="URL")
@setting_options(_SETTINGS, skip=["url"], assignments=False)
@pass_context
def add(context: CliContext, name: str, address: str, **options: Any) -> None:
    """Add a webhook that sends signed events to URL. The secret is shown once."""
    item = context.call("webhooks.add", name=name, url=address, **given_settings(_SETTINGS, options))
    context.show(item, lambda: one_line(f"Added the webhook {item['name']}. Secret: {item['secret']}"))
    context.note("Store the secret now. It is not shown again.")


@webhooks.command()
@_name
@click.option("--note", "-m", metavar="TEXT", help="Reason for the pause.")
@pass_context
def pause(context: CliContext, name: str, note: str | None) -> None:
    """Pause a webhook. Its events are kept."""
    item = context.call("webhooks.pause", name=name, note=note)
    context.show(item, lambda: one_line(f"Paused the webhook {name}. To resume: matins webhooks resume {name}"))


@webhooks.command()
@_name
@pass_context
def resume(context: CliContext, name: str) -> None:
    """Resume a paused webhook. It continues where it was."""
    item = context.call("webhooks.resume", name=name)
    context.show(item, lambda: one_line(f"Resumed the webhook {name}."))


@webhooks.command()
@_name
@click.option(
    "--state", type=click.Choice(["retrying", "discarded"]), help="State of the deliveries. Default: retrying."
)
@pass_context
def deliveries(context: CliContext, name: str, state: str | None) -> None:
    """List events that a webhook has not received."""
    items: list[Document] = context.call("subscriptions.deliveries", name=name, state=state)
    empty = f"No {state} deliveries." if state else "No event waits for delivery."
    context.show_list(_DELIVERIES, items, empty)


@webhooks.command()
@_name
@click.argument("event_id", metavar="EVENT")
@pass_context
def redeliver(context: CliContext, name: str, event_id: str) -> None:
    """Deliver an event again now."""
    context.call("subscriptions.redeliver", name=name, event_id=event_id)
    context.show({"requested": True}, lambda: one_line(f"Event {event_id} is sent to {name} now."))
