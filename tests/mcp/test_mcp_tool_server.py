"""MCP as clients see it: the official SDK's client, in both eras of the protocol."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from http_server import HttpServer
from mcp.client import Client
from mcp_client import MODES, over_http, use

from matins.mcp.tool import MAX_BYTES
from matins.mcp.tool_server import INSTRUCTIONS, listed
from matins.model.access import Principal

SCOUT, RUNNING = Principal("agent", "scout"), Principal("agent", "scout", 7)
RECORDING = Path(__file__).parents[1] / "recordings" / "claude-2.1.325" / "tool_call.out"
OWNER, VIEWER = Principal("owner", "owner"), Principal("viewer", "vic")


def ask(
    server: HttpServer, work: Any, role: str = "agent", name: str = "scout", path: str = "/mcp", **more: Any
) -> Any:
    return over_http(server.url + path, server.new_token(role, name), work, **more)


def tokens(tools: list[Any]) -> int:
    """Characters by four, of what a model is shown of each tool."""
    return sum(len(json.dumps([tool.name, tool.description, tool.schema])) for tool in tools) // 4


def test_the_list_stays_small_and_fits_who_asks() -> None:
    """P4 C13: 14 tools for a person, 9 in a run; a viewer only reads; only who may approve is offered to"""
    assert [len(listed(who, "")) for who in (OWNER, SCOUT, RUNNING)] == [14, 13, 9]
    assert tokens(listed(OWNER, "")) < 2_200
    assert tokens(listed(RUNNING, "")) < 1_400
    assert all(tool.reads for tool in listed(VIEWER, ""))
    assert [tool.name for tool in listed(RUNNING, "")] == [
        "context", "report_outcome", "send", "list_schedules", "create_schedule", "update_schedule", "delete_schedule",
        "why", "get_run",
    ]  # fmt: skip
    assert len(INSTRUCTIONS) < 1_500


@pytest.mark.parametrize("mode", MODES)
def test_c13_an_agent_lists_proposes_is_told_that_it_waits_and_asks_why(server: HttpServer, mode: str) -> None:
    """C13 P4 B7: in both eras; a proposal does nothing, its link is passed on, and asking again changes nothing"""
    name = f"look-{mode}"

    async def work(client: Client) -> None:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == [tool.name for tool in listed(SCOUT, "")]
        for tool in tools:
            hints = tool.annotations
            assert hints is not None
            assert None not in (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint)
            assert hints.open_world_hint is False
            assert tool.input_schema["additionalProperties"] is False
        dry = await use(client, "create_schedule", when="every day at 9am", prompt="Look", name=name, dry_run=True)
        assert (dry.found["needs_approval"], dry.found["created"]) == (True, False)
        assert not server.matins.acting_as(SCOUT).list(select="agent=scout", limit=10) or mode == "legacy"
        made = await use(client, "create_schedule", when="every day at 9am", prompt="Look", name=name)
        approval = made.found["approval"]
        assert approval["url"] == f"http://page.test/approvals/{approval['id']}"
        assert approval["url"] in made.found["summary"]
        assert made.found["schedule"]["state"] == "pending"
        again = await use(client, "create_schedule", when="every day at 9am", prompt="Look", name=name)
        assert (again.found["created"], again.found["approval"]["id"]) == (False, approval["id"])
        other = await use(client, "create_schedule", when="every day at 10am", prompt="Look", name=name)
        assert other.failed
        assert "To change when, call update_schedule. [conflict, name]" in other.text
        seen = await use(client, "list_schedules", mine=True, query=name)
        assert [item["name"] for item in seen.found["schedules"]] == [name]
        why = await use(client, "why", name=name)
        assert "needs approval" in str(why.found["gates_if_due_now"])
        assert "gates" not in why.found  # nothing was due yet
        changed = await use(client, "update_schedule", name=name, prompt="Look well")
        assert [change["setting"] for change in changed.found["changes"]] == ["prompt"]
        gone = await use(client, "delete_schedule", name=name)
        assert gone.found["removed"] is True
        again = await use(client, "delete_schedule", name=name)
        assert (again.failed, again.found["removed"]) == (False, False), "P4: a second call does no harm"

    ask(server, work, mode=mode)


def test_errors_are_results_that_name_every_wrong_argument_and_the_next_step(server: HttpServer) -> None:
    """P4: nothing is a protocol error but what is none of ours"""

    async def work(client: Client) -> None:
        wrong = await use(client, "create_schedule", wen="1h", limit=3, dry_run="yes")
        assert wrong.failed
        assert '"when" is missing.' in wrong.text
        assert '"dry_run" must be true or false' in wrong.text
        assert wrong.text.endswith("[invalid_input, when, wen, limit, dry_run]")
        several = await use(client, "create_schedule", when="whenever", prompt="x", settings={"retries": "x"})
        assert several.text.endswith("[invalid_input, when, retries]")
        unknown = await use(client, "get_schedule", name="nowhere")
        assert unknown.text.endswith("Call list_schedules. [not_found, name]")
        missing = await use(client, "no_such_tool")
        assert "There is no tool" in missing.text
        assert server.matins.approvals.list() == []

    ask(server, work)


def test_a_long_answer_is_cut_and_says_how_to_go_on(server: HttpServer) -> None:
    """P4: at most 8 KB, what is left out is counted, and the cursor continues there"""
    m = server.matins
    m.add_many([{"name": f"s{n}-{'x' * 150}", "when": "0 0 1 1 *", "job": "work"} for n in range(60)])
    names: list[str] = []

    async def work(client: Client) -> None:
        cursor: dict[str, str] = {}
        while True:
            page = await use(client, "list_schedules", limit=50, query="xxx", **cursor)
            assert len(page.text) <= MAX_BYTES + 200
            names.extend(item["name"] for item in page.found["schedules"])
            if "next_cursor" not in page.found:
                return
            cursor = {"cursor": page.found["next_cursor"]}

    ask(server, work, "owner", "o")
    assert len(names) == len(set(names)) == 60
    for name in names:
        m.delete(name)


def test_a_run_is_started_awaited_read_and_cancelled(server: HttpServer) -> None:
    """P1 B12: one run per key; the answer of an agent and its output are fenced"""
    server.matins.add("hello", when="every day at 9am", agent="scout", prompt="Say hello")

    async def work(client: Client) -> None:
        ran = await use(client, "run_schedule", name="hello", key="k", wait_seconds=50)
        assert ran.found["run"]["state"] == "succeeded", ran
        assert (await use(client, "run_schedule", name="hello", key="k")).found["run"]["run"] == ran.found["run"]["run"]
        found = await use(client, "get_run", run=ran.found["run"]["run"])
        assert found.found["answer"].startswith("<data ")
        assert found.found["output"].startswith("<data ")
        runs = await use(client, "list_runs", schedule="hello", limit=5)
        assert [one["state"] for one in runs.found["runs"]] == ["succeeded"]
        dry = await use(client, "run_schedule", name="hello", dry_run=True)
        assert "gates" in dry.found
        assert (await use(client, "cancel_run", run=ran.found["run"]["run"])).failed

    ask(server, work, "operator", "ada")
    server.matins.delete("hello")


def test_b12_the_output_of_a_tool_is_read_as_people_read_it(server: HttpServer, tmp_path: Path) -> None:
    """P1 B12: words, calls and results in place of events; raw if that is asked for; its end by default,
    the rest by offsets; at most 16 KB"""
    (tmp_path / "out").write_bytes(b"mark\n" * 4_000 + RECORDING.read_bytes() + b"over\n")
    server.matins.agents.set("tool", runner="shell", command=["cat", str(tmp_path / "out")])
    server.matins.add("tool", when="every day at 9am", agent="tool", prompt="Go.")
    run = server.matins.runs.wait(server.matins.run("tool").id, timeout=60)

    async def work(client: Client) -> None:
        tail = (await use(client, "get_run", run=run.id)).found
        lines = tail["output"].splitlines()
        assert {"Written.", "over"} <= set(lines)
        assert any(line.startswith("● ") for line in lines)
        assert '"type"' not in tail["output"]
        assert "next_offset" not in tail
        resource: Any = (await client.read_resource(f"matins://run/{run.id}/output")).contents[0]
        assert "Written." in resource.text.splitlines()
        raw = (await use(client, "get_run", run=run.id, raw=True)).found["output"]
        assert '"type"' in raw
        assert raw.splitlines()[-3] == "over"
        offset, pieces = 0, ""
        while offset is not None:
            more = (await use(client, "get_run", run=run.id, output="more", offset=offset)).found
            assert len(more["output"]) <= 17_000
            pieces, offset = pieces + more["output"], more.get("next_offset")
        assert pieces.count("mark\n") == 4_000
        assert "Written." in pieces

    ask(server, work, "operator", "ada")
    server.matins.delete("tool", agent="tool")
    server.matins.agents.delete("tool")


def test_resources_and_prompts(server: HttpServer) -> None:
    """P4"""
    server.matins.add("daily", when="every day at 9am", agent="scout", prompt="Say hello")

    async def work(client: Client) -> None:
        assert [str(one.uri) for one in (await client.list_resources()).resources] == ["matins://phrases"]
        templates = (await client.list_resource_templates()).resource_templates
        assert len(templates) == 3
        content: Any = (await client.read_resource("matins://schedule/scout/daily")).contents[0]
        assert json.loads(content.text)["schedule"]["name"] == "daily"
        grammar: Any = (await client.read_resource("matins://phrases")).contents[0]
        assert "every" in grammar.text
        with pytest.raises(Exception, match="There is no resource"):
            await client.read_resource("matins://nothing")
        names = [prompt.name for prompt in (await client.list_prompts()).prompts]
        assert names == ["morning_report", "why_did_it_not_run", "new_schedule"]
        got: Any = (await client.get_prompt("why_did_it_not_run", {"name": "daily"})).messages[0].content
        assert "schedule daily" in got.text

    ask(server, work, "owner", "o")
    server.matins.delete("daily")


def test_who_has_no_valid_token_gets_nothing(server: HttpServer) -> None:
    """B7: 401 with a challenge, before anything is read; other hosts and origins are refused as everywhere"""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    for token in (None, "mtn_aaaaaaaa_" + "a" * 32, "mtr_1_1_" + "a" * 32):
        reply = server.ask("POST", "/mcp", body, token=token)
        assert reply.status == 401
        assert reply.headers["www-authenticate"].startswith("Bearer")
    assert server.ask("POST", "/mcp", body, Host="evil.test").status == 421
    assert server.ask("POST", "/mcp", body, Origin="http://evil.test").status == 403
    assert server.ask("GET", "/mcp").status == 405


@pytest.mark.parametrize("mode", MODES)
def test_approving_needs_a_form_that_a_person_answers(server: HttpServer, mode: str) -> None:
    """B7: without a form the answer is the link; a no or another digest decides nothing; a yes votes for it. In the
    revisions with a handshake too, such as 2025-11-25."""
    from mcp_types import ElicitResult

    server.matins.acting_as(SCOUT).add("asked", when="every day at 9am", agent="scout", prompt="Look")
    (approval,) = server.matins.approvals.list()
    shown: list[str] = []
    answers = iter([("decline", None), ("accept", {"confirm": True})])

    async def fill_in(context: Any, params: Any) -> ElicitResult:
        shown.append(params.message)
        action, content = next(answers)
        return ElicitResult(action=action, content=content)  # type: ignore[arg-type]

    async def decide(client: Client, digest: str = approval.digest) -> Any:
        return await use(client, "answer_approval", approval=approval.id, decision="approve", digest=digest)

    async def without(client: Client) -> None:
        refused = await decide(client)
        assert refused.failed
        assert f"http://page.test/approvals/{approval.id}" in refused.text

    async def form(client: Client) -> None:
        assert (await decide(client, "0" * 64)).text.endswith("[invalid_input, digest]")
        assert (await decide(client)).failed
        assert server.matins.approvals.get(approval.id).state == "pending"
        assert (await decide(client)).found["approval"]["state"] in ("approved", "used")

    ask(server, without, "owner", "grace")
    ask(server, without, "owner", "grace", mode="legacy")
    assert shown == []
    ask(server, form, "owner", "grace", mode=mode, elicitation_callback=fill_in)
    assert len(shown) == 2
    assert approval.digest in shown[0]
    assert "Look" in shown[0]
    assert server.matins.approvals.get(approval.id).votes[0].voter == "grace"
    server.matins.delete("asked")
