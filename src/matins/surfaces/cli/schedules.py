"""`matins list`, `show`, `pause`, `resume`, `rm`, and all commands on schedules under `matins schedules`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from functools import cache
from typing import Any, get_args

import click

from matins.model.overview import ScheduleSort, ScheduleTab
from matins.surfaces.cli.command_index import help_of
from matins.surfaces.cli.context import CANCELLED, FUTURE, CliContext, Document
from matins.surfaces.cli.framework import (
    NounGroup,
    Page,
    PlainOption,
    agent_option,
    chosen_text,
    deletion,
    limit_option,
    name_argument,
    names_argument,
    page_options,
    pass_context,
    root_command,
    selector_options,
)
from matins.surfaces.cli.steps import step_tree
from matins.surfaces.cli.tables import Column, last_run, moment, next_run, plain, schedule_state, state_text
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
@click.option("--deleted", is_flag=True, help="Deleted schedules instead.")
@page_options("--after")
@pass_context
def list_schedules(
    context: CliContext, after: str | None, limit: int, tab: str, sort: str, text: str | None, deleted: bool,
    **chosen: Any,
) -> None:  # fmt: skip
    """List schedules. NAMES may have patterns: 'report-*'."""
    select = chosen_text(**chosen, text=text)
    only = {"select": select, "tab": tab, "sort": sort, "deleted": deleted or None}
    page = Page.of(limit, lambda count: context.call("schedules.list", after=after, limit=count, **only))
    context.show(
        page.items, lambda: _listed(context, page.items, select, filtered=tab != "all" or deleted or bool(after))
    )
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


def _many(function: Any) -> Any:
    """NAMES, the options of a selector, `--all` and `--yes`."""
    yes = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
    everything = click.option("--all", "everything", is_flag=True, help="All schedules.")
    return names_argument(selector_options(everything(yes(function))))


@root_command("pause")
@_many
@click.option("--note", "-m", metavar="TEXT", help="Reason for the pause.")
@click.option("--until", type=FUTURE, metavar="INSTANT", help="When the schedule resumes: 2h, 2026-12-31T18:00.")
@pass_context
def pause(context: CliContext, note: str | None, until: str | None, **given: Any) -> None:
    name = _one_name(given)
    if name is None:
        act_on_many(context, "pause", given, note=note, until=until)
        return
    item = context.call("schedules.pause", name=name, agent=given["agent"], note=note, until=until)
    context.show(item, lambda: one_line(f"Paused {item['name']}" + _until(context, item)))


def _until(context: CliContext, item: Document) -> str:
    if item["paused_until"]:
        return f" until {context.until(item['paused_until'])}."
    return f". To resume: matins resume {shlex.quote(item['name'])}"


@root_command("resume")
@_many
@click.option("--pause", "pause_id", metavar="ID", help="Those that this pause of several schedules paused.")
@pass_context
def resume(context: CliContext, pause_id: str | None, **given: Any) -> None:
    """An interval starts again from now; any other schedule runs at its next time. Without arguments, it lists the
    pauses of several schedules."""
    name = _one_name(given)
    if pause_id is not None:
        if any(given[each] for each in ("names", "agent", "labels", "state", "everything")):
            raise click.UsageError("--pause says which schedules: give nothing else.")
        act_on_many(context, "resume", {**given, "yes": True}, select=f"pause={pause_id}")
    elif name is not None:
        item = context.call("schedules.resume", name=name, agent=given["agent"])
        context.show(item, lambda: summary(context, "Resumed", item))
    elif any(given.values()):
        act_on_many(context, "resume", given)
    else:
        found = context.call("schedules.pauses")
        context.show(found, lambda: _pauses(context, found))


def _pauses(context: CliContext, found: list[Document]) -> list[str]:
    if not found:
        return ["No pause of several schedules is in force. Paused alone: matins list --state paused"]
    return context.table(_PAUSE_COLUMNS, found)


_PAUSE_COLUMNS = (
    Column("PAUSE", "id"),
    Column("SCHEDULES", lambda item, now: str(len(item["schedules"])), right=True),
    Column("SINCE", lambda item, now: moment(item["at"], now)),
    Column("UNTIL", lambda item, now: moment(item["until"], now) if item["until"] else "–"),
    Column("BY", "by"),
    Column("REASON", lambda item, now: item["note"] or "", 16),
)


@root_command("rm")
@_many
@pass_context
def delete(context: CliContext, **given: Any) -> None:
    name = _one_name(given)
    if name is None:
        act_on_many(context, "delete", given)
        return
    deleted = bool(context.call("schedules.delete", name=name, agent=given["agent"]))
    context.show(*deletion("schedule", one_line(name), deleted=deleted))


def _one_name(given: Document) -> str | None:
    """The name, where one schedule is written out."""
    names = given["names"]
    if len(names) != 1 or "*" in names[0] or given["labels"] or given["state"] or given["everything"]:
        return None
    return names[0]


_MANY = 10
"""More than these are deleted only when the number is typed."""


def act_on_many(context: CliContext, do: str, given: Document, select: str | None = None, **more: Any) -> None:
    """Preview an action on many schedules, ask, and do it. Names that are written out need no question."""
    names, yes = given["names"], given["yes"]
    chosen = {each: given[each] for each in ("names", "agent", "labels", "state")}
    select = select or chosen_text(**chosen) or ("all" if given["everything"] else None)
    if select is None:
        message = f"Say which schedules: matins {_COMMANDS.get(do, do)} NAME, --label team=ops, --agent NAME or --all."
        raise click.UsageError(message)
    found = context.call("bulk.preview", do=do, select=select)
    written_out = bool(names) and not any("*" in name for name in names) and not (given["labels"] or given["state"])
    context.note(found["sentence"])
    if found["total"]:
        _ask(context, do, found["total"], more.get("until"), yes=yes or (written_out and do != "delete"))
    result = context.call("bulk.apply", do=do, select=select, expect=found["digest"], **more)
    context.show(result, lambda: _done(do, result))


_COMMANDS = {"delete": "rm"}


def _ask(context: CliContext, do: str, total: int, until: str | None, *, yes: bool) -> None:
    what = f"{total} schedule{'' if total == 1 else 's'}"
    if yes:
        return
    if not context.is_interactive:
        raise click.UsageError(f"This would {do} {what}. Without a terminal, give --yes.")
    if do == "delete" and total > _MANY:
        typed = click.prompt(f"Delete {what}? Type the number", default="", show_default=False, err=True)
        if typed.strip() != str(total):
            context.note("Nothing was changed.")
            raise click.exceptions.Exit(CANCELLED)
        return
    end = f" until {context.until(until)}" if until else ""
    context.confirm(f"{do.capitalize()} {what}{end}?", yes=False)


_PAST = {"pause": "Paused", "resume": "Resumed", "run": "Started", "delete": "Deleted", "edit": "Changed"}


def _done(do: str, result: Document) -> list[str]:
    total = result["total"]
    line = f"{_PAST[do]} {total} schedule{'' if total == 1 else 's'}."
    if do == "pause" and total:
        line += f" To resume just those: matins resume --pause {result['id']}"
    return [line, *(one_line(f"Skipped {each['schedule']}: {each['reason']}") for each in result["skipped"])]


@root_command("history")
@name_argument
@agent_option()
@limit_option(20)
@pass_context
def history(context: CliContext, name: str, agent: str | None, limit: int) -> None:
    found = context.call("schedules.history", name=name, agent=agent, limit=limit)
    context.show(found, lambda: [line for change in found for line in _change(context, change)])


def _change(context: CliContext, change: Document) -> list[str]:
    head = f"Revision {change['rev']}, {full_time(change['at'])}, by {one_line(change['by'])}"
    return [head, *_settings(change["settings"])] if change["settings"] else [f"{head}: created"]


def _settings(changes: list[Document]) -> list[str]:
    lines = (f"{state_text(one['setting'])}: {plain(one['before'])} → {plain(one['after'])}" for one in changes)
    return [f"  {one_line(line)}" for line in lines]


@root_command("undo")
@name_argument
@agent_option()
@click.option(
    "--to", cls=PlainOption, type=click.IntRange(1), metavar="REV", help="Revision whose settings it gets again."
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@pass_context
def undo(context: CliContext, name: str, agent: str | None, to: int | None, yes: bool) -> None:
    """Rights and approvals are those of an edit. To undo it, undo again."""
    item = context.call("schedules.get", name=name, agent=agent)
    if to is None:
        latest = context.call("schedules.history", name=name, agent=agent, limit=1)
        back = [{**each, "before": each["after"], "after": each["before"]} for each in latest[0]["settings"]]
        context.note_all(_settings(back))
    context.confirm("Undo the last change?" if to is None else f"Go back to revision {to}?", yes=yes)
    changed = context.call("schedules.undo", name=name, agent=agent, to=to, if_rev=item["rev"])
    context.show(changed, lambda: summary(context, "Changed", changed))


@root_command("rename")
@name_argument
@click.argument("to", metavar="NEW")
@agent_option()
@pass_context
def rename(context: CliContext, name: str, to: str, agent: str | None) -> None:
    """Its times, runs and history stay, and schedules that follow it and budgets of it have the new name. Approval of
    a proposal is requested again."""
    item = context.call("schedules.rename", name=name, to=to, agent=agent)
    context.show(item, lambda: summary(context, f"Renamed {name} to", item))
    context.note_all(item["notes"])


@root_command("undelete")
@name_argument
@agent_option()
@click.option("--as", "new_name", metavar="NEW", help="Another name, where the name is taken.")
@click.option("--resume", is_flag=True, help="Do not leave it paused.")
@pass_context
def undelete(context: CliContext, name: str, agent: str | None, new_name: str | None, resume: bool) -> None:
    """It has its id, runs and history again, and is paused."""
    item = context.call("schedules.undelete", name=name, agent=agent, new_name=new_name, resume=resume or None)
    context.show(item, lambda: summary(context, "Brought back", item))


@cache
def noun_group(noun: str) -> NounGroup:
    """All commands on schedules, by noun. Other modules are loaded only here, so that `matins list` is quick."""
    from matins.surfaces.cli.forecasts import preview, why
    from matins.surfaces.cli.runs import list_runs, run
    from matins.surfaces.cli.schedule_settings import add, edit

    group = NounGroup(noun, help_of(noun))
    group.takes(
        list=list_schedules, add=add, show=show, edit=edit, history=history, undo=undo,
        rename=rename, undelete=undelete,
        pause=pause, resume=resume, rm=delete, run=run,
        runs=list_runs, why=why, preview=preview,
    )  # fmt: skip
    return group
