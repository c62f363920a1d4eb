"""The tools of Polpo and Cortex, by their own names: each call of the seeds' pages, by path and by `matins mcp`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from http_server import HttpServer
from mcp.client import Client
from mcp_client import Work, over_http, over_stdio, use

from house import House
from matins.seeds.cortex import schedule_add

Over = Callable[[str, Work], Any]
NIGHTLY = [
    {"title": "Run full test suite", "prompt": "Run all integration and unit tests. Report any failures.",
     "agent": "scout"},
    {"title": "Generate coverage report", "prompt": "Generate a coverage report and save to coverage-report.md.",
     "agent": "rover", "after": ["Run full test suite"]},
]  # fmt: skip
ENTRY = ["id", "missionId", "expression", "recurring", "enabled", "lastRunAt", "nextRunAt", "createdAt"]
FIELDS = ["channel", "sessionId", "sessionName", "threadId", "profile", "project", "backend"]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A daemon, for the bridge."""
    one = House(tmp_path_factory.mktemp("seeds") / "home").up()
    for name in ("scout", "rover", "claude-sonnet"):
        one.ask("agents.set", name=name, runner="demo")
    yield one
    one.kill()


@pytest.fixture(params=["path", "bridge"])
def over(request: pytest.FixtureRequest, server: HttpServer, house: House) -> Over:
    """A client with the owner's rights: by the path of the toolset, or by `matins mcp --toolset`."""
    if request.param == "path":
        server.matins.agents.set("claude-sonnet", runner="demo")
        token = server.new_token("owner", "o")
        return lambda toolset, work: over_http(f"{server.url}/mcp/{toolset}", token, work)
    owner = f"--token={(house.home / 'token').read_text().strip()}"
    return lambda toolset, work: over_stdio([owner, "mcp", "--toolset", toolset], house.environment, work)


@pytest.fixture
def mission(request: pytest.FixtureRequest, server: HttpServer, house: House) -> Iterator[str]:
    """The nightly tests of Polpo's page, as a draft."""
    by_bridge = "bridge" in request.node.callspec.id
    missions = house.client.missions if by_bridge else server.matins.missions
    missions.make("nightly", steps=NIGHTLY)
    yield "nightly"
    missions.delete("nightly")


def test_p1_polpos_page_word_by_word(over: Over, mission: str) -> None:
    """P1 P4 P10: the seed's calls, its entry's fields and statuses; creating again replaces"""

    async def work(client: Client) -> None:
        tools = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
        assert list(tools) == ["create_schedule", "list_schedules", "update_schedule", "delete_schedule"]
        assert list(tools["create_schedule"]["properties"]) == ["missionId", "expression", "recurring", "endDate"]

        made = (await use(client, "create_schedule", missionId=mission, expression="0 2 * * *", recurring=True)).found
        assert list(made)[1:9] == ENTRY
        assert (made["id"], made["missionId"], made["expression"]) == ("sched-nightly", "nightly", "0 2 * * *")
        assert (made["recurring"], made["enabled"], made["lastRunAt"]) == (True, True, None)
        assert (made["status"], made["nextRunAt"][11:16], made["endDate"]) == ("recurring", "02:00", None)

        end = "2036-06-30T23:59:00Z"
        ends = {"missionId": mission, "expression": "0 2 * * *", "recurring": True, "endDate": end}
        again = (await use(client, "create_schedule", **ends)).found
        assert (again["id"], again["endDate"][:16]) == ("sched-nightly", end[:16])
        assert [one["id"] for one in (await use(client, "list_schedules")).found["schedules"]] == ["sched-nightly"]
        assert (await use(client, "update_schedule", missionId=mission, endDate=None)).found["endDate"] is None

        off = (await use(client, "update_schedule", missionId=mission, enabled=False)).found
        assert (off["enabled"], off["expression"]) == (False, "0 2 * * *")
        assert (await use(client, "update_schedule", missionId=mission, enabled=True)).found["enabled"] is True
        moved = (await use(client, "update_schedule", missionId=mission, expression="30 8,12,18 * * *")).found
        assert (moved["expression"], moved["recurring"]) == ("30 8,12,18 * * *", True)
        assert moved["createdAt"] == again["createdAt"] > made["createdAt"], "an update does not move it"

        for removed in (True, False):
            gone = (await use(client, "delete_schedule", missionId=mission)).found
            assert (gone["removed"], gone["missionId"], gone["status"]) == (removed, "nightly", "draft")
        unknown = (await use(client, "delete_schedule", missionId="nothing")).found
        assert (unknown["removed"], unknown["status"]) == (False, None)
        assert (await use(client, "list_schedules")).found["schedules"] == []

    over("polpo", work)


def test_p1_a_one_shot_is_an_instant_or_the_next_match(over: Over, mission: str) -> None:
    """P1 P4: recurring is false unless it is said, and can be switched; a timestamp does not repeat, cron is strict"""

    async def work(client: Client) -> None:
        deploy = (await use(client, "create_schedule", missionId=mission, expression="2036-03-15T14:00:00Z")).found
        assert (deploy["recurring"], deploy["status"]) == (False, "scheduled")
        assert deploy["nextRunAt"][:16] == "2036-03-15T14:00"
        once = (await use(client, "create_schedule", missionId=mission, expression="0 2 * * *")).found
        assert (once["expression"], once["recurring"], once["status"]) == ("0 2 * * *", False, "scheduled")
        switched = (await use(client, "update_schedule", missionId=mission, recurring=True)).found
        assert (switched["recurring"], switched["status"]) == (True, "recurring")
        for expression, recurring in (
            ("2036-03-15T14:00:00Z", True), ("2020-03-15T14:00:00Z", False), ("@daily", True), ("0 0 2 * * *", True),
            ("0 2 L * *", True), ("0 2 * * 1#2", True), ("every day", True),
        ):  # fmt: skip
            call = {"missionId": mission, "expression": expression, "recurring": recurring}
            assert (await use(client, "create_schedule", **call)).failed, expression
        unknown = await use(client, "create_schedule", missionId="nothing", expression="0 2 * * *")
        assert unknown.text.endswith("[not_found, name]")
        await use(client, "delete_schedule", missionId=mission)
        missing = await use(client, "update_schedule", missionId=mission, enabled=False)
        assert "Call create_schedule first." in missing.text

    over("polpo", work)


def test_c13_cortexs_page_word_by_word(over: Over) -> None:
    """C13 C11: the page's two calls and four types, with the fields of its ScheduleTask"""

    async def work(client: Client) -> None:
        tools = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
        verbs = ("add", "list", "get", "remove", "pause", "resume")
        assert list(tools) == [*(f"cortex_schedule_{verb}" for verb in verbs), "cortex_context"]
        assert list(tools["cortex_schedule_add"]["properties"]) == [
            "type", "message", "interval", "time", "dayOfWeek", "delay", "target", "fallback", "profile", "preCheck",
        ]  # fmt: skip
        scan = {"type": "daily", "message": "Run morning research scan", "time": "08:00", "profile": "claude-sonnet"}
        daily = (await use(client, "cortex_schedule_add", **scan)).found
        assert re.fullmatch("[0-9a-f]{8}", daily["id"])
        assert {name: daily[name] for name in scan} == scan
        assert (daily["target"], daily["fallback"], daily["isPaused"]) == ({"kind": "fresh"}, "fresh", False)
        assert daily["createdAt"] < daily["nextRun"]
        assert "lastRun" not in daily

        others: list[tuple[dict[str, Any], dict[str, Any]]] = [
            ({"type": "interval", "message": "m", "interval": "10m", "fallback": "skip"}, {"intervalMs": 600_000}),
            ({"type": "interval", "message": "m", "interval": 30_000}, {"intervalMs": 30_000}),
            ({"type": "weekly", "message": "m", "dayOfWeek": 1, "time": "21:00"}, {"dayOfWeek": 1, "time": "21:00"}),
            ({"type": "once", "message": "m", "delay": "2h"}, {}),
            ({"type": "once", "message": "m", "delay": 7_200_500}, {}),
            ({"type": "once", "message": "m", "delay": 7_200_000, "preCheck": "pgrep -f train"},
             {"preCheck": "pgrep -f train"}),
            ({"type": "daily", "message": "m", "time": "09:00", "target": {"kind": "channel", "channel": "C07ABCDEF"}},
             {"channel": "C07ABCDEF", "target": {"kind": "channel", "channel": "C07ABCDEF"}}),
        ]  # fmt: skip
        made = [daily]
        for given, expected in others:
            added = (await use(client, "cortex_schedule_add", **given, profile="scout")).found
            assert {name: added[name] for name in expected} == expected
            assert (added["type"], added["fallback"]) == (given["type"], given.get("fallback", "fresh"))
            assert given["type"] != "once" or added["runAt"] == added["nextRun"]
            made.append(added)

        listed = (await use(client, "cortex_schedule_list")).found["tasks"]
        assert {one["id"] for one in made} <= {one["id"] for one in listed}
        assert len((await use(client, "cortex_schedule_list", limit=2)).found["tasks"]) == 2
        got = (await use(client, "cortex_schedule_get", id=daily["id"])).found
        assert {**got, "summary": "", "message": ""} == {**daily, "summary": "", "message": ""}
        assert got["message"].splitlines()[1:-1] == [daily["message"]]  # between marks: a person wrote it
        paused = (await use(client, "cortex_schedule_pause", id=daily["id"])).found
        assert (paused["isPaused"], paused["pausedBy"], "nextRun" in paused) == (True, "user", False)
        assert paused["pausedAt"] >= daily["createdAt"]
        resumed = (await use(client, "cortex_schedule_resume", id=daily["id"])).found
        assert (resumed["isPaused"], resumed["nextRun"], "pausedAt" in resumed) == (False, daily["nextRun"], False)
        once = await use(client, "cortex_schedule_pause", id=made[4]["id"])
        assert "is of type once and cannot be paused." in once.text
        for one in made:
            assert (await use(client, "cortex_schedule_remove", id=one["id"])).found["removed"] is True
        assert (await use(client, "cortex_schedule_remove", id=daily["id"])).found["removed"] is False
        assert (await use(client, "cortex_schedule_get", id=daily["id"])).failed

    over("cortex", work)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"type": "interval"}, "interval"), ({"type": "daily"}, "time"), ({"type": "weekly", "dayOfWeek": 1}, "time"),
        ({"type": "weekly", "time": "21:00"}, "dayOfWeek"), ({"type": "once"}, "delay"),
        ({"type": "monthly"}, "type"), ({"type": "weekly", "time": "21:00", "dayOfWeek": 7}, "dayOfWeek"),
        ({"type": "daily", "time": "25:00"}, "times"), ({"type": "interval", "interval": "10 parsecs"}, "when"),
        ({"type": "daily", "time": "09:00", "fallback": "hope"}, "fallback"),
    ],
)  # fmt: skip
def test_c13_what_a_type_needs_is_named(server: HttpServer, given: dict[str, Any], field: str) -> None:
    """C13: an error is a result that names the field"""

    async def work(client: Client) -> None:
        refused = await use(client, "cortex_schedule_add", message="m", profile="scout", **given)
        assert refused.failed
        assert f", {field}]" in refused.text, refused.text

    over_http(f"{server.url}/mcp/cortex", server.new_token("owner", "o"), work)


def test_c13_a_context_outside_a_run_has_seven_fields_that_are_null(over: Over) -> None:
    """C13"""

    async def work(client: Client) -> None:
        context = (await use(client, "cortex_context")).found
        assert list(context)[1:] == FIELDS
        assert set(context.values()) == {None, "This is no run."}

    over("cortex", work)


def test_c13_in_a_run_the_page_s_call_lands_in_the_channel_of_the_run(house: House, tmp_path: Path) -> None:
    """C13 C4: cortex_context has its seven fields, and current-channel is resolved from them when the task is made"""
    call = {"type": "interval", "message": "Check GPU status and report", "interval": "10m",
            "target": "current-channel", "fallback": "fresh"}  # fmt: skip
    agent = Path(__file__).with_name("scheduling_agent.py").read_text(encoding="utf-8")
    fresh, same = {**call, "target": "fresh"}, {**call, "target": "current-thread"}
    plain = {name: value for name, value in call.items() if name != "target"}
    adds = [("cortex_schedule_add", each) for each in (call, fresh, plain, same)]
    calls = json.dumps([("cortex_context", {}), *adds])
    house.ask("agents.set", name="gpu", runner="shell", command=[sys.executable, "-c", agent, calls],
              workdir=str(tmp_path))  # fmt: skip
    target = {"kind": "channel", "channel": "C07ABCDEF"}
    house.ask("schedules.add", name="gpu", when="every 1 day", agent="gpu", prompt="Go.", target=target)
    _, output = house.fire("gpu")
    _, context, added, *others = (json.loads(line)["result"].get("structuredContent") for line in output.splitlines())
    assert list(context)[1:] == FIELDS
    assert (context["channel"], context["profile"], context["backend"]) == ("C07ABCDEF", "gpu", "shell")
    assert re.fullmatch(r"thr_[0-9]+", context["threadId"])
    assert context["project"] == tmp_path.name
    assert (added["message"], added["intervalMs"], added["profile"]) == (call["message"], 600_000, "gpu")
    assert (added["channel"], added["target"]["kind"]) == ("C07ABCDEF", "channel")
    assert added["approval"]["state"] == "pending"
    new = {"kind": "fresh", "channel": "C07ABCDEF"}
    assert [other["target"] for other in others[:2]] == [new, new], "C4: the schedule's channel is the fallback"
    assert others[2]["target"] == {"kind": "thread", "channel": "C07ABCDEF", "threadId": context["threadId"]}


def test_p6_polpos_tasks_by_http_and_mcp(server: HttpServer) -> None:
    """P6: the nightly tests of the page, in its own JSON"""
    tasks = [
        {"title": "Run full test suite", "description": NIGHTLY[0]["prompt"], "assignTo": "scout"},
        {"title": "Generate coverage report", "description": NIGHTLY[1]["prompt"], "assignTo": "rover",
         "dependsOn": ["Run full test suite"]},
    ]  # fmt: skip
    by_http = server.ask("POST", "/v1/missions", {"name": "by-http", "steps": tasks})
    assert (by_http.status, by_http.json["steps"]) == (201, NIGHTLY)

    async def work(client: Client) -> None:
        made = await use(client, "create_schedule", name="by-mcp", when="0 2 * * *", settings={"steps": tasks})
        assert not made.failed, made.text

    over_http(f"{server.url}/mcp", server.new_token("owner", "p"), work)
    assert server.matins.missions.get("by-mcp").steps == NIGHTLY


@pytest.mark.parametrize("profile", [{}, {"profile": None}])
def test_c13_without_a_profile_the_active_one_is_used(server: HttpServer, profile: dict[str, None]) -> None:
    """C13: "Agent profile name (defaults to the active profile)", also outside runs"""
    server.matins.agents.set("default", runner="demo")

    async def work(client: Client) -> None:
        scan = {"type": "daily", "message": "Scan", "time": "08:00", **profile}
        assert (await use(client, "cortex_schedule_add", **scan)).found["profile"] == "default"

    over_http(f"{server.url}/mcp/cortex", server.new_token("owner", "o"), work)
    assert schedule_add(server.matins, "daily", "Scan", time="08:00").profile == "default"


@pytest.mark.parametrize("kind", ["task-dispatch", "task-archive", "memory-index-regen"])
def test_c2_the_message_of_a_dispatch_type_is_shown(server: HttpServer, kind: str) -> None:
    """C2: every field is held, `message` with `dispatchType: task-archive` too"""
    message = "Archive completed tasks older than 3 days"
    made = schedule_add(server.matins, "interval", message, interval="6h", dispatch_type=kind, profile="scout")
    assert (made.message, made.dispatch_type) == (message, kind)

    async def work(client: Client) -> None:
        (found,) = [
            task for task in (await use(client, "cortex_schedule_list")).found["tasks"] if task["id"] == made.id
        ]
        one = (await use(client, "cortex_schedule_get", id=made.id)).found
        assert found["message"] == one["message"]
        first, text, last = found["message"].splitlines()
        assert (first.startswith("<data "), text, last.startswith("<end of data ")) == (True, message, True)

    over_http(f"{server.url}/mcp/cortex", server.new_token("owner", "o"), work)
