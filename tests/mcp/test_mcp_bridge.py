"""`matins mcp`: the bridge to a real daemon, as an agent at a keyboard has it, and as an agent in a run."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp_client import MODES, over_stdio, use

from house import House


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    one = House(tmp_path_factory.mktemp("mcp") / "home").up()
    one.ask("agents.set", name="mcp", runner="demo")
    yield one
    one.kill()


@pytest.mark.parametrize("mode", MODES)
def test_p4_the_bridge_speaks_for_an_agent_and_never_for_the_owner(house: House, mode: str) -> None:
    """P4 B7: through the daemon in both eras; its token has the role agent, and lies in a file of its own"""

    async def work(client: Client) -> None:
        assert (await use(client, "status")).found["healthy"] is True
        made = await use(client, "create_schedule", when="every day at 9am", prompt="Look", name=f"b-{mode}")
        assert made.found["approval"]["url"].startswith(house.url)
        assert (await use(client, "why", name="nothing-like-it")).failed
        assert (await client.read_resource("matins://phrases")).contents

    over_stdio(["mcp"], house.environment, work, mode)
    file = house.home / "mcp" / "mcp.token"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert house.ask("schedules.get", name=f"b-{mode}")["creator_role"] == "agent"


def test_c13_an_agent_in_a_run_schedules_itself_and_reports(house: House) -> None:
    """C13 P4 B7: with the token of its run alone; the schedule has the run as its origin; the report is the outcome"""
    calls: list[tuple[str, dict[str, Any]]] = [
        ("context", {}),
        ("list_schedules", {"mine": True}),
        ("create_schedule", {"when": "every day at 7am", "prompt": "Look again.", "name": "again"}),
        ("why", {"name": "again"}),
        ("report_outcome", {"outcome": "failed", "reason": "nothing works"}),
    ]
    agent = Path(__file__).with_name("scheduling_agent.py").read_text(encoding="utf-8")
    command = [sys.executable, "-c", agent, json.dumps(calls)]
    house.ask("agents.set", name="itself", runner="shell", command=command)
    house.ask("schedules.add", name="itself", when="every 1 day", agent="itself", prompt="Go.")
    run, output = house.fire("itself")
    answers = {line["id"]: line["result"] for line in map(json.loads, output.splitlines())}
    assert answers[0]["protocolVersion"] == "2025-06-18"
    found = {name: answers[number]["structuredContent"] for number, (name, _) in enumerate(calls, 1)}
    assert (found["context"]["run_id"], found["context"]["schedule"]) == (run.id, "itself")
    assert found["create_schedule"]["approval"]["state"] == "pending"
    made = house.ask("schedules.get", name="again")
    assert (made["created_by"], made["creator_run"], made["depth"], made["state"]) == ("itself", run.id, 1, "pending")
    assert (run.state, run.outcome["result"]["reason"]) == ("failed", "nothing works")


def test_a_dead_runs_token_opens_nothing(house: House) -> None:
    """B7 B16: the server refuses, and the bridge says so instead of falling back to the owner"""
    own = {name: value for name, value in house.environment.items() if name != "MATINS_HOME"}
    environment = {
        **own,
        "MATINS_IN_RUN": "1",
        "MATINS_URL": house.url,
        "MATINS_TOKEN": "mtr_1_1_" + "a" * 32,
    }
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    command = [sys.executable, "-m", "matins", "mcp"]
    done = subprocess.run(command, input=line + "\n", env=environment, capture_output=True, text=True, timeout=60)
    assert "invalid, expired or revoked" in json.loads(done.stdout)["error"]["message"], done.stderr


def test_without_a_daemon_the_store_is_served_and_every_answer_says_so(house: House, tmp_path: Any) -> None:
    """P4: nothing fires until there is an engine"""
    environment = {**house.environment, "MATINS_HOME": str(tmp_path / "other")}

    async def work(client: Client) -> None:
        found = await use(client, "status")
        assert found.found["healthy"] is False
        assert "nothing fires until `matins up`" in found.found["note"]

    over_stdio(["mcp"], environment, work)


LOADED = """
import atexit, runpy, sys
heavy = {"mcp", "starlette", "msgspec", "pydantic", "asyncio", "yaml", "apsw", "matins.service"}
atexit.register(lambda: print(sorted(heavy & sys.modules.keys()), file=sys.stderr))
sys.argv = ["matins", "mcp"]
runpy.run_module("matins", run_name="__main__")
"""


@pytest.mark.parametrize("where", ["at a keyboard", "in a run"])
def test_the_bridge_loads_little_beside_the_standard_library(house: House, where: str) -> None:
    """P4: it starts with every session of a client; only the command line and its JSON come besides"""
    run = {"MATINS_IN_RUN": "1", "MATINS_URL": house.url, "MATINS_TOKEN": "mtr_1_1_" + "a" * 32}
    own = {name: value for name, value in house.environment.items() if name != "MATINS_HOME"}
    environment = {**own, **run} if where == "in a run" else house.environment
    subprocess.run([sys.executable, "-m", "matins", "mcp"], stdin=subprocess.DEVNULL, env=environment, timeout=60)
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}) + "\n"
    done = subprocess.run([sys.executable, "-c", LOADED], input=line, env=environment, capture_output=True, text=True,
                          timeout=60)  # fmt: skip
    assert json.loads(done.stdout)["id"] == 1
    assert done.stderr.strip() == "[]"
