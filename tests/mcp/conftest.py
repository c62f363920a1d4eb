"""One server for the module: in process, on SQLite, with the tools."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "surfaces" / "http"))

from http_server import HttpServer

from matins.mcp.app import McpApp


@pytest.fixture(scope="module")
def server() -> Iterator[HttpServer]:
    one = HttpServer("sqlite://", parts=[McpApp("http://page.test")])
    one.matins.agents.set("scout", runner="demo")
    one.matins.agents.set("rover", runner="demo")
    one.matins.add("first", when="every day at 9am", agent="scout", prompt="Say hello")
    one.matins.runs.wait(one.matins.run("first").id, timeout=60)
    one.matins.delete("first")
    yield one
    one.close()
