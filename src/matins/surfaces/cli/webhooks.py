"""`matins webhooks`: who hears of events."""

from __future__ import annotations

from typing import Any

import click

from matins.surfaces.cli.commands import Noun, pass_desk, removed
from matins.surfaces.cli.desk import Desk
from matins.surfaces.cli.tables import Column
from matins.surfaces.cli.text import one_line

_COLUMNS = (Column("NAME"), Column("URL", 20), Column("STATE"), Column("EVENTS", 10))
_DELIVERIES = (Column("EVENT"), Column("TRIED", right=True), Column("NEXT"), Column("ERROR", 20))


@click.group(cls=Noun)
def webhooks() -> None:
    """Who hears of events: list, add, pause, resume, rm, deliveries …"""


@webhooks.command("list")
@pass_desk
def list_webhooks(desk: Desk) -> None:
    """All webhooks."""
    items: list[dict[str, Any]] = desk.ask("webhooks")
    rows = [(item["name"], item["url"], item["state"], ", ".join(item["types"]) or "all") for item in items]
    empty = "No webhooks. Add one: matins webhooks add ops https://example.com/hook"
    desk.show(items, lambda: desk.table(_COLUMNS, rows) if rows else empty)


@webhooks.command()
@click.argument("name")
@click.argument("address", metavar="URL")
@click.option("--type", "-t", "types", multiple=True, metavar="TYPE", help="Only these events: run.failed.")
@pass_desk
def add(desk: Desk, name: str, address: str, types: tuple[str, ...]) -> None:
    """Send events to URL, signed. The secret is shown once."""
    item = desk.ask("add_webhook", name=name, url=address, types=list(types) or None)
    desk.show(item, lambda: one_line(f"Added {item['name']}. Its secret, shown once: {item['secret']}"))


@webhooks.command()
@click.argument("name")
@click.option("--note", "-m", metavar="TEXT", help="Why.")
@pass_desk
def pause(desk: Desk, name: str, note: str | None) -> None:
    """Send nothing until it is resumed; nothing is lost."""
    changed = bool(desk.ask("pause_webhook", name=name, note=note))
    desk.show({"changed": changed}, lambda: _changed(name, "paused", changed))


@webhooks.command()
@click.argument("name")
@pass_desk
def resume(desk: Desk, name: str) -> None:
    """Go on where it stood."""
    changed = bool(desk.ask("resume_webhook", name=name))
    desk.show({"changed": changed}, lambda: _changed(name, "active", changed))


def _changed(name: str, state: str, changed: bool) -> str:
    return one_line(f"{name} is {state}." if changed else f"{name} was {state} already: nothing done.")


@webhooks.command("rm")
@click.argument("name")
@pass_desk
def remove(desk: Desk, name: str) -> None:
    """Remove a webhook, and what it has not got."""
    desk.show(*removed("webhook", one_line(name), bool(desk.ask("drop_webhook", name=name))))


@webhooks.command()
@click.argument("name")
@click.option("--state", type=click.Choice(["waiting", "given_up"]), help="What waits, by default.")
@pass_desk
def deliveries(desk: Desk, name: str, state: str | None) -> None:
    """What it has not got."""
    items: list[dict[str, Any]] = desk.ask("deliveries", name=name, state=state)
    rows = [
        (item["event"], str(item["attempts"]), desk.when(item["next_at"]), item["last_error"] or "–") for item in items
    ]
    desk.show(items, lambda: desk.table(_DELIVERIES, rows) if rows else "It has got everything.")


@webhooks.command()
@click.argument("name")
@click.argument("event_id", metavar="EVENT")
@pass_desk
def redeliver(desk: Desk, name: str, event_id: str) -> None:
    """Send an event again now."""
    desk.ask("redeliver", name=name, event_id=event_id)
    desk.show({"requested": True}, lambda: one_line(f"Event {event_id} is sent to {name} now."))
