"""No body keeps the server busy: however it is nested, and however long its numbers are. Row B7."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from http_server import HttpServer

LISTS, MAPPINGS = "[" * 1_000 + "]" * 1_000, '{"a":' * 1_000 + "1" + "}" * 1_000
HOSTILE = {
    "lists": LISTS,
    "mappings": MAPPINGS,
    "unclosed lists": "[" * 100_000,
    "unclosed mappings": '{"a":' * 100_000,
    "digits": "9" * 5_000,
    "a long number": "9" * 30,
    "digits in a text": f'"{"9" * 5_000}"',
    "a large exponent": "1e400",
    "conditions": '{"any":[' * 400 + '{"a":1}' + "]}" * 400,
    "brackets": json.dumps("[" * 50_000),
    "braces": json.dumps("{{" * 50_000),
}
JSON = {"Content-Type": "application/json"}
TOOL = '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "%s", "arguments": %s}}'
WHERE: dict[str, tuple[str, str]] = {
    "a body": ("/v1/schedules", "%s"),
    "a payload": ("/v1/schedules", '{"name": "s", "when": "0 3 * * *", "job": "work", "payload": %s}'),
    "a time": ("/v1/schedules", '{"name": "s", "job": "work", "when": %s}'),
    "a prompt": ("/v1/schedules", '{"name": "s", "when": "0 3 * * *", "agent": "scout", "prompt": %s}'),
    "labels": ("/v1/schedules", '{"name": "s", "when": "0 3 * * *", "job": "work", "labels": %s}'),
    "steps": ("/v1/schedules", '{"name": "s", "when": "0 3 * * *", "steps": %s}'),
    "a step": ("/v1/schedules", '{"name": "s", "when": "0 3 * * *", "steps": [{"title": "a", "after": %s}]}'),
    "a filter": ("/v1/schedules", '{"name": "s", "job": "work", "on": {"webhook": "prs", "filter": %s}}'),
    "a batch": ("/v1/schedules/batch", '{"schedules": %s}'),
    "MCP": ("/mcp", "%s"),
    "an id over MCP": ("/mcp", '{"jsonrpc": "2.0", "id": %s, "method": "tools/list"}'),
    "a tool": ("/mcp", TOOL % ("create_schedule", '{"name": "s", "when": "every 1h", "prompt": %s}')),
    "arguments": ("/mcp", TOOL % ("list_schedules", "%s")),
}


@pytest.fixture
def quiet_server(make_server: Callable[..., HttpServer]) -> HttpServer:
    server = make_server("sqlite://", start=False)
    server.matins.inbound.set("prs", kind="bearer", secret="env:PRS")
    return server


@pytest.mark.parametrize("where", WHERE)
def test_no_body_keeps_the_server_busy(quiet_server: HttpServer, where: str) -> None:
    """It is refused in words, soon, and others are answered beside it"""
    path, body = WHERE[where]
    for name, value in HOSTILE.items():
        with ThreadPoolExecutor(1) as thread:
            before = time.process_time()
            asked = thread.submit(quiet_server.ask, "POST", path, (body % value).encode(), headers=JSON)
            alive = [quiet_server.ask("GET", "/livez").status]
            while not asked.done():
                alive.append(quiet_server.ask("GET", "/livez").status)
            said = asked.result()
        assert set(alive) == {200}, name
        assert said.status < 500, (name, said.body[:200])
        assert time.process_time() - before < 2 + 0.05 * len(alive), name
        assert len(said.body) < 20_000, name
