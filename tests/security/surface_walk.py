"""A real server with the API, the page and the tools for agents, and a walk through all that it answers."""

from __future__ import annotations

import html
import http.client
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from matins import Matins
from matins.mcp.app import McpApp
from matins.mcp.tool import Tool
from matins.mcp.tool_server import PHRASES, PROMPTS, TEMPLATES
from matins.mcp.tools import TOOLS
from matins.records.file_settings import HttpServer as HttpSettings
from matins.seeds.cortex.tools import CORTEX
from matins.seeds.polpo import POLPO
from matins.service.calls import InboundReceiver
from matins.service.idempotency import IdempotencyStore
from matins.service.sign_in import SessionVerifier
from matins.service.tokens import TokenVerifier
from matins.surfaces.http.app import build_app
from matins.surfaces.http.connections import Connections
from matins.surfaces.http.openapi import openapi
from matins.surfaces.http.server import Server, bind
from matins.surfaces.http.server_routes import Health
from matins.web.app import Pages
from matins.web.views import FRAGMENTS, VIEWS

STREAMS = {"/v1/events/stream": "?after=0", "/ui/stream": ""}
"""Answers without an end: what they say until the first heartbeat is read."""
NO_WORDS = {"/static/{hash}/{name}", "/login", "/in/p/{token}", "/in/p/{token}/{signal}"}
"""Files of the installation, the form by which people sign in, and pings, which are answered with a number."""
FAILED = 500
"""No request may end so: what failed would have shown no word."""
_HEARTBEAT_S = 0.2
_HEARTBEATS = (":", "event: ping")
_LINK = re.compile(r'(?:href|hx-get|src|action|data-[a-z-]+)="(/[^"]*)"')
_PARAMETER = re.compile(r"\{([a-z_]+)(?::path)?\}")
_QUERIES = ["q", "state", "tab", "agent", "schedule", "at", "since", "all"]
"""What the addresses of lists may have."""
Values = Mapping[str, list[Any]]
"""What may stand for a parameter, by its name."""
Answer = tuple[str, str]
"""What was asked, and the whole answer: its headers and its body."""


class Surfaces:
    """All routes that a daemon has, over a Matins."""

    def __init__(self, matins: Matins) -> None:
        self.matins = matins
        store, clock = matins.store, matins.clock
        listening = bind("127.0.0.1", 0)
        self.port = listening.getsockname()[1]
        host = f"127.0.0.1:{self.port}"
        self.app = build_app(
            matins, TokenVerifier(store, clock), IdempotencyStore(store, clock), hosts=[host],
            origins=[f"http://{host}"], health=Health(matins, clock, 30_000), sessions=SessionVerifier(store, clock),
            inbound=InboundReceiver(matins, store, clock), parts=[Pages(clock), McpApp(f"http://{host}")],
            heartbeat_s=_HEARTBEAT_S,
        )  # fmt: skip
        self._server = Server(self.app, listening, connections=Connections(HttpSettings()))
        self._server.start()
        self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=90)

    def ask(self, token: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        sent = {"Authorization": f"Bearer {token}", **{name.replace("_", "-"): text for name, text in headers.items()}}
        self._connection.request("GET" if body is None else "POST", path, body, sent)
        response = self._connection.getresponse()
        if response.getheader("Content-Type", "").startswith("text/event-stream"):
            told = _until_heartbeat(response)
            self._connection.close()  # it opens again with the next request
            return f"GET {path}", told
        what = f"{'GET' if body is None else 'POST'} {path}: {response.status}"
        assert response.status != FAILED, what
        return what, f"{response.headers}\n{response.read().decode(errors='replace')}"

    def close(self) -> None:
        self._connection.close()
        self._server.stop()


def _until_heartbeat(response: http.client.HTTPResponse) -> str:
    lines = [response.readline().decode()]
    while lines[-1] and not lines[-1].startswith(_HEARTBEATS):
        lines.append(response.readline().decode())
    return "".join(lines)


# -- the API


def api_answers(surfaces: Surfaces, token: str, values: Values) -> Iterator[Answer]:
    """Every GET of the OpenAPI document, with everything that its parameters may name."""
    for path, item in openapi()["paths"].items():
        if "get" not in item or path in NO_WORDS:
            continue
        names = [one["name"] for one in item["get"].get("parameters", ()) if one["in"] == "query"]
        for address in _addresses(path, names, values):
            yield surfaces.ask(token, address)


def _addresses(path: str, queries: list[str], values: Values) -> Iterator[str]:
    """The path with each value of its parameters: alone, and with each value of each part of the query."""
    for filled in _filled(path, values):
        yield filled + STREAMS.get(path, "")
        for name in queries if path not in STREAMS else ():
            for value in values.get(f"?{name}", values.get(name, [])):
                told = str(value).lower() if isinstance(value, bool) else value
                yield f"{filled}?{urlencode({name: told})}"


def _filled(path: str, values: Values) -> Iterator[str]:
    names = _PARAMETER.findall(path)
    of_schedules = path.removeprefix("/v1").startswith(("/schedules", "/missions"))
    known = {**values, "name": values["schedule"]} if of_schedules else values
    for chosen in itertools.product(*(known.get(name, ["x"]) for name in names)):
        parts = iter(chosen)
        yield _PARAMETER.sub(lambda _: quote(str(next(parts)), safe="/"), path)  # noqa: B023


# -- the page


def pages_of(surfaces: Surfaces, token: str, values: Values) -> dict[str, str]:
    """The addresses of all views, with what they show, and all addresses that these lead to."""
    given = ["/events/export?format=csv", "/events/export?format=jsonl", "/nowhere"]
    for path in (*VIEWS, *FRAGMENTS, "/events/export", "/ui/stream"):
        given += _addresses(path, _QUERIES if "{" not in path else [], values)
    found = {address: surfaces.ask(token, address, Accept="text/html")[1] for address in given}
    for text in list(found.values()):
        for link in _LINK.findall(text):
            address = html.unescape(link).partition("#")[0]
            if not address.startswith(("/static/", "//", "/v1/", "/login", "/logout")):
                found.setdefault(address, "")
    return found


def page_answers(surfaces: Surfaces, token: str, addresses: Iterable[str]) -> Iterator[Answer]:
    for address in addresses:
        yield surfaces.ask(token, address, Accept="text/html")


# -- the tools


def mcp_answers(surfaces: Surfaces, token: str, values: Values, *, only_read: bool) -> Iterator[Answer]:
    """Every tool, resource and prompt, on every path. `only_read`: without the tools that change something."""
    for path, tools in (("/mcp", TOOLS), ("/mcp/run", TOOLS), ("/mcp/polpo", POLPO), ("/mcp/cortex", CORTEX)):
        for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list"):
            yield _rpc(surfaces, token, path, method)
        for name, prompt in PROMPTS.items():
            yield _rpc(surfaces, token, path, "prompts/get", name=name, arguments=dict.fromkeys(prompt.arguments, "x"))
        for uri in (PHRASES, *_uris(values)):
            yield _rpc(surfaces, token, path, "resources/read", uri=uri)
        for tool in tools.values():
            if tool.right == "read" or not only_read:
                for given in tool_arguments(tool, values):
                    yield _rpc(surfaces, token, path, "tools/call", name=tool.name, arguments=given)


def _uris(values: Values) -> Iterator[str]:
    for template in TEMPLATES:
        if "{agent}/{name}" in template:
            yield from (template.replace("{agent}/{name}", name) for name in values["schedule"])
        else:
            yield from (template.replace("{id}", str(run)) for run in values["run_id"])


def _rpc(surfaces: Surfaces, token: str, path: str, method: str, **params: Any) -> Answer:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    headers = {"Content_Type": "application/json", "Accept": "application/json, text/event-stream"}
    told, answer = surfaces.ask(token, path, body, MCP_Protocol_Version="2025-06-18", **headers)
    return f"{told} {method} {params}", answer


_PLAIN: Mapping[str, Any] = {
    "when": "every day at 9am", "outcome": "done", "approval": "1", "decision": "deny", "digest": "x",
    "type": "daily", "time": "09:00", "message": "Look", "expression": "0 2 * * *", "prompt": "Look", "dry_run": True,
}  # fmt: skip


_CHOICES = {"state": ("denied", "failed"), "output": ("more", "tail"), "at": ()}


def tool_arguments(tool: Tool, values: Values) -> Iterator[dict[str, Any]]:
    """Arguments of a tool: about everything that there is."""
    subjects = {
        "name": values["schedule"], "id": values["schedule"], "missionId": values["schedule"], "run": values["run_id"],
    }  # fmt: skip
    keys = [name for name in tool.properties if name in subjects and name in tool.required]
    given = {name: _PLAIN[name] for name in (*tool.required, "time", "prompt", "dry_run")
             if name in _PLAIN and name in tool.properties}  # fmt: skip
    for chosen in itertools.product(*(subjects[name] for name in keys)):
        one = {**given, **dict(zip(keys, chosen, strict=True))}
        yield one
        for name, options in _CHOICES.items():
            if name in tool.properties:
                yield from ({**one, name: option} for option in (*options, *values.get(f"?{name}", ())[:1]))
