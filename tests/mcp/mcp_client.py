"""The official SDK's client, over HTTP and through the bridge, in both eras of the protocol."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import httpx2
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

MODES = ("auto", "legacy")
Work = Callable[[Client], Awaitable[Any]]


class Answer(NamedTuple):
    failed: bool
    found: dict[str, Any]
    text: str


def over_http(url: str, token: str, work: Work, mode: str = "auto", **options: Any) -> Any:
    async def run() -> Any:
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=90, trust_env=False) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode, **options) as client,  # type: ignore[arg-type]
        ):
            return await work(client)

    return asyncio.run(run())


def over_stdio(words: list[str], environment: dict[str, str], work: Work, mode: str = "auto") -> Any:
    async def run() -> Any:
        parameters = StdioServerParameters(command=sys.executable, args=["-m", "matins", *words], env=environment)
        async with Client(stdio_client(parameters), mode=mode) as client:  # type: ignore[arg-type]
            return await work(client)

    return asyncio.run(run())


async def use(client: Client, tool: str, **arguments: Any) -> Answer:
    result: Any = await client.call_tool(tool, arguments)
    text = "".join(part.text for part in result.content)
    found = result.structured_content or {}
    if not result.is_error:
        assert json.loads(text) == found, "both forms say the same"
        assert next(iter(found)) == "summary"
    return Answer(bool(result.is_error), found, text)
