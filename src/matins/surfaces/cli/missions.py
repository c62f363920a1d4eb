"""`matins missions`: schedules with steps, with the status of a mission."""

from __future__ import annotations

import shlex
from typing import Any

import click

from matins.surfaces.cli.command_index import help_of
from matins.surfaces.cli.context import CliContext, Document
from matins.surfaces.cli.framework import (
    NounGroup,
    Page,
    agent_option,
    complete_keys,
    deletion,
    page_options,
    pass_context,
)
from matins.surfaces.cli.options import SCHEDULE, given_settings, setting_options, when_option
from matins.surfaces.cli.schedule_settings import given_steps, step_option
from matins.surfaces.cli.steps import step_tree
from matins.surfaces.cli.tables import Column, last_run, mission_status, moment
from matins.surfaces.cli.times import full_time
from matins.surfaces.display import one_line

_STATUSES = ("draft", "scheduled", "recurring", "active", "paused", "completed", "failed", "cancelled")
_COLUMNS = (
    Column("NAME", "name", 22, middle=True),
    Column("STATUS", lambda item, now: mission_status(item)),
    Column("WHEN", "when", 14, wraps=True),
    Column("NEXT RUN", lambda item, now: moment(item["next_run_at"], now)),
    Column("LAST RUN", lambda item, now: last_run(item["last_run"], now), 12),
)
_EMPTY = 'No missions. Make one: matins missions make release --step "Build @claude: Build it"'
_name = click.argument("name", shell_complete=complete_keys("missions"))
_agent = agent_option("Agent of the mission, if the name is ambiguous.")
missions = NounGroup("missions", help_of("missions"))


@missions.command("list")
@agent_option("Agent of the missions.")
@click.option(
    "--status",
    "-s",
    type=click.Choice(_STATUSES),
    metavar="STATUS",
    help=f"Status of the missions: {', '.join(_STATUSES[:-1])} or {_STATUSES[-1]}.",
)
@page_options("--after")
@pass_context
def list_missions(context: CliContext, agent: str | None, status: str | None, after: str | None, limit: int) -> None:
    """List missions with their status, next and last run."""
    page = Page.of(
        limit, lambda count: context.call("missions.list", agent=agent, status=status, after=after, limit=count)
    )
    empty = "No mission matches." if agent or status or after else _EMPTY
    context.show_list(_COLUMNS, page.items, empty)
    page.note_more(context, "matins missions --after", page.last_id)


@missions.command()
@_name
@agent_option("Agent of the steps that name none; created if a runner has this name.")
@when_option
@step_option
@setting_options(SCHEDULE, skip=["prompt", "command", "stdin", "job", "work_source"], own_zone=True)
@pass_context
def make(context: CliContext, name: str, agent: str | None, steps: tuple[str, ...], **options: Any) -> None:
    """Make a mission of steps. Without --when it is a draft."""
    settings = given_settings(SCHEDULE, options) | given_steps(steps)
    own_zone = context.zone_for(settings.get("when"), settings)
    item = context.call("missions.make", name=name, agent=agent, create_agent=True, **settings, **own_zone)
    context.note_all(item["notes"])
    context.show(item, lambda: _summary(context, "Made", item))
    if item["status"] == "draft":
        quoted = shlex.quote(name)
        context.note(f'To start it: matins run {quoted}. To give it a time: matins edit {quoted} --when "0 2 * * *"')


@missions.command()
@_name
@_agent
@pass_context
def show(context: CliContext, name: str, agent: str | None) -> None:
    """Show a mission: its status, its steps, its last run."""
    item = context.call("missions.get", name=name, agent=agent)
    context.show(item, lambda: _shown(context, item))


@missions.command()
@_name
@_agent
@pass_context
def draft(context: CliContext, name: str, agent: str | None) -> None:
    """Take the time of a mission away. Running runs continue."""
    item = context.call("missions.draft", name=name, agent=agent)
    context.show(item, lambda: _summary(context, "Changed", item))


@missions.command()
@_name
@_agent
@pass_context
def abort(context: CliContext, name: str, agent: str | None) -> None:
    """Take the time of a mission away, and cancel its runs."""
    item = context.call("missions.abort", name=name, agent=agent)
    context.show(item, lambda: _summary(context, "Aborted", item))


@missions.command()
@_name
@_agent
@pass_context
def delete(context: CliContext, name: str, agent: str | None) -> None:
    """Delete a mission. Its history is kept."""
    deleted = bool(context.call("missions.delete", name=name, agent=agent))
    context.show(*deletion("mission", one_line(name), deleted=deleted))


def _summary(context: CliContext, verb: str, item: Document) -> str:
    """For example: Made release: recurring, next in 3h (Fri 02:00)"""
    coming = f", next {context.when(item['next_run_at'])}" if item["next_run_at"] else ""
    return one_line(f"{verb} {item['name']}: {item['status']}{coming}")


def _shown(context: CliContext, item: Document) -> list[str]:
    next_at, last, file = item["next_run_at"], item["last_run"], item["file"]
    lines = context.fields(
        ("name", item["name"]),
        ("agent", item["agent"]),
        ("status", item["status"] + (f": {item['note']}" if item["note"] else "")),
        ("when", item["when"]),
        ("ends", item["ends_at"] and full_time(item["ends_at"])),
        ("next run", next_at and f"{context.relative_time(next_at)}, {full_time(next_at)}"),
        ("last run", last and f"{last['id']} {last_run(last, context.now).text}"),
        ("file", file and f"{file['path']}:{file['line']}"),
    )
    numbered: list[Document] = [{"number": number, **step} for number, step in enumerate(item["steps"], 1)]
    return [*lines, "", *step_tree(context, last["steps"] if last and last["steps"] else numbered)]
