"""`matins events` and `matins audit`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import click

from matins.errors import MatinsError
from matins.model.words import counted
from matins.surfaces.cli import context as errors
from matins.surfaces.cli.command_index import help_of
from matins.surfaces.cli.context import CliContext, Document, EventStream
from matins.surfaces.cli.framework import (
    Command,
    NounGroup,
    agent_option,
    complete_keys,
    limit_option,
    pass_context,
    without_none,
)
from matins.surfaces.cli.tables import fitted, plain
from matins.surfaces.cli.times import local
from matins.surfaces.display import one_line

_POLL_S = 0.5
_TYPE_WIDTH = 22
_OF_PROGRAMS = ("who", "fingerprint")
"""Fields for programs: `by` has the name for people, and `audit verify` compares the fingerprint."""
_INSTANTS = ("slot", "until", "not_before")


@click.command("list", cls=Command)
@click.option("--follow", "-f", is_flag=True, help="Keep printing new entries.")
@click.option("--type", "-t", "types", multiple=True, metavar="TYPE", help="Type of events: run.failed; repeatable.")
@click.option("--schedule", metavar="NAME", shell_complete=complete_keys("schedules"), help="Schedule of the events.")
@agent_option("Agent of the events.")
@click.option("--run", "run_id", metavar="RUN", help="Run of the events, by its number.")
@click.option("--after", metavar="ID", help="ID of the event to start after. Default: the newest events.")
@limit_option(20)
@pass_context
def list_events(
    context: CliContext, follow: bool, types: tuple[str, ...], after: str | None, limit: int, **only: Any
) -> None:
    """List events, or follow them. The newest event is printed last.

    With --json and --follow, each line is a document.
    """
    wanted = without_none(types=list(types) or None, **only)
    if follow:
        for event in _followed(context, wanted, after, limit):
            context.show_line(event, lambda event=event: _line(context, event))
        return
    found: list[Document] = context.call("events.list", after=after, limit=limit, **wanted)
    context.show(found, lambda: [_line(context, event) for event in found] or "No events.")


def _followed(context: CliContext, wanted: Mapping[str, Any], after: str | None, limit: int) -> Iterator[Document]:
    """Past events, and then live ones, from the daemon's stream or by polling."""
    newest: list[Document] = context.call("events.list", limit=1)
    while found := context.call("events.list", after=after, limit=limit, **wanted):
        yield from found
        after = found[-1]["id"]
    at = str(max(int(event["id"]) for event in [*newest, {"id": after or 0}]))
    transport = context.transport
    if isinstance(transport, EventStream):
        yield from transport.follow_documents({**wanted, "after": at})
        return
    while True:
        found = context.call("events.list", after=at, limit=limit, **wanted)
        yield from found
        if found:
            at = found[-1]["id"]
        else:
            context.wait(_POLL_S)


def _line(context: CliContext, event: Document) -> str:
    subject = " ".join(filter(None, [event.get("schedule"), f"run {event['run_id']}" if event["run_id"] else ""]))
    data = {name: value for name, value in _data(event).items() if name not in _OF_PROGRAMS}
    pairs = [(name, value) for name, value in data.items() if value not in (None, "")]
    shown = ", ".join(f"{name}={_value(context, name, value)}" for name, value in pairs)
    start = f"{local(event['at'], context.now):<15} {event['type']:<{_TYPE_WIDTH}}"
    line = one_line(f"{subject}: {shown}" if subject and shown else subject + shown)
    text = f"{start} {line}".rstrip()
    return text if context.width is None else fitted(text, context.width)


def _data(event: Document) -> Document:
    """The data of the event, with the amounts and durations of a policy as people write them."""
    data: Document = event["data"]
    return data | {"definition": _written(data["kind"], data["definition"])} if event["type"] == "policy.set" else data


def _written(kind: str, definition: Document) -> Document:
    from matins.engine.settings import format_setting  # help is printed without the engine and the records
    from matins.model import settings as kinds
    from matins.records import kinds_by_name

    if kind not in kinds_by_name():
        return definition
    table = kinds_by_name()[kind].table
    declared = {one.field: one for one in table.values() if isinstance(one.kind, (kinds.Money, kinds.Duration))}
    return definition | {
        name: format_setting(declared[name], definition[name]) for name in definition if name in declared
    }


def _value(context: CliContext, name: str, value: Any) -> str:
    """The value as text. Instants in the data of an event are milliseconds."""
    if type(value) is int and (name.endswith("_at") or name in _INSTANTS):
        return local(datetime.fromtimestamp(value / 1000, UTC).isoformat(), context.now)
    return plain(value)


events = NounGroup("events", help_of("events"))
events.takes(list=list_events)


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
