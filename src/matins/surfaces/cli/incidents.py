"""`matins incidents`, `ack` and `notify`."""

from __future__ import annotations

import click

from matins.model.words import joined
from matins.surfaces.cli import context as errors
from matins.surfaces.cli.command_index import help_of
from matins.surfaces.cli.context import CliContext, Document
from matins.surfaces.cli.framework import (
    NounGroup,
    Page,
    complete_keys,
    number_argument,
    page_options,
    pass_context,
    root_command,
)
from matins.surfaces.cli.records import record_group
from matins.surfaces.cli.tables import Column
from matins.surfaces.cli.times import relative_time
from matins.surfaces.display import one_line

_INCIDENT_COLUMNS = (
    Column("INCIDENT", "id"),
    Column("KIND", "kind"),
    Column("SCHEDULE", "schedule", 14, middle=True),
    Column("STATE", "state"),
    Column("COUNT", "count", right=True),
    Column("SINCE", lambda item, now: relative_time(item["opened_at"], now)),
    Column("WHAT", lambda item, now: joined(item["summary"], item["quote"]), 20),
)
_EMPTY = "No incidents are open."
incidents = NounGroup("incidents", help_of("incidents"))
_number = number_argument("incident_id", "INCIDENT", "an incident", "matins incidents")


@incidents.command("list")
@click.argument("schedule", required=False)
@click.option("--agent", metavar="NAME", help="Agent of the schedule, if the name is ambiguous.")
@click.option("--all", "everything", is_flag=True, help="List incidents that are over too.")
@page_options("--before", default=20)
@pass_context
def list_incidents(
    context: CliContext, schedule: str | None, agent: str | None, everything: bool, before: str | None, limit: int
) -> None:
    """List incidents that are not over, of all schedules or of one. The newest is first."""
    page = Page.of(
        limit,
        lambda count: context.call(
            "incidents.list", all=everything, schedule=schedule, agent=agent, before=before, limit=count
        ),
    )
    context.show_list(_INCIDENT_COLUMNS, page.items, _EMPTY)
    page.note_more(context, "matins incidents --before", page.last_id)


@incidents.command()
@_number
@pass_context
def show(context: CliContext, incident_id: str) -> None:
    """Show an incident: how often it happened, and which messages were sent."""
    item = context.call("incidents.get", incident_id=incident_id)
    context.show(item, lambda: _shown(context, item))


@root_command("ack")
@_number
@pass_context
def ack(context: CliContext, incident_id: str) -> None:
    item = context.call("incidents.acknowledge", incident_id=incident_id)
    text = f"Incident {incident_id} is acknowledged. No more messages are sent until it is over."
    context.show(item, lambda: one_line(text))


def _shown(context: CliContext, item: Document) -> list[str]:
    return context.fields(
        ("incident", item["id"]),
        ("state", item["state"] + (f" ({item['resolution']})" if item["resolution"] else "")),
        ("kind", item["kind"]),
        ("schedule", item["schedule"]),
        ("run", item["run_id"]),
        ("what", joined(item["summary"], item["quote"])),
        ("error", item["error"]),
        ("count", str(item["count"])),
        ("opened", context.when(item["opened_at"])),
        ("last", context.when(item["last_at"])),
        ("messages", str(item["messages"])),
        ("reminder", context.when(item["reminds_at"]) if item["reminds_at"] else None),
        ("acknowledged", _acknowledged(context, item)),
        ("resolved", context.when(item["resolved_at"]) if item["resolved_at"] else None),
    )


def _acknowledged(context: CliContext, item: Document) -> str | None:
    by, at = item["acknowledged_by"], item["acknowledged_at"]
    return f"{context.when(at)} by {by}" if at else None


_DESTINATION_COLUMNS = (
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
    context.show_list(_DESTINATION_COLUMNS, items, _NONE)
    ctx.exit(errors.OK if all(item["delivered"] for item in items) else errors.FAILED)
