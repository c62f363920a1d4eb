"""MCP on the wire: JSON-RPC in both eras of the protocol, without state but for forms (`Sessions` in `tool_server.py`).

The 2026-07-28 revision has no handshake: version and capabilities are in `_meta` of each request, and headers of HTTP
repeat what proxies route by. Earlier revisions begin with `initialize`, of which only is remembered who shows forms.

Our own, because the SDK takes a second of CPU to import, and a fire would wait for the interpreter's lock meanwhile.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import orjson

from matins._version import __version__

Json = dict[str, Any]
MODERN = "2026-07-28"
HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
HEADER_MISMATCH, UNSUPPORTED_VERSION = -32020, -32022
SERVER = {"name": "matins", "title": "Matins", "version": __version__}
CAPABILITIES: Json = {
    "prompts": {"listChanged": False},
    "resources": {"listChanged": False, "subscribe": False},
    "tools": {"listChanged": False},
}
_META = "io.modelcontextprotocol/"
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The argument that requests of a method repeat in the header Mcp-Name."""
_ENCODED = re.compile(r"=\?base64\?(.*)\?=")


class ProtocolError(Exception):
    """A request that cannot be answered: an error of JSON-RPC, unlike what a tool refuses."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data

    @property
    def status(self) -> int:
        """The HTTP status, by the revision 2026-07-28."""
        return {INTERNAL_ERROR: 200, METHOD_NOT_FOUND: 404}.get(self.code, 400)


class Request(NamedTuple):
    """`id` is None for a notification, which is not answered."""

    method: str
    params: Json
    id: str | int | None
    is_modern: bool
    shows_forms: bool
    """Whether the client can ask its person, and return the answers with the repeated request."""


def read(body: bytes | str) -> Json:
    """One message. A batch and a response are refused."""
    try:
        found: Any = orjson.loads(body)
    except ValueError:
        raise ProtocolError(PARSE_ERROR, "The body is not JSON.") from None
    if not isinstance(found, dict) or not _is_request(message := cast("Json", found)):
        raise ProtocolError(INVALID_REQUEST, "The body must be one request or notification of JSON-RPC.")
    return message


def response_of(body: bytes | str) -> Json | None:
    """The response of a client to a request of the server; None for any other body."""
    try:
        found: Any = orjson.loads(body)
    except ValueError:
        return None
    is_response = isinstance(found, dict) and "method" not in found and ("result" in found or "error" in found)
    return cast("Json", found) if is_response else None


def shows_forms(capabilities: Any) -> bool:
    """Whether a client shows forms: `elicitation` is empty, or has `form`. One with `url` alone only opens pages."""
    found: Any = cast("Json", capabilities).get("elicitation") if isinstance(capabilities, dict) else None
    return isinstance(found, dict) and (not found or "form" in found)


def _is_request(message: Json) -> bool:
    number = message.get("id", 0)
    return (
        message.get("jsonrpc") == "2.0"
        and isinstance(message.get("method"), str)
        and isinstance(message.get("params"), dict | None)
        and (isinstance(number, str) or (isinstance(number, int) and not isinstance(number, bool)))
    )


def request_of(message: Json, headers: Mapping[str, str] | None = None) -> Request:
    """The request of a message. `headers` are those of HTTP, with names in lower case; None over stdin."""
    params: Json = message.get("params") or {}
    given = params.get("_meta")
    meta: Json = cast("Json", given) if isinstance(given, dict) else {}
    version = meta.get(f"{_META}protocolVersion")
    header = None if headers is None else headers.get("mcp-protocol-version")
    method, number = message["method"], message.get("id")
    if version is None and header != MODERN:
        if header is not None and header not in HANDSHAKE:
            raise _unsupported(header)
        return Request(method, params, number, False, False)
    if number is None:
        return Request(method, params, None, True, False)
    if version is None or f"{_META}clientCapabilities" not in meta:
        raise ProtocolError(INVALID_PARAMS, f"_meta must have {_META}protocolVersion and {_META}clientCapabilities.")
    if headers is not None:
        named = params.get(_NAMED.get(message["method"], ""))
        expected = {"mcp-protocol-version": version, "mcp-method": message["method"]}
        expected |= {"mcp-name": named} if named is not None else {}
        for name, value in expected.items():
            if _decoded(headers.get(name)) != value:
                raise ProtocolError(HEADER_MISMATCH, f"The header {name} does not match the body.")
    if version != MODERN:
        raise _unsupported(version)
    capabilities = meta[f"{_META}clientCapabilities"]
    return Request(method, params, number, True, shows_forms(capabilities))


def _decoded(value: str | None) -> str | None:
    """The value of a header; text that is not plain ASCII is encoded."""
    found = None if value is None else _ENCODED.fullmatch(value)
    if found is None:
        return value
    try:
        return base64.b64decode(found[1], validate=True).decode()
    except ValueError:
        return None


def _unsupported(version: Any) -> ProtocolError:
    data = {"supported": [MODERN], "requested": str(version)}
    return ProtocolError(UNSUPPORTED_VERSION, "This version of the protocol is not supported.", data)


def initialized(params: Json, instructions: str) -> Json:
    """The answer to the handshake: the client's version if it is known, otherwise the latest."""
    wanted = params.get("protocolVersion")
    version = wanted if wanted in HANDSHAKE else HANDSHAKE[0]
    return {
        "protocolVersion": version,
        "capabilities": CAPABILITIES,
        "serverInfo": SERVER,
        "instructions": instructions,
    }


def discovered(instructions: str) -> Json:
    return {"supportedVersions": [MODERN], "capabilities": CAPABILITIES, "instructions": instructions, **cached()}


def cached(ttl_ms: int = 0) -> Json:
    """How long a client may keep a list, which is for this client alone."""
    return {"ttlMs": ttl_ms, "cacheScope": "private"}


def response(request: Request, result: Json) -> Json:
    if request.is_modern:
        result = {"resultType": "complete", **result, "_meta": {f"{_META}serverInfo": SERVER}}
    else:
        result = {name: value for name, value in result.items() if name not in ("ttlMs", "cacheScope")}
    return {"jsonrpc": "2.0", "id": request.id, "result": result}


def error_response(number: Any, error: ProtocolError) -> Json:
    found: Json = {"code": error.code, "message": error.message}
    return {"jsonrpc": "2.0", "id": number, "error": found | ({} if error.data is None else {"data": error.data})}
