"""`matins mcp`: tools for agents, over stdin and stdout; and their place in the configuration of coding agents."""

from __future__ import annotations

import os

import click

from matins.errors import InvalidInput, NotAllowed
from matins.surfaces.cli.command_index import help_of
from matins.surfaces.cli.context import CliContext, Document
from matins.surfaces.cli.framework import NounGroup, pass_context
from matins.surfaces.home import Home

TOOLSETS = ("run", "polpo", "cortex")
INSTALLED = ("claude", "codex", "gemini", "goose", "opencode")
mcp = NounGroup("mcp", help_of("mcp"), default="serve")


@mcp.command()
@click.option("--toolset", type=click.Choice(TOOLSETS), help="Tools by other names. Default: all of Matins' own.")
@click.option("--client", metavar="NAME", default="mcp", help="Name under which its schedules are proposed.")
@pass_context
def serve(context: CliContext, toolset: str | None, client: str) -> None:
    """Serve MCP on stdin and stdout, with the rights of an agent.

    Requests go to the daemon. Without one, the store itself is served, and nothing fires.
    """
    context.app.serve_mcp(client, toolset, **context.location)


@mcp.command()
@click.argument("client", type=click.Choice(INSTALLED))
@click.option("--agent", metavar="NAME", help="Agent for which it proposes schedules. Default: the name of the client.")
@click.option("--remove", is_flag=True, help="Remove Matins from its configuration.")
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
@pass_context
def install(context: CliContext, client: str, agent: str | None, remove: bool, dry_run: bool) -> None:
    """Add Matins to the MCP servers of a coding agent, for this user.

    Everything else in its configuration stays as it is. The former file is kept beside it.
    """
    from matins.surfaces.mcp.clients import CLIENTS
    from matins.surfaces.mcp.install import make, plan, tools_of

    if os.environ.get("MATINS_IN_RUN"):
        raise NotAllowed("An agent in a run cannot change the configuration of a person's tools.")
    declared = CLIENTS[client]
    change = plan(declared, None if remove else _command(context, agent or client), os.environ)
    found: Document = {"client": client, "file": str(change.file), "entry": change.entry, "changed": change.is_needed,
                       "backup": None, "tools": []}  # fmt: skip
    if not dry_run:
        if change.is_needed:
            found["backup"] = str(make(client, declared, change) or "") or None
        if not remove:
            _make_agent(context, agent or client, client)
            found["tools"] = tools_of(declared, change.file)
    context.show(found, lambda: _told(found, remove=remove, dry_run=dry_run))


def _command(context: CliContext, agent: str) -> list[str]:
    """What the client starts. It names the home, since clients pass on few variables, and it holds no secret."""
    from matins.surfaces.mcp.install import own_program

    location = context.location
    if location["store"]:
        hint = "Start the daemon with this store, and leave out --store and MATINS_STORE."
        raise InvalidInput("The tools of a coding agent reach a daemon, and not a store.", field="store", hint=hint)
    url = [f"--url={location['url']}"] if location["url"] else []
    return [*own_program(), f"--home={Home(location['home']).path}", *url, "mcp", f"--client={agent}"]


def _make_agent(context: CliContext, name: str, runner: str) -> None:
    """Create the agent if it does not exist: what the client proposes runs as this agent."""
    if all(item["name"] != name for item in context.call("agents.list")):
        context.call("agents.set", name=name, runner=runner)


def _told(found: Document, *, remove: bool, dry_run: bool) -> list[str]:
    from matins.surfaces.mcp.clients import json_line

    file, client = found["file"], found["client"]
    if remove:
        done = f"Would remove Matins from {file}." if dry_run else f"Removed Matins from {file}."
        lines = [done if found["changed"] else f"Matins is not in {file}: nothing to remove."]
    elif not found["changed"]:
        lines = [f"Matins is already in {file}."]
    else:
        lines = [f"{'Would add' if dry_run else 'Added'} Matins to {file}: {json_line(found['entry'])}"]
    if found["backup"]:
        lines.append(f"The former file is {found['backup']}.")
    if found["tools"]:
        lines.append(
            f"The server answers with {len(found['tools'])} tools. Restart {client}, and ask it: What is scheduled?"
        )
        lines.append("What it creates waits for you: matins approvals")
    return lines
