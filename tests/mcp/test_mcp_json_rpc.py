"""MCP on the wire: what is no request, versions, headers and statuses, in both eras."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from http_server import HttpServer

from matins.mcp.json_rpc import HANDSHAKE, MODERN, ProtocolError, read, request_of

VERSION, CAPABILITIES = "io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientCapabilities"
HEADERS = {"mcp-protocol-version": MODERN, "mcp-method": "tools/list"}


def modern(method: str = "tools/list", **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": META, **params}}


META: dict[str, Any] = {VERSION: MODERN, CAPABILITIES: {}}


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"1", b"null", b'"ping"', b"{}", b'{"jsonrpc": "2.0", "id": 1}', b"[" * 100_000, b"\xff",
        b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', b'{"jsonrpc": "2.0", "id": null, "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": 1, "method": 7}', b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}',
        b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', b'{"jsonrpc": "2.0", "id": 1, "result": {}}',
    ],
)  # fmt: skip
def test_p4_what_is_no_request_is_refused(body: bytes) -> None:
    """P4: batches, responses, wrong ids and what is not JSON"""
    with pytest.raises(ProtocolError) as raised:
        read(body)
    assert raised.value.code in (-32700, -32600)
    assert raised.value.status == 400


@pytest.mark.parametrize(
    ("message", "headers", "code"),
    [
        (modern(), {**HEADERS, "mcp-method": "tools/call"}, -32020),
        (modern(), {"mcp-protocol-version": MODERN}, -32020),
        (modern(), {**HEADERS, "mcp-protocol-version": "2025-11-25"}, -32020),
        (modern("tools/call", name="why"), {**HEADERS, "mcp-method": "tools/call"}, -32020),
        (modern("tools/call", name="ü"), {**HEADERS, "mcp-method": "tools/call", "mcp-name": "=?base64?%?="}, -32020),
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, HEADERS, -32602),
        (modern(_meta={VERSION: MODERN}), HEADERS, -32602),
        (modern(_meta={VERSION: "2031-01-01", CAPABILITIES: {}}), None, -32022),
        (modern(_meta={VERSION: 7, CAPABILITIES: {}}), None, -32022),
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, {"mcp-protocol-version": "1999-01-01"}, -32022),
    ],
)
def test_p4_a_request_that_disagrees_with_itself_is_refused(message: Any, headers: Any, code: int) -> None:
    """P4: headers that say something else than the body, missing fields, versions that are not known"""
    with pytest.raises(ProtocolError) as raised:
        request_of(message, headers)
    assert raised.value.code == code


def test_p4_a_request_of_either_era_is_understood() -> None:
    """P4: only a modern client that says so can show a form; names that are not ASCII are encoded"""
    forms = {VERSION: MODERN, CAPABILITIES: {"elicitation": {}}}
    named = {**HEADERS, "mcp-method": "tools/call", "mcp-name": "=?base64?w7w=?="}
    assert request_of(modern(), HEADERS)[3:] == (True, False)
    assert request_of(modern("tools/call", name="ü"), named).params["name"] == "ü"
    assert request_of(modern(_meta=forms), HEADERS).shows_forms
    assert request_of(modern(_meta=forms)).shows_forms
    for version in (None, *HANDSHAKE):
        headers = {"mcp-protocol-version": version} if version else {}
        assert request_of({"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers)[3:] == (False, False)


def test_p4_statuses_follow_the_era(server: HttpServer) -> None:
    """P4: an error is 200 in the handshake era, and 400 or 404 in the modern one; a notification is 202"""

    def asked(message: Any, **headers: str) -> tuple[int, Any]:
        reply = server.ask("POST", "/mcp", message, **headers)
        return reply.status, json.loads(reply.body) if reply.body else None

    def routed(method: str) -> dict[str, str]:
        return {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}

    plain = {"jsonrpc": "2.0", "id": "a", "method": "no/such"}
    assert asked(plain)[0] == 200
    assert asked(plain)[1]["id"] == "a"
    status, found = asked(modern("no/such"), **routed("no/such"))
    assert (status, found["error"]["code"], found["id"]) == (404, -32601, 1)
    assert asked(modern("ping"), **routed("ping"))[0] == 404
    assert asked({"jsonrpc": "2.0", "method": "notifications/initialized"}) == (202, None)
    for params in ({}, {"name": 7}, {"name": "why", "arguments": []}):
        assert asked({**plain, "method": "tools/call", "params": params})[1]["error"]["code"] == -32602
    for version, agreed in (("1999-01-01", HANDSHAKE[0]), ("2024-11-05", "2024-11-05")):
        hello = {**plain, "method": "initialize", "params": {"protocolVersion": version}}
        assert asked(hello)[1]["result"]["protocolVersion"] == agreed


def test_p4_the_sdk_is_never_imported() -> None:
    """P4: it takes a second of CPU, for which fires would wait; neither the daemon nor the store's server needs it"""
    modules = "matins, matins.app, matins.daemon.daemon, matins.mcp.app, matins.mcp.tool_server"
    code = f"import sys, {modules}; print([name for name in ('mcp', 'mcp_types', 'pydantic') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
