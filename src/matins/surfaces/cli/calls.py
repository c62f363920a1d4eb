"""`matins calls`, `inbound` and `webhooks`.

`matins calls`: what arrived from outside, and what it started.

`matins inbound`: the commands of every record, and those of inbound endpoints only.

`matins webhooks`: the commands of every record, and those of webhooks only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from matins.errors import InvalidInput
from matins.records import record_kind
from matins.surfaces.cli.command_index import help_of
from matins.surfaces.cli.context import CliContext, Document, json_text
from matins.surfaces.cli.framework import (
    NounGroup,
    Page,
    agent_option,
    complete_keys,
    number_argument,
    page_options,
    pass_context,
)
from matins.surfaces.cli.options import given_settings, setting_options
from matins.surfaces.cli.records import record_group
from matins.surfaces.cli.tables import Column, moment, state_text
from matins.surfaces.display import block, one_line
from matins.surfaces.text_values import json_or_text

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


inbound = record_group("inbound")
inbound.takes(calls=list_calls, replay=replay)


@inbound.command()
@click.argument("name", shell_complete=complete_keys("inbound"))
@click.option("--body", metavar="FILE", type=click.Path(exists=True, dir_okay=False), help="File with a JSON body.")
@click.option("--event", "type_", metavar="TYPE", help="Type of the event, for senders that have it in a header.")
@click.option("--dry-run", is_flag=True, help="Show what would happen, and fire nothing.")
@pass_context
def test(context: CliContext, name: str, body: str | None, type_: str | None, dry_run: bool) -> None:
    """Sign a body as the sender would, deliver it, and show which schedules it concerns."""
    given: dict[str, Any] = {} if body is None else {"body": _json(body)}
    item = context.call("inbound.test", name=name, type=type_, dry_run=dry_run, **given)
    context.show(item, lambda: _tested(item))


def _json(path: str) -> Any:
    text = Path(path).read_text(encoding="utf-8")
    body = json_or_text(text)
    if isinstance(body, str):
        raise InvalidInput(f"{path} is not JSON.", value=path, field="body", hint="Save the body of a delivery in it.")
    return body


def _tested(item: Document) -> list[str]:
    lines = [one_line(f"✓ The signature of {item['name']} is verified. Key: {item['key']}")]
    for schedule in item["schedules"]:
        sign, said = ("✓", "concerned") if schedule["matches"] else ("–", f"not concerned. {schedule['reason']}")
        lines.append(one_line(f"{sign} {schedule['schedule']} is {said}"))
        lines += [f"    {line}" for line in block(schedule["prompt"] or "").split("\n") if schedule["prompt"]]
    if not item["schedules"]:
        lines.append(f"No schedule listens: matins edit NAME --on 'webhook {item['name']}'")
    last = "Dry run: nothing was fired." if item["outcome"] == "dry_run" else f"{item['outcome']}: {outcome(item)}"
    return [*lines, one_line(last)]


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


pings = NounGroup("pings", help_of("pings"), default="url")
_schedule = click.argument("name", shell_complete=complete_keys("schedules"))


@pings.command()
@_schedule
@agent_option()
@pass_context
def url(context: CliContext, name: str, agent: str | None) -> None:
    """Print the URL that the work of a schedule calls when it is done. It is a secret."""
    _show_address(context, context.call("pings.url", name=name, agent=agent))


@pings.command()
@_schedule
@agent_option()
@pass_context
def rotate(context: CliContext, name: str, agent: str | None) -> None:
    """Give a schedule another URL. The former one is unknown from now on."""
    _show_address(context, context.call("pings.rotate", name=name, agent=agent))


@pings.command()
@_schedule
@click.argument("signal", default="success")
@click.option("--text", "-m", metavar="TEXT", help="What the work wrote.")
@agent_option()
@pass_context
def send(context: CliContext, name: str, signal: str, text: str | None, agent: str | None) -> None:
    """Report on work: SIGNAL is success, fail, start, or an exit code."""
    run = context.call("pings.send", name=name, signal=signal, text=text, agent=agent)
    context.show(run, lambda: "No run waits for a ping." if run is None else one_line(f"Run {run['id']} has its ping."))


def _show_address(context: CliContext, item: Document) -> None:
    base: str = context.call("http_server.get")["public_url"] or getattr(context.transport, "url", None) or ""
    context.show(item, lambda: f"{base.rstrip('/')}{item['path']}")
