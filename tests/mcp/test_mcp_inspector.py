"""The MCP project's own inspector, from npm, on a real daemon: see `make test-real`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from house import House

pytestmark = pytest.mark.skipif(not os.environ.get("MATINS_TEST_REAL"), reason="npm installs the inspector")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    one = House(tmp_path_factory.mktemp("inspector") / "home").up()
    one.ask("agents.set", name="inspector", runner="demo")
    yield one
    one.kill()


def inspect(house: House, *words: str, code: int = 0) -> dict[str, Any]:
    from real.install import inspector

    programs = inspector()
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(house.home.parent)}
    done = subprocess.run([programs / "mcp-inspector", "--cli", *words], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=120, env=environment, cwd=house.home.parent)  # fmt: skip
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout) if done.stdout else {}


def over_http(house: House) -> list[str]:
    token = house.ask("tokens.create", name="inspector", role="agent")["token"]
    return [f"{house.url}/mcp", "--transport", "http", "--header", f"Authorization: Bearer {token}"]


def over_stdio(house: House) -> list[str]:
    """By a file: it takes options after a command for its own."""
    file = Path(house.home.parent) / "servers.json"
    arguments = ["-m", "matins", f"--home={house.home}", "mcp", "--client=inspector"]
    file.write_text(json.dumps({"mcpServers": {"matins": {"command": sys.executable, "args": arguments}}}))
    return ["--config", str(file), "--server", "matins"]


@pytest.mark.parametrize("way", [over_http, over_stdio])
def test_p4_the_inspector_lists_calls_and_reads(house: House, way: Any) -> None:
    """P4: tools, a proposal that waits, an error that names the next step, prompts and resources"""
    server = way(house)
    tools = [tool["name"] for tool in inspect(house, *server, "--method", "tools/list")["tools"]]
    assert {"create_schedule", "why"} <= set(tools)
    call = (*server, "--method", "tools/call", "--tool-name")
    words = ("when=every day at 9am", "prompt=Look around", f"name={way.__name__}")
    made = inspect(house, *call, "create_schedule", *(word for pair in words for word in ("--tool-arg", pair)))
    assert made["structuredContent"]["approval"]["url"].startswith(house.url)
    assert house.ask("schedules.get", name=way.__name__)["state"] == "pending"
    failed = inspect(house, *call, "why", "--tool-arg", "name=nothing-like-it", code=5)
    assert "call list_schedules" in failed["content"][0]["text"]
    assert len(inspect(house, *server, "--method", "prompts/list")["prompts"]) == 3
    read = inspect(house, *server, "--method", "resources/read", "--uri", "matins://phrases")
    assert "every day" in read["contents"][0]["text"]


def test_a_wrong_token_opens_nothing(house: House) -> None:
    """B7: the inspector is asked to log in, and there is no login by itself"""
    inspect(house, f"{house.url}/mcp", "--transport", "http", "--stored-auth-only", "--method", "tools/list", code=3)
