"""`matins agents`, `threads` and `jobs`.

`matins agents`: the commands of every record, with relative directories resolved, and the tools of the agents.
"""

from __future__ import annotations

import os

import click

from matins.errors import NotFound
from matins.surfaces.cli.command_index import help_of
from matins.surfaces.cli.context import CliContext, Document
from matins.surfaces.cli.framework import (
    NounGroup,
    Page,
    complete_keys,
    number_argument,
    page_options,
    pass_context,
    root_command,
)
from matins.surfaces.cli.records import Settings, record_group
from matins.surfaces.cli.tables import Cell, Column, last_run, moment, plain
from matins.surfaces.cli.times import local
from matins.surfaces.display import block, one_line

_AGENT_COLUMNS = (
    Column("NAME", "name", 14, middle=True),
    Column("RUNNER", "runner", 6),
    Column("TOOL", lambda item, now: _tool(item["tool"]), 10),
    Column("LOGIN", lambda item, now: _login(item["tool"]), 8),
    Column("LAST RUN", lambda item, now: last_run(item["last_run"], now), 12),
    Column("WORKDIR", "workdir", 12, middle=True),
)
_NONE = "No agents. Create one: matins agents set scout --runner claude"
_MAX_SCHEDULES = 1_000


def workdir_from_here(context: CliContext, settings: Settings) -> Settings:
    """The settings with an absolute directory, unless the daemon may be on another machine."""
    workdir = settings.get("workdir")
    if not isinstance(workdir, str) or workdir.startswith("~") or context.location["url"]:
        return settings
    return settings | {"workdir": os.path.abspath(workdir)}  # noqa: PTH100 - a link stays as it was typed


agents = record_group("agents", workdir_from_here)


@agents.command("rename")
@click.argument("name", metavar="OLD", shell_complete=complete_keys("agents"))
@click.argument("to", metavar="NEW")
@pass_context
def rename(context: CliContext, name: str, to: str) -> None:
    """Give an agent another name. Its schedules, conversations, limits, budgets, grants and tokens follow.

    A run that waits for approval keeps its request; approval of a proposal is requested again.
    """
    item = context.call("agents.rename", name=name, to=to)
    context.show(item, lambda: one_line(f"Renamed the agent {name} to {to}."))


@agents.command("list")
@pass_context
def list_agents(context: CliContext) -> None:
    """List the agents: whether their tools are found, how they log in, and their last run."""
    found: list[Document] = context.call("agents.list")
    context.show(found, lambda: _table(context, found))


def _table(context: CliContext, found: list[Document]) -> list[str]:
    tools: list[Document] = context.call("system.tools")
    by_agent = {tool["agent"]: tool for tool in tools}
    last: dict[str, Document] = {}
    for schedule in context.call("schedules.list", limit=_MAX_SCHEDULES):
        run, name = schedule["last_run"], schedule["agent"]
        if run and (name not in last or int(run["id"]) > int(last[name]["id"])):
            last[name] = run
    items = [{**item, "tool": by_agent.get(item["name"]), "last_run": last.get(item["name"])} for item in found]
    free = [tool for tool in tools if tool["agent"] is None and tool["path"]]
    more = [f"Installed, without an agent: {', '.join(tool['runner'] for tool in free)}"] if free else []
    return [*(context.table(_AGENT_COLUMNS, items) if items else [_NONE]), *more]


def _tool(tool: Document | None) -> str | Cell:
    if tool is None or not tool["needs_credential"]:
        return "built in" if tool and not tool["path"] else "–"
    if tool["path"] is None:
        return Cell("✗ not found", "red")
    return Cell(f"✓ {tool['version'] or 'found'}", "green")


def _login(tool: Document | None) -> str | Cell:
    if tool is None or not tool["needs_credential"]:
        return "–"
    if tool["credential"] is None:
        return Cell("✗ none", "yellow")
    return Cell("✓ login" if "/" in tool["credential"] else f"✓ {tool['credential']}", "green")


_THREAD_COLUMNS = (
    Column("THREAD", "id"),
    Column("AGENT", "agent", 8, middle=True),
    Column("CHANNEL", lambda item, now: item["channel"] or item["session_name"] or "–", 8, middle=True),
    Column("STATE", "state"),
    Column("UPDATED", lambda item, now: moment(item["updated_at"], now)),
)
_EMPTY = "No threads. The first run of an agent creates one."
threads = NounGroup("threads", help_of("threads"))


@threads.command("list")
@page_options("--before", default=20)
@pass_context
def list_threads(context: CliContext, before: str | None, limit: int) -> None:
    """List conversations with agents. The newest is first."""
    page = Page.of(limit, lambda count: context.call("threads.list", before=before, limit=count))
    context.show_list(_THREAD_COLUMNS, page.items, _EMPTY)
    page.note_more(context, "matins threads --before", page.last_id)


@threads.command()
@number_argument("thread_id", "THREAD", "a thread", "matins threads")
@page_options("--after")
@pass_context
def show(context: CliContext, thread_id: str, after: str | None, limit: int) -> None:
    """Show the messages of a conversation. The oldest is first."""
    page = Page.of(limit, lambda count: context.call("threads.messages", thread_id=thread_id, after=after, limit=count))
    lines = [line for message in page.items for line in _message(context, message)]
    context.show(page.items, lambda: lines or "No messages.")
    page.note_more(context, f"matins threads show {thread_id} --after", page.last_id)


@threads.command()
@number_argument("thread_id", "THREAD", "a thread", "matins threads")
@click.argument("text")
@pass_context
def reply(context: CliContext, thread_id: str, text: str) -> None:
    """Speak to the agent of a conversation: TEXT is the prompt of a run in it."""
    run = context.call("threads.reply", thread_id=thread_id, text=text)
    context.show(run, lambda: one_line(f"Run {run['id']} of {run['schedule']}: {run['status']}."))


def _message(context: CliContext, message: Document) -> list[str]:
    run = f" (run {message['run_id']})" if message["run_id"] else ""
    head = one_line(f"{local(message['at'], context.now)} {message['role']}{run}:")
    return [head, *(f"  {line}" for line in block(message["text"].rstrip()).split("\n"))]


_JOB_COLUMNS = (
    Column("JOB", "name"),
    Column("RUNS", "runs"),
    Column("INPUTS", lambda item, now: _inputs(item), 12, wraps=True),
    Column("HELP", lambda item, now: item["help"], 16, wraps=True),
)
_INPUTS = (
    Column("INPUT", "name"),
    Column("KIND", "kind"),
    Column("DEFAULT", lambda item, now: "required" if item["required"] else plain(item["default"]), 8),
    Column("HELP", lambda item, now: item["help"], 16, wraps=True),
)


@root_command("jobs")
@click.argument("job", required=False)
@pass_context
def jobs(context: CliContext, job: str | None) -> None:
    """With JOB, its inputs are listed."""
    found: list[Document] = context.call("system.jobs")
    if job is None:
        context.show(found, lambda: context.table(_JOB_COLUMNS, found))
        return
    named = next((item for item in found if item["name"] == job), None)
    if named is None:
        raise NotFound(f'There is no job "{job}".', value=job, field="job", hint="List them: matins jobs")
    context.show(named, lambda: _job(context, named))


def _inputs(item: Document) -> str:
    """The names of the inputs; optional ones in brackets."""
    return ", ".join(one["name"] if one["required"] else f"[{one['name']}]" for one in item["inputs"]) or "–"


def _job(context: CliContext, item: Document) -> list[str]:
    needs = [
        text for text, holds in (("destructive", item["destructive"]), ("owner only", item["owner_only"])) if holds
    ]
    fields = context.fields(
        ("job", one_line(item["name"])),
        ("help", item["help"]),
        ("runs", {"function": "a function", "agent": "an agent", "event": "an event"}[item["runs"]]),
        ("approval", ", ".join(needs) or "harmless"),
        ("services", ", ".join(item["services"])),
        ("engines", str(item["engines"])),
    )
    return [*fields, "", *context.table(_INPUTS, item["inputs"])] if item["inputs"] else fields
