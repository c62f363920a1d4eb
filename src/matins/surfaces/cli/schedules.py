"""`matins list`, `show`, `pause`, `resume`, `rm`, and all commands on schedules under `matins schedules`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from functools import cache
from typing import Any, get_args

import click

from matins.model.overview import ScheduleSort, ScheduleTab
from matins.surfaces.cli.command_index import help_of
from matins.surfaces.cli.context import FUTURE, CliContext, Document
from matins.surfaces.cli.framework import (
    NounGroup,
    Page,
    agent_option,
    chosen_text,
    deletion,
    name_argument,
    names_argument,
    page_options,
    pass_context,
    root_command,
    selector_options,
)
from matins.surfaces.cli.steps import step_tree
from matins.surfaces.cli.tables import Column, last_run, next_run, plain, schedule_state, state_text
from matins.surfaces.cli.times import full_time
from matins.surfaces.display import block, one_line

_TABS, _SORTS = get_args(ScheduleTab), get_args(ScheduleSort)
_COLUMNS = (
    Column("NAME", "name", 22, middle=True),
    Column("AGENT", "agent", 6, middle=True),
    Column("WHEN", "trigger_text", 14, wraps=True),
    Column("NEXT RUN", next_run),
    Column("LAST RUN", lambda item, now: last_run(item["last_run"], now), 12),
)
EXAMPLE = 'matins add "every weekday at 9am" --agent claude "Summarise my open PRs"'
_SHOWN_BEFORE = ("when", "timezone", "prompt", "steps")


def summary(context: CliContext, verb: str, schedule: Document) -> str:
    """For example: Added morning: every weekday at 09:00 (UTC), next in 3d (Mon 09:00)."""
    coming = "" if schedule["next_run_at"] is None else f", next {context.when(schedule['next_run_at'])}"
    state = "" if schedule["state"] == "active" else f", {schedule_state(schedule).text}"
    return one_line(f"{verb} {schedule['name']}: {schedule['trigger_text']} ({schedule['timezone']}){coming}{state}")


@root_command("list")
@names_argument
@selector_options
@click.option("--text", "-q", metavar="TEXT", help="Text in name, agent, settings or note.")
@click.option("--tab", "-t", type=click.Choice(_TABS), default="all", help="Part of the schedules.")
@click.option("--sort", type=click.Choice(_SORTS), default="created", help="Order of the schedules.")
@page_options("--after")
@pass_context
def list_schedules(
    context: CliContext, after: str | None, limit: int, tab: str, sort: str, text: str | None, **chosen: Any
) -> None:
    """List schedules. NAMES may have patterns: 'report-*'."""
    select = chosen_text(**chosen, text=text)
    only = {"select": select, "tab": tab, "sort": sort}
    page = Page.of(limit, lambda count: context.call("schedules.list", after=after, limit=count, **only))
    context.show(page.items, lambda: _listed(context, page.items, select, filtered=tab != "all" or bool(after)))
    page.note_more(context, "matins list --after", page.last_id)


def _listed(context: CliContext, items: list[Document], select: str | None, *, filtered: bool) -> Iterable[str]:
    if not items and select:
        return [f"No schedule matches: {one_line(select)}."]
    if not items:
        return ["No schedule matches." if filtered else f"No schedules (looked in {context.where}). Add one: {EXAMPLE}"]
    return context.table(_COLUMNS, items)


@root_command("show")
@name_argument
@agent_option()
@pass_context
def show(context: CliContext, name: str, agent: str | None) -> None:
    item = context.call("schedules.get", name=name, agent=agent)
    context.show(item, lambda: _shown(context, item))


def _shown(context: CliContext, item: Document) -> list[str]:
    settings = {name: value for name, value in item["settings"].items() if name not in _SHOWN_BEFORE}
    next_at, file = item["next_run_at"], item["file"]
    lines = context.fields(
        ("name", item["name"]),
        ("agent", item["agent"]),
        ("state", _state(context, item)),
        ("when", f"{item['trigger_text']} ({item['timezone']})"),
        ("next run", next_at and f"{context.relative_time(next_at)}, {full_time(next_at)}"),
        ("last run", last_run(item["last_run"], context.now).text),
        *((state_text(name), plain(value)) for name, value in settings.items()),
        ("runs", _run_count(item)),
        ("file", file and f"{file['path']}:{file['line']}"),
        ("created", f"{context.relative_time(item['created_at'])} by {item['created_by']}, revision {item['rev']}"),
    )
    if item["settings"].get("steps"):
        lines += ["", *step_tree(context, _steps(context, item))]
    if item["prompt"]:
        lines += ["", *(f"  {line}" for line in block(item["prompt"]).split("\n"))]
    return lines


def _steps(context: CliContext, item: Document) -> list[Document]:
    """The steps; while a run is live, with their states."""
    last = item["last_run"]
    if last and last["live"] and last["rev"] == item["rev"]:
        return context.call("runs.get", run_id=last["id"])["steps"]
    return [{"number": number, **step} for number, step in enumerate(item["settings"]["steps"], 1)]


def _run_count(item: Document) -> str:
    by_hand = f", and {item['manual_runs']} by hand" if item["manual_runs"] else ""
    return f"{item['executions']}{by_hand}" + (f", the last {item['failures']} failed" if item["failures"] else "")


def _state(context: CliContext, item: Document) -> str:
    if item["state"] != "paused":
        return schedule_state(item).text
    until = f", until {context.until(item['paused_until'])}" if item["paused_until"] else ""
    note = f": {item['note']}" if item["note"] else ""
    return f"‖ paused by {item['paused_by']} {context.relative_time(item['paused_at'])}{until}{note}"


@root_command("pause")
@name_argument
@agent_option()
@click.option("--note", "-m", metavar="TEXT", help="Reason for the pause.")
@click.option("--until", type=FUTURE, metavar="INSTANT", help="When the schedule resumes: 2h, 2026-12-31T18:00.")
@pass_context
def pause(context: CliContext, name: str, agent: str | None, note: str | None, until: str | None) -> None:
    item = context.call("schedules.pause", name=name, agent=agent, note=note, until=until)
    context.show(item, lambda: one_line(f"Paused {item['name']}" + _until(context, item)))


def _until(context: CliContext, item: Document) -> str:
    if item["paused_until"]:
        return f" until {context.until(item['paused_until'])}."
    return f". To resume: matins resume {shlex.quote(item['name'])}"


@root_command("resume")
@name_argument
@agent_option()
@pass_context
def resume(context: CliContext, name: str, agent: str | None) -> None:
    """An interval starts again from now; any other schedule runs at its next time."""
    item = context.call("schedules.resume", name=name, agent=agent)
    context.show(item, lambda: summary(context, "Resumed", item))


@root_command("rm")
@name_argument
@agent_option()
@pass_context
def delete(context: CliContext, name: str, agent: str | None) -> None:
    deleted = bool(context.call("schedules.delete", name=name, agent=agent))
    context.show(*deletion("schedule", one_line(name), deleted=deleted))


@cache
def noun_group(noun: str) -> NounGroup:
    """All commands on schedules, by noun. Other modules are loaded only here, so that `matins list` is quick."""
    from matins.surfaces.cli.forecasts import preview, why
    from matins.surfaces.cli.runs import list_runs, run
    from matins.surfaces.cli.schedule_settings import add, edit

    group = NounGroup(noun, help_of(noun))
    group.takes(
        list=list_schedules, add=add, show=show, edit=edit, pause=pause, resume=resume, rm=delete, run=run,
        runs=list_runs, why=why, preview=preview,
    )  # fmt: skip
    return group
