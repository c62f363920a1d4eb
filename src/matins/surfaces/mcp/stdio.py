"""MCP over stdin and stdout on the store itself, where no daemon runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from matins.api.use_case import Caller
from matins.model.access import Principal
from matins.surfaces.mcp.desk import Desk

NOT_RUNNING = "Note: no daemon is running, so nothing fires until `matins up`."


def serve_store(caller: Caller, principal: Principal, toolset: str) -> None:
    """Serve until the client closes its end."""
    asyncio.run(_serve(caller, principal, toolset))


async def _serve(caller: Caller, principal: Principal, toolset: str) -> None:
    from mcp.server.stdio import stdio_server

    from matins.surfaces.mcp.server import ToolServer

    desk = Desk(caller, principal, "http://127.0.0.1:7411", NOT_RUNNING)

    async def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.to_thread(function, *arguments)

    server = ToolServer(lambda ctx: (desk, toolset), in_thread).server
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())
