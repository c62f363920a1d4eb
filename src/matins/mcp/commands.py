"""`matins mcp`: tools for agents, over stdin and stdout; and their place in the configuration of coding agents."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from matins.errors import InvalidInput, NotAllowed
from matins.surfaces.cli.accounts import asked_account
from matins.surfaces.cli.command_index import help_of
from matins.surfaces.cli.context import CliContext, Document
from matins.surfaces.cli.framework import NounGroup, pass_context
from matins.surfaces.display import one_line
from matins.surfaces.home import Home, TokenFile

if TYPE_CHECKING:
    from matins.api.use_case import Caller
    from matins.mcp.install import Client
    from matins.model.access import Principal


TOOLSETS = ("run", "polpo", "cortex")
RIGHTS = ("read", "run", "change")
"""Rights of a client's token. It never governs, and it approves only if a person asked for that."""
INSTALLED = ("claude", "codex", "cursor", "gemini", "goose", "opencode", "vscode")
_MEANS = {
    "agent": "What it creates waits for you: matins approvals",
    "operator": "What it creates and changes runs without asking you.",
}
mcp = NounGroup("mcp", help_of("mcp"), default="serve")


@mcp.command()
@click.option("--toolset", type=click.Choice(TOOLSETS), help="Tools by other names. Default: all of Matins' own.")
@click.option("--client", metavar="NAME", default="mcp", help="Name under which its schedules are proposed.")
@pass_context
def serve(context: CliContext, toolset: str | None, client: str) -> None:
    """Serve MCP on stdin and stdout, with the rights of an agent.

    Requests go to the daemon. Without one, the store itself is served, and nothing fires.
    """
    context.app.serve_mcp(client, toolset, _serve_store, **context.location)


def _serve_store(caller: Caller, principal: Principal, toolset: str) -> None:
    from matins.mcp.tool_server import serve_store

    serve_store(caller, principal, toolset)


@mcp.command()
@click.argument("client", type=click.Choice(INSTALLED))
@click.option("--agent", metavar="NAME", help="Agent for which it proposes schedules. Default: the name of the client.")
@click.option(
    "--scope",
    type=click.Choice(["user", "project"]),
    default="user",
    help="In your own settings, or in those of the current directory. Default: user.",
)
@click.option(
    "--role",
    type=click.Choice(["agent", "operator"]),
    default="agent",
    help="What an agent creates waits for a person; what an operator creates does not. Default: agent.",
)
@click.option("--with-approvals", is_flag=True, help="It may ask you, by a form, to approve. Needs --role operator.")
@click.option("--http", is_flag=True, help="By the address of the daemon, in place of a command.")
@click.option("--remove", is_flag=True, help="Remove Matins from its configuration.")
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
@pass_context
def install(
    context: CliContext,
    client: str,
    agent: str | None,
    scope: str,
    role: str,
    with_approvals: bool,
    http: bool,
    remove: bool,
    dry_run: bool,
) -> None:
    """Add Matins to the MCP servers of a coding agent.

    Everything else in its configuration stays as it is. The former file is kept beside it.
    """
    from matins.mcp.install import make, plan, tools_of

    if os.environ.get("MATINS_IN_RUN"):
        raise NotAllowed("An agent in a run cannot change the configuration of a person's tools.")
    declared, name, rights = _client(client, scope), agent or client, _rights(role, approves=with_approvals)
    if not remove:
        _check_agent(context, name, client)
    change = plan(declared, None if remove else _entry(context, declared, name, client, http=http), os.environ)
    found: Document = {"client": client, "file": str(change.file), "entry": change.entry, "changed": change.is_needed,
                       "backup": None, "tools": [], "role": role, "rights": rights, "token_file": None,
                       "removed": list(change.removed)}  # fmt: skip
    if not dry_run:
        if change.is_needed:
            found["backup"] = str(make(client, declared, change) or "") or None
        if not remove:
            _make_agent(context, name, client)
            kept = _token(context, name, role, rights)
            found["tools"] = tools_of(declared, change, kept.read() if http else None)
            found["token_file"] = str(kept.path) if http else None
    context.show(found, lambda: _told(found, remove=remove, dry_run=dry_run))


def _client(name: str, scope: str) -> Client:
    from matins.mcp.install import CLIENTS

    declared = CLIENTS[name] if scope == "user" else CLIENTS[name].in_project(Path.cwd())
    if declared is None:
        raise InvalidInput(f"{name} has no MCP servers of a project.", field="scope", hint="Omit --scope project.")
    return declared


def _entry(context: CliContext, declared: Client, agent: str, client: str, *, http: bool) -> Document:
    if not http:
        return declared.entry(_command(context, agent))
    if declared.http is None:
        message = f"{client} cannot read a token from a variable, and Matins writes no token into a file."
        raise InvalidInput(message, field="http", hint="Omit --http.")
    return declared.http(_address(context))


def _rights(role: str, *, approves: bool) -> list[str]:
    if approves and role == "agent":
        message = "The role agent never approves."
        raise InvalidInput(message, field="with_approvals", hint="Add --role operator, or omit --with-approvals.")
    return sorted((*RIGHTS, "approve") if approves else RIGHTS)


def _token(context: CliContext, agent: str, role: str, rights: list[str]) -> TokenFile:
    """The token of the client. One that was revoked, or has another role or other rights, is replaced."""
    kept = Home(context.location["home"]).mcp_token(agent)
    name = agent if role == "agent" else f"{agent}-{role}"  # only the agent itself has its name
    if (token := kept.read()) is not None:
        number = token.split("_")[1]
        valid = next(
            (one for one in context.call("tokens.list") if one["id"] == number and not one["revoked_at"]), None
        )
        if valid is not None and _means(valid) == (name, role, rights):
            return kept
        if valid is not None:
            context.call("tokens.revoke", token_id=number)
        kept.path.unlink()
    kept.write(context.call("tokens.create", name=name, role=role, rights=rights)["token"])
    return kept


def _means(token: Document) -> tuple[str, str, list[str]]:
    """What a token opens. One that `matins mcp` made itself has the role agent, and no rights of its own."""
    return token["name"], token["role"], sorted(token["rights"] or RIGHTS)


def _address(context: CliContext) -> str:
    """The address of the daemon's server."""
    url = context.location["url"]
    if url is None and (running := Home(context.location["home"]).running()) is not None:
        url = running.url
    if url is None:
        raise InvalidInput("No daemon is running, so it has no address.", field="http", hint="Start it: matins up")
    return f"{url.rstrip('/')}/mcp"


def _command(context: CliContext, agent: str) -> list[str]:
    """What the client starts. It names the home, since clients pass on few variables, and it holds no secret."""
    from matins.mcp.install import own_program

    location = context.location
    if location["store"]:
        hint = "Start the daemon with this store, and leave out --store and MATINS_STORE."
        raise InvalidInput("The tools of a coding agent reach a daemon, and not a store.", field="store", hint=hint)
    url = [f"--url={location['url']}"] if location["url"] else []
    return [*own_program(), f"--home={Home(location['home']).path}", *url, "mcp", f"--client={agent}"]


def _check_agent(context: CliContext, name: str, client: str) -> None:
    """Raise unless the agent exists, or can be created with the client as its runner."""
    from matins.mcp.install import CLIENTS

    if not CLIENTS[client].is_runner and all(item["name"] != name for item in context.call("agents.list")):
        hint = "Name an agent that exists: --agent NAME. To create one: matins agents set"
        message = f'There is no agent "{name}", and Matins cannot run {client}: what it proposes needs an agent.'
        raise InvalidInput(message, value=name, field="agent", hint=hint)


def _make_agent(context: CliContext, name: str, runner: str) -> None:
    """Create the agent if it does not exist: what the client proposes runs as this agent."""
    if all(item["name"] != name for item in context.call("agents.list")):
        try:
            context.call("agents.set", name=name, runner=runner)
        except InvalidInput as error:
            if error.field != "user":
                raise
            context.call("agents.set", name=name, runner=runner, **asked_account(context, error, name, runner))


def _told(found: Document, *, remove: bool, dry_run: bool) -> list[str]:
    from matins.mcp.install import json_line

    file, client = found["file"], found["client"]
    if remove:
        done = f"Would remove Matins from {file}." if dry_run else f"Removed Matins from {file}."
        lines = [done if found["changed"] else f"Matins is not in {file}: nothing to remove."]
    elif not found["changed"]:
        lines = [f"Matins is already in {file}."]
    else:
        lines = [f"{'Would add' if dry_run else 'Added'} Matins to {file}: {json_line(found['entry'])}"]
    if found["removed"]:
        lines.append(f"Removed from the entry: {one_line(', '.join(found['removed']))}.")
    if found["backup"]:
        lines.append(f"The former file is {found['backup']}.")
    if found["token_file"]:
        lines.append(f"It needs the token: export MATINS_MCP_TOKEN=$(cat {shlex.quote(found['token_file'])})")
    if found["tools"]:
        lines.append(
            f"The server answers with {len(found['tools'])} tools. Restart {client}, and ask it: What is scheduled?"
        )
        lines.append(_MEANS[found["role"]])
        if "approve" in found["rights"]:
            lines.append("If it can show forms, it can ask you to approve what others propose.")
    return lines
