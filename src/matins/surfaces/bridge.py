"""`matins mcp`: MCP over stdin and stdout, passed on to the daemon. Standard library only: it starts quickly."""

from __future__ import annotations

import base64
import http.client
import json
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TextIO
from urllib.parse import urlsplit

_TIMEOUT_S = 90
_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_SESSION = "Mcp-Session-Id"
_MODERN = "2026-07-28"
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The argument that requests of a method repeat in the header Mcp-Name."""
_DOWN = "The Matins daemon does not answer. Start it: matins up"


class Bridge:
    """Sends each line to `/mcp`, and writes what comes back. `version` is what `initialize` agreed on."""

    def __init__(
        self, url: str, token: str, toolset: str | None, out: TextIO, check: Callable[[], None] = lambda: None
    ) -> None:
        """`check` is called for each connection before the token is sent, and raises OSError to refuse it."""
        parts = urlsplit(url)
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname or "", parts.port
        self._path = f"{parts.path.rstrip('/')}/mcp" + (f"/{toolset}" if toolset else "")
        self._token = token
        self._check = check
        self._out = out
        self._writing = threading.Lock()
        self._version: str | None = None
        self._session: str | None = None

    def serve(self, lines: TextIO) -> None:
        """Until the client closes its end. A call that waits does not hold up the next."""
        threads: list[threading.Thread] = []
        for line in lines:
            if not line.strip():
                continue
            try:
                message = json.loads(line)
            except ValueError:
                self._write({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Not JSON."}})
                continue
            if message.get("method") == "initialize" or "id" not in message:
                self._pass_on(message, line)
                continue
            thread = threading.Thread(target=self._pass_on, args=(message, line))
            thread.start()
            threads = [one for one in threads if one.is_alive()] + [thread]
        for thread in threads:
            thread.join()

    def _pass_on(self, message: dict[str, Any], line: str) -> None:
        try:
            for answer in self._post(message, line):
                if message.get("method") == "initialize" and "result" in answer:
                    self._version = answer["result"].get("protocolVersion")
                self._write(answer)
        except (OSError, http.client.HTTPException, ValueError) as error:
            if "id" in message:
                text = f"{_DOWN} ({error})" if str(error) else _DOWN
                self._write({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32000, "message": text}})

    def _post(self, message: dict[str, Any], line: str) -> Iterator[dict[str, Any]]:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=_TIMEOUT_S)
        try:
            connection.connect()
            self._check()
            connection.request("POST", self._path, line.encode(), self._headers(message))
            response = connection.getresponse()
            self._session = response.getheader(_SESSION) or self._session
            if response.getheader("Content-Type", "").startswith("text/event-stream"):
                yield from _events(response)
                return
            body = response.read()
            if body and "id" in message and "method" in message:
                yield _answer(message, response.status, json.loads(body))
        finally:
            connection.close()

    def _headers(self, message: dict[str, Any]) -> dict[str, str]:
        params: dict[str, Any] = message.get("params") or {}
        meta: dict[str, Any] = params.get("_meta") or {}
        version: str | None = meta.get(_VERSION_KEY) or self._version
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        if self._session is not None and message.get("method") != "initialize":
            headers[_SESSION] = self._session
        if version:
            headers["MCP-Protocol-Version"] = version
        if version and version >= _MODERN and "method" in message:
            headers["Mcp-Method"] = message["method"]
            named = params.get(_NAMED.get(message["method"], ""))
            if isinstance(named, str):
                headers["Mcp-Name"] = _encoded(named)
        return headers

    def _write(self, answer: dict[str, Any]) -> None:
        with self._writing:
            self._out.write(json.dumps(answer) + "\n")
            self._out.flush()


def _encoded(value: str) -> str:
    """The value of a header. The protocol encodes what is not plain ASCII."""
    if value.isascii() and value.isprintable() and value == value.strip() and not value.startswith("=?"):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def _answer(message: dict[str, Any], status: int, found: dict[str, Any]) -> dict[str, Any]:
    """The answer of the server. One that is not MCP, such as a refused token, becomes an error."""
    if "jsonrpc" in found:
        return found
    text = " ".join(str(found[name]) for name in ("detail", "hint") if found.get(name)) or f"HTTP status {status}"
    return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32000, "message": text}}


def _events(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Each message as it comes: the server may ask the person before it answers."""
    for line in lines:
        if line.startswith(b"data:") and line[5:].strip():
            yield json.loads(line[5:])


def run_bridge(url: str, token: str, toolset: str | None, check: Callable[[], None] = lambda: None) -> None:
    Bridge(url, token, toolset, sys.stdout, check).serve(sys.stdin)
