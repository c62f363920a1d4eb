"""`matins inbound`: the commands of every record, and those of inbound endpoints only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from matins.errors import InvalidInput
from matins.surfaces.cli.calls import list_calls, outcome, replay
from matins.surfaces.cli.context import CliContext, Document
from matins.surfaces.cli.framework import complete_keys, pass_context
from matins.surfaces.cli.records import record_group
from matins.surfaces.cli.terminal_text import block, one_line
from matins.surfaces.text_values import json_or_text

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
