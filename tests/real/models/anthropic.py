"""Anthropic Messages."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

from real.models.wishes import Asked, Json, Said, Tools, example, flat

_KINDS = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error", 529: "overloaded_error"}
_WORDS = {
    401: "invalid x-api-key",
    404: "model: no-such-model",
    429: "This request would exceed your account's rate limit. Please try again later.",
    529: "Overloaded",
}


def asked(path: str, body: Json) -> Asked | None:
    if not path.endswith("/messages"):
        return None
    model = str(body.get("model", "fake-model"))
    return Asked(body, _said(body), _tools(body), streamed=bool(body.get("stream")), model=model)


def stream(asked: Asked) -> Iterator[tuple[str, Json]]:
    usage = {**_usage(asked), "output_tokens": 1}
    message = {**_message(asked), "content": [], "stop_reason": None, "usage": usage}
    yield "message_start", {"type": "message_start", "message": message}
    block = _content(asked)[0]
    empty = {**block, "text": ""} if block["type"] == "text" else {**block, "input": {}}
    yield "content_block_start", {"type": "content_block_start", "index": 0, "content_block": empty}
    for delta in _deltas(asked, block):
        yield "content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}
    yield "content_block_stop", {"type": "content_block_stop", "index": 0}
    delta = {"stop_reason": _stop(asked), "stop_sequence": None}
    yield "message_delta", {"type": "message_delta", "delta": delta, "usage": _usage(asked)}
    yield "message_stop", {"type": "message_stop"}


def whole(asked: Asked) -> Json:
    return {**_message(asked), "content": _content(asked), "stop_reason": _stop(asked), "usage": _usage(asked)}


def refusal(wish: Json, status: int, headers: dict[str, str]) -> Json:
    if status == 429 and "reset" in wish:
        limit = "anthropic-ratelimit-unified"
        headers |= {
            f"{limit}-status": "rejected",
            f"{limit}-reset": str(wish["reset"]),
            f"{limit}-representative-claim": "five_hour",
            f"{limit}-5h-status": "rejected",
            f"{limit}-5h-reset": str(wish["reset"]),
            f"{limit}-5h-utilization": "1.0",
        }
    error = {"type": _KINDS.get(status, "api_error"), "message": _WORDS.get(status, "Internal server error")}
    return {"type": "error", "error": error, "request_id": _id("req")}


def _said(body: Json) -> Said:
    for message in body.get("messages", []):
        content = message["content"]
        for part in content if isinstance(content, list) else [{"type": "text", "text": content}]:
            yield ("tool" if part.get("type") == "tool_result" else message["role"]), flat(part)


def _tools(body: Json) -> Tools:
    for tool in body.get("tools", []):
        yield tool["name"], tool.get("input_schema", {})


def _message(asked: Asked) -> Json:
    return {"id": _id("msg"), "type": "message", "role": "assistant", "model": asked.model, "stop_sequence": None}


def _content(asked: Asked) -> list[Json]:
    if asked.wants_tool:
        name, arguments = asked.call()
        return [{"type": "tool_use", "id": _id("toolu"), "name": name, "input": arguments}]
    schema = asked.body.get("output_config", {}).get("format", {}).get("schema")
    return [{"type": "text", "text": json.dumps(example(schema)) if schema else asked.text}]


def _deltas(asked: Asked, block: Json) -> Iterator[Json]:
    if block["type"] == "tool_use":
        yield {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    else:
        yield from ({"type": "text_delta", "text": piece} for piece in asked.pieces())


def _stop(asked: Asked) -> str:
    return "tool_use" if asked.wants_tool else "end_turn"


def _usage(asked: Asked) -> Json:
    fresh, out, cached = asked.usage
    counts = {"input_tokens": fresh, "cache_read_input_tokens": cached, "output_tokens": out}
    return {**counts, "cache_creation_input_tokens": 0}


def _id(prefix: str) -> str:
    return f"{prefix}_{uuid.uuid4().hex[:24]}"
