"""`matins backfill` and `matins backfills`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args
from zoneinfo import ZoneInfo

import click

from matins.model.run import BackfillChoice
from matins.model.words import counted
from matins.surfaces.cli.command_index import help_of
from matins.surfaces.cli.context import CliContext, Document
from matins.surfaces.cli.framework import (
    NounGroup,
    Page,
    PlainOption,
    agent_option,
    complete_keys,
    name_argument,
    number_argument,
    page_options,
    pass_context,
    root_command,
    without_none,
)
from matins.surfaces.cli.tables import Column, state_text
from matins.surfaces.cli.times import duration_text, instant
from matins.surfaces.display import one_line

_COLUMNS = (
    Column("BACKFILL", "id"),
    Column("SCHEDULE", "schedule", 16, middle=True),
    Column("STATE", "state"),
    Column("FROM", lambda item, now: item["first_slot"][:10]),
    Column("TO", lambda item, now: item["last_slot"][:10]),
    Column("RUNS", lambda item, now: f"{item['made']}/{item['planned']}", right=True),
    Column("COST", "cost", right=True),
    Column("WHAT", "sentence", 20),
)
_EMPTY = "There is no backfill. Start one: matins backfill NAME --from 2026-11-01 --to 2026-11-10"


@root_command("backfill")
@name_argument
@agent_option()
@click.option(
    "--from", "start", cls=PlainOption, metavar="TIME", required=True, help="First slot: a day, or 2026-11-01T09:00."
)
@click.option("--to", "end", cls=PlainOption, metavar="TIME", required=True, help="Last slot; a day is included.")
@click.option(
    "--which",
    type=click.Choice(get_args(BackfillChoice)),
    default="missing",
    help="Slots that are missing, those that failed too, or all. Default: missing.",
)
@click.option("--newest-first", is_flag=True, help="Begin with the newest slot.")
@click.option(
    "--limit", cls=PlainOption, type=click.IntRange(1, 100_000), metavar="N", help="Most runs. Default: 1000."
)
@click.option("--max-parallel", cls=PlainOption, type=click.IntRange(1, 100), metavar="N", default=1,
              help="Runs at once, where runs may overlap. Default: 1.")  # fmt: skip
@click.option("--max-cost", metavar="AMOUNT", help="Most that all runs may cost: $5.")
@click.option("--dry-run", is_flag=True, help="Only show the preview.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@pass_context
def backfill(
    context: CliContext, name: str, agent: str | None, max_cost: str | None, dry_run: bool, yes: bool, **chosen: Any
) -> None:
    """Times without an offset are on the clock of the schedule. The runs have the settings of now; the records of the
    slots stay as they are.
    """
    wanted = without_none(name=name, agent=agent, **chosen)
    found = context.send("backfills.preview", wanted)
    if dry_run or not found["runs"]:
        context.show(found, lambda: _preview(context, found))
        if not found["runs"] and not dry_run:
            context.note("No slot is left to run.")
        return
    if not context.as_json:
        for line in _preview(context, found):
            click.echo(line)
    if not yes and not context.is_interactive:
        raise click.UsageError("Without a terminal to ask at, --yes starts it; --dry-run only shows the preview.")
    context.confirm(f"Start {counted(found['runs'], 'run')}?", yes=yes)
    more = without_none(max_cost=max_cost, expect=found["runs"])
    made = context.send("backfills.create", {**wanted, **more})
    text = f"Backfill {made['id']} is running. Follow it: matins backfills show {made['id']}"
    context.show(made, lambda: one_line(text))
    context.note_if_not_running()


def _preview(context: CliContext, found: Document) -> list[str]:
    zone = ZoneInfo(found["timezone"])
    first, last = (f"{instant(found[key]).astimezone(zone):%a %-d %b %H:%M}" for key in ("first_slot", "last_slot"))
    span = first if found["slots"] == 1 else f"{first} to {last}"
    lines = [f"{counted(found['slots'], 'slot')} of {found['schedule']}, {span}, {found['timezone']}:"]
    run, kept = ([group for group in found["groups"] if group["runs"] is runs] for runs in (True, False))
    width = len(str(found["slots"]))
    more = sum(group["slots"] for group in run) - found["runs"]
    lines.append(f"  {sum(group['slots'] for group in run):{width}} to run   {_groups(run)}".rstrip())
    if kept:
        failed = any(group["state"] == "failed" for group in kept)
        tip = " (to run them too: --which failed)" if failed else ""
        lines.append(f"  {sum(group['slots'] for group in kept):{width}} kept     {_groups(kept)}{tip}")
    if more:
        lines.append(f"  Of these, {counted(found['runs'], 'run')} are made: the limit.")
    order = "the newest first" if found["newest_first"] else "the oldest first"
    at_once = "One at a time" if found["max_parallel"] == 1 else f"{found['max_parallel']} at a time"
    lines.append(f"{at_once}, {order}{_usual(found)}.")
    return context.sentences([*lines, *found["notes"]])


def _groups(groups: list[Document]) -> str:
    return ", ".join(_group(group) for group in groups)


def _group(group: Document) -> str:
    if group["state"] is None:
        return f"{group['slots']} without a record"
    reason = f" ({state_text(group['reason'])})" if group["reason"] and group["reason"] != group["state"] else ""
    return f"{group['slots']} {state_text(group['state'])}{reason}"


def _usual(found: Document) -> str:
    if found["usual_ms"] is None:
        return ""
    each, whole = duration_text(found["usual_ms"]), duration_text(found["duration_ms"])
    if found["usual_cost"] is None:
        return f"; usually {each} each: about {whole}"
    return f"; usually {each} and {found['usual_cost']} each: about {whole} and {found['cost']}"


backfills = NounGroup("backfills", help_of("backfills"))
_number = number_argument("backfill_id", "BACKFILL", "a backfill", "matins backfills")


@backfills.command("list")
@click.argument("schedule", required=False, shell_complete=complete_keys("schedules"))
@agent_option()
@page_options("--before", default=20)
@pass_context
def list_backfills(
    context: CliContext, schedule: str | None, agent: str | None, before: str | None, limit: int
) -> None:
    """List backfills of all schedules, or of one. The newest is first."""
    chosen = {"schedule": schedule, "agent": agent, "before": before}
    page = Page.of(limit, lambda count: context.call("backfills.list", **chosen, limit=count))
    context.show_list(_COLUMNS, page.items, _EMPTY)
    page.note_more(context, "matins backfills --before", page.last_id)


@backfills.command()
@_number
@pass_context
def show(context: CliContext, backfill_id: str) -> None:
    """Show how far a backfill is."""
    item = context.call("backfills.get", backfill_id=backfill_id)
    context.show(item, lambda: _shown(context, item))


def _changing(verb: str, text: str) -> Callable[..., Any]:
    @pass_context
    def change(context: CliContext, backfill_id: str) -> None:
        item = context.call(f"backfills.{verb}", backfill_id=backfill_id)
        context.show(item, lambda: one_line(item["sentence"]))

    return backfills.command(verb, help=text)(_number(change))


_changing("pause", "Pause a backfill. Runs that have started continue.")
_changing("resume", "Resume a paused backfill.")


@backfills.command()
@_number
@click.option("--let-run", is_flag=True, help="Let runs that have started go on.")
@pass_context
def cancel(context: CliContext, backfill_id: str, let_run: bool) -> None:
    """End a backfill and its runs."""
    item = context.call("backfills.cancel", backfill_id=backfill_id, let_run=let_run)
    context.show(item, lambda: one_line(item["sentence"]))


def _shown(context: CliContext, item: Document) -> list[str]:
    states = ", ".join(f"{count} {state_text(state)}" for state, count in item["states"].items())
    return context.fields(
        ("backfill", item["id"]),
        ("schedule", item["schedule"]),
        ("state", item["sentence"]),
        ("slots", f"{context.when(item['first_slot'])} to {context.when(item['last_slot'])}, {item['which']}"),
        ("runs", states or None),
        ("cost", item["cost"] + (f" of {item['max_cost']}" if item["max_cost"] else "")),
        ("started", f"{context.when(item['created_at'])} by {item['created_by']}"),
        ("ended", context.when(item["ended_at"]) if item["ended_at"] else None),
    )
