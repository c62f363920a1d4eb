"""`matins events`: what happened, and what happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
Event = dict[str, Any]


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

    if follow:
        for event in _followed(desk, ask, after, list(types), only):
            desk.show_line(event, lambda event=event: _line(desk, event))
        return
    found = ask(after)
    text = [_line(desk, event) for event in found]
    desk.show(found, lambda: text or "Nothing has happened yet.")


def _followed(
    desk: Desk, ask: Callable[[str | None], list[Event]], after: str | None, types: list[str], only: dict[str, Any]
) -> Iterator[Event]:
    """What there is, and then what happens: as the daemon tells it, or else by looking again and again."""
    newest = desk.ask("events", limit=1)
    while found := ask(after):
        yield from found
        after = found[-1]["id"]
    at = str(max(int(event["id"]) for event in [*newest, {"id": after or 0}]))
    told = desk.door.follow(at, types)
    if told is not None:
        yield from filter(_wanted(desk, **only), told)
    while True:
        found = ask(at)
        yield from found
        if found:
            at = found[-1]["id"]
        else:
            desk.wait(_LOOK_S)


def _wanted(desk: Desk, schedule: str | None, agent: str | None, run_id: str | None) -> Callable[[Event], bool]:
    """Which of all events somebody asked for."""
    only = {"run_id": run_id}
    if schedule is None:
        only["agent"] = agent
    else:
        only["schedule_id"] = desk.ask("look", name=schedule, agent=agent)["id"]
    return lambda event: all(value in (None, event[word]) for word, value in only.items())


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
