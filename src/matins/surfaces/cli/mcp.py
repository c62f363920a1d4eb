"""`matins mcp`: tools for agents, over stdin and stdout."""

from __future__ import annotations

import click

from matins.surfaces.cli.catalog import help_of
from matins.surfaces.cli.context import CliContext
from matins.surfaces.cli.framework import NounGroup, pass_context

TOOLSETS = ("run", "polpo", "cortex")
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
