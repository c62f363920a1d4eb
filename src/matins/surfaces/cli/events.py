"""`matins events`: what happened, and what happens."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from matins.surfaces.cli.commands import Command, complete_agents, pass_desk
from matins.surfaces.cli.desk import Desk
from matins.surfaces.cli.text import fitted, one_line, plain
from matins.surfaces.cli.times import local

_LOOK_S = 0.5
_TYPE_WIDTH = 22
_INSTANTS = ("slot", "until", "not_before")


@click.command(cls=Command)
@click.option("--follow", "-f", is_flag=True, help="Go on; with --json one document per line.")
@click.option("--type", "-t", "types", multiple=True, metavar="TYPE", help="Only these: run.failed, schedule.paused.")
@click.option("--schedule", metavar="NAME")
@click.option("--agent", "-a", metavar="AGENT", shell_complete=complete_agents)
@click.option("--run", "run_id", metavar="RUN")
@click.option("--after", metavar="ID", help="Those after this event; the newest by default.")
@click.option("--limit", "-l", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many.")
@pass_desk
def events(desk: Desk, follow: bool, types: tuple[str, ...], after: str | None, limit: int, **only: Any) -> None:
    """What happened, the newest last."""

    def ask(since: str | None) -> list[dict[str, Any]]:
        return desk.ask("events", types=list(types) or None, after=since, limit=limit, **only)

    found = ask(after)
    if not follow:
        text = [_line(desk, event) for event in found]
        return desk.show(found, lambda: text or "Nothing has happened yet.")
    last = after or "0"
    while True:
        for event in found:
            desk.show_line(event, lambda event=event: _line(desk, event))
            last = event["id"]
        if not found:
            desk.wait(_LOOK_S)
        found = ask(last)


def _line(desk: Desk, event: dict[str, Any]) -> str:
    about = " ".join(filter(None, [event.get("schedule"), f"run {event['run_id']}" if event["run_id"] else ""]))
    told = [f"{word}={_value(desk, word, value)}" for word, value in event["data"].items() if value not in (None, "")]
    data = ", ".join(told)
    start = f"{local(event['at'], desk.now):<15} {event['type']:<{_TYPE_WIDTH}}"
    line = one_line(f"{about}: {data}" if about and data else about + data)
    text = f"{start} {line}".rstrip()
    return text if desk.width is None else fitted(text, desk.width)


def _value(desk: Desk, word: str, value: Any) -> str:
    """Instants in an event's own data are milliseconds."""
    if type(value) is int and (word.endswith("_at") or word in _INSTANTS):
        return local(datetime.fromtimestamp(value / 1000, UTC).isoformat(), desk.now)
    return plain(value)
