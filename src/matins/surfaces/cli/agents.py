"""`matins agents`: the commands of every record, with relative directories resolved, and the tools of the agents."""

from __future__ import annotations

import os

from matins.surfaces.cli.context import CliContext, Document
from matins.surfaces.cli.framework import pass_context
from matins.surfaces.cli.records import Settings, record_group
from matins.surfaces.cli.states import last_run
from matins.surfaces.cli.tables import Cell, Column

_COLUMNS = (
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


@agents.command("list")
@pass_context
def list_agents(context: CliContext) -> None:
    """List the agents: whether their tools are found, how they log in, and their last run."""
    found: list[Document] = context.call("agents.list")
    context.show(found, lambda: _table(context, found))


def _table(context: CliContext, found: list[Document]) -> list[str]:
    tools: list[Document] = context.call("system.tools")
    by_agent = {tool["agent"]: tool for tool in tools}
    last = _last_runs(context)
    items = [{**item, "tool": by_agent.get(item["name"]), "last_run": last.get(item["name"])} for item in found]
    free = [tool for tool in tools if tool["agent"] is None and tool["path"]]
    more = [f"Installed, without an agent: {', '.join(tool['runner'] for tool in free)}"] if free else []
    return [*(context.table(_COLUMNS, items) if items else [_NONE]), *more]


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


def _last_runs(context: CliContext) -> dict[str, Document]:
    """The newest run of each agent."""
    newest: dict[str, Document] = {}
    for schedule in context.call("schedules.list", limit=_MAX_SCHEDULES):
        run, agent = schedule["last_run"], schedule["agent"]
        if run and (agent not in newest or int(run["id"]) > int(newest[agent]["id"])):
            newest[agent] = run
    return newest
