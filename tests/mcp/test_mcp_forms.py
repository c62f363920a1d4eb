"""Forms in the revisions with a handshake, such as 2025-11-25: the server asks within the answer to a call."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from mcp_client import over_http, use

from matins.mcp.json_rpc import shows_forms
from matins.model.access import Principal
from matins.surfaces.bridge import Bridge

SCOUT = Principal("agent", "scout")
FORMS: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}


def handshake(capabilities: dict[str, Any]) -> dict[str, Any]:
    info = {"name": "test", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info}
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}


@pytest.fixture
def approval(server: Any) -> Iterator[Any]:
    server.matins.acting_as(SCOUT).add("asked", when="every day at 9am", agent="scout", prompt="Look")
    (found,) = server.matins.approvals.list()
    yield found
    server.matins.delete("asked")


def decision(approval: Any) -> dict[str, Any]:
    arguments = {"approval": approval.id, "decision": "approve", "digest": approval.digest}
    params = {"name": "answer_approval", "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}


class Stdio:
    """A client at the other end of the bridge."""

    def __init__(self, url: str, token: str) -> None:
        read_in, write_in = os.pipe()
        read_out, write_out = os.pipe()
        self._in, self._out = os.fdopen(read_in), os.fdopen(write_out, "w")
        self._to, self._from = os.fdopen(write_in, "w"), os.fdopen(read_out)
        self._bridge = Bridge(url, token, None, self._out)
        self._thread = threading.Thread(target=self._bridge.serve, args=(self._in,))
        self._thread.start()

    @property
    def session(self) -> str:
        assert self._bridge._session is not None
        return self._bridge._session

    def send(self, message: dict[str, Any]) -> None:
        self._to.write(json.dumps(message) + "\n")
        self._to.flush()

    def read(self) -> dict[str, Any]:
        return json.loads(self._from.readline())

    def close(self) -> None:
        self._to.close()
        self._thread.join()
        for file in (self._in, self._out, self._from):
            file.close()


@contextmanager
def stdio(server: Any, role: str, name: str) -> Iterator[Stdio]:
    client = Stdio(server.url, server.new_token(role, name))
    try:
        yield client
    finally:
        client.close()


def test_b7_a_form_over_stdio(server: Any, approval: Any) -> None:
    """B7: the bridge passes the form on as it comes, and the response back"""
    with stdio(server, "owner", "grace") as client:
        client.send(handshake(FORMS))
        assert client.read()["result"]["protocolVersion"] == "2025-11-25"
        client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        client.send(decision(approval))
        asked = client.read()
        assert (asked["method"], asked["params"]["mode"]) == ("elicitation/create", "form")
        assert approval.digest in asked["params"]["message"]
        assert server.matins.approvals.get(approval.id).state == "pending"
        accepted = {"action": "accept", "content": {"confirm": True}}
        client.send({"jsonrpc": "2.0", "id": asked["id"], "result": accepted})
        assert client.read()["result"]["structuredContent"]["approval"]["state"] in ("approved", "used")


def test_b7_no_other_principal_answers_a_form(server: Any, approval: Any) -> None:
    """B7: also not with the id of the session and of the form"""
    with stdio(server, "owner", "grace") as client:
        client.send(handshake(FORMS))
        client.read()
        client.send(decision(approval))
        asked = client.read()
        accepted = {"action": "accept", "content": {"confirm": True}}
        forged = {"jsonrpc": "2.0", "id": asked["id"], "result": accepted}
        stranger = server.new_token("agent", "scout")
        reply = server.ask("POST", "/mcp", forged, token=stranger, Mcp_Session_Id=client.session)
        assert reply.json["error"]["code"] == -32600
        assert server.matins.approvals.get(approval.id).state == "pending"
        client.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}})
        assert "did not confirm" in client.read()["result"]["content"][0]["text"]
    assert server.matins.approvals.get(approval.id).state == "pending"


@pytest.mark.parametrize(
    ("capabilities", "shows"),
    [({}, False), ({"elicitation": {}}, True), (FORMS, True), ({"elicitation": {"url": {}}}, False), (None, False)],
)
def test_b7_who_shows_forms(capabilities: Any, shows: bool) -> None:
    """B7: an empty object means forms; a client that only opens pages shows none"""
    assert shows_forms(capabilities) is shows


def test_b7_what_is_required_is_said(server: Any) -> None:
    """B7: a prompt is, unless there is other work; a time always is; and a costly rhythm is said"""
    server.matins.agents.set("paid", runner="claude")

    async def work(client: Any) -> None:
        (tool,) = [one for one in (await client.list_tools()).tools if one.name == "create_schedule"]
        schema = tool.input_schema
        assert schema["required"] == ["when"]
        assert (
            "Required unless settings has job, steps or work_source." in schema["properties"]["prompt"]["description"]
        )
        refused = await use(client, "create_schedule", when="every day at 9am", agent="paid")
        assert refused.failed
        assert "prompt" in refused.text
        made = await use(
            client, "create_schedule", when="*/5 * * * * *", agent="paid", prompt="Go.", name="often", dry_run=True
        )
        assert "17,280 times a day" in made.found["notes"][0]

    over_http(server.url + "/mcp", server.new_token("owner", "grace"), work)
    server.matins.agents.delete("paid")
