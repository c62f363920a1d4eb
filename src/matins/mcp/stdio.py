"""MCP over stdin and stdout on the store itself, where no daemon runs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import orjson

from matins.api.use_case import Caller
from matins.mcp import json_rpc
from matins.mcp.json_rpc import Json, ProtocolError
from matins.mcp.principal_calls import PrincipalCalls
from matins.mcp.tool_server import ToolServer
from matins.model.access import Principal

NOT_RUNNING = "Note: no daemon is running, so nothing fires until `matins up`."


def serve_store(caller: Caller, principal: Principal, toolset: str) -> None:
    """Serve until the client closes its end."""
    asyncio.run(_serve(PrincipalCalls(caller, principal, "http://127.0.0.1:7411", NOT_RUNNING), toolset))


async def _serve(calls: PrincipalCalls, toolset: str) -> None:
    """A call that waits does not hold up the next."""

    async def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.to_thread(function, *arguments)

    server = ToolServer(in_thread)
    async with asyncio.TaskGroup() as answers:
        while line := await asyncio.to_thread(sys.stdin.readline):
            if line.strip():
                answers.create_task(_answer(server, line, calls, toolset))


async def _answer(server: ToolServer, line: str, calls: PrincipalCalls, toolset: str) -> None:
    number = None
    try:
        message = json_rpc.read(line)
        number = message.get("id")
        answer: Json | None = await server.answer(message, json_rpc.request_of(message), calls, toolset)
    except ProtocolError as error:
        answer = json_rpc.error_response(number, error)
    if answer is not None:
        sys.stdout.write(orjson.dumps(answer).decode() + "\n")
        sys.stdout.flush()
