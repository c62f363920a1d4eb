"""`matins calls`: what arrived from outside, and what it started."""

from __future__ import annotations

import click

from matins.surfaces.cli.command_index import help_of
from matins.surfaces.cli.context import CliContext, Document, json_text
from matins.surfaces.cli.framework import NounGroup, number_argument, pass_context
from matins.surfaces.cli.paging import Page, page_options
from matins.surfaces.cli.states import moment, state_text
from matins.surfaces.cli.tables import Column
from matins.surfaces.cli.terminal_text import block, one_line

_COLUMNS = (
    Column("CALL", "id"),
    Column("FROM", lambda item, now: f"{item['source']} {item['name']}", 14, middle=True),
    Column("TYPE", "type", 8, middle=True),
    Column("AT", lambda item, now: moment(item["at"], now)),
    Column("OUTCOME", lambda item, now: outcome(item), 16),
)
_EMPTY = "No calls. Let a schedule listen: matins edit NAME --on 'webhook NAME'"
_SOURCES = ("webhook", "chat", "schedule")
calls = NounGroup("calls", help_of("calls"))


@calls.command("list")
@click.argument("name", required=False)
@click.option("--source", type=click.Choice(_SOURCES), help="Where the calls came from.")
@page_options("--before", default=20)
@pass_context
def list_calls(context: CliContext, name: str | None, source: str | None, before: str | None, limit: int) -> None:
    """List calls, of all sources or of one inbound endpoint, channel or schedule. The newest is first."""
    page = Page.of(
        limit, lambda count: context.call("calls.list", name=name, source=source, before=before, limit=count)
    )
    context.show_list(_COLUMNS, page.items, _EMPTY)
    page.note_more(context, "matins calls --before", page.last_id)


@calls.command()
@number_argument("call_id", "CALL", "a call", "matins calls")
@pass_context
def show(context: CliContext, call_id: str) -> None:
    """Show a call: its runs, and its body while that is kept."""
    item = context.call("calls.get", call_id=call_id)
    context.show(item, lambda: _shown(context, item))


@calls.command()
@number_argument("call_id", "CALL", "a call", "matins calls")
@pass_context
def replay(context: CliContext, call_id: str) -> None:
    """Fire a call again, with the same body."""
    item = context.call("calls.replay", call_id=call_id)
    context.show(item, lambda: one_line(f"Call {item['id']} repeats call {call_id}: {outcome(item)}"))


def outcome(item: Document) -> str:
    """For example: run 12 of review-pr succeeded."""
    if not item["runs"]:
        return f"ignored: {item['reason']}"
    return ", ".join(f"run {run['id']} of {run['schedule']} {state_text(run['state'])}" for run in item["runs"])


def _shown(context: CliContext, item: Document) -> list[str]:
    lines = context.fields(
        ("call", item["id"]),
        ("from", f"{item['source']} {item['name']}"),
        ("key", item["key"]),
        ("type", item["type"]),
        ("sender", item["sender"]),
        ("at", context.when(item["at"])),
        ("outcome", outcome(item)),
        ("text", item["text"]),
    )
    body = "The body is no longer kept." if item["body"] is None else json_text(item["body"], indent=2)
    return [*lines, "", *block(body).split("\n")]
