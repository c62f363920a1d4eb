"""OpenAI chat completions."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator

from real.models.openai_errors import refusal
from real.models.wishes import Asked, Json, Said, Tools, example, flat

__all__ = ["asked", "refusal", "stream", "whole"]


def asked(path: str, body: Json) -> Asked | None:
    if not path.endswith("/chat/completions"):
        return None
    model = str(body.get("model", "fake-model"))
    return Asked(body, _said(body), _tools(body), streamed=bool(body.get("stream")), model=model)


def stream(asked: Asked) -> Iterator[tuple[str, Json]]:
    base = _base(asked, "chat.completion.chunk")

    def chunk(delta: Json, finish: str | None = None) -> tuple[str, Json]:
        return "", {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    if asked.wants_tool:
        yield chunk({"tool_calls": [_call(asked)]})
    else:
        yield from (chunk({"content": piece}) for piece in asked.pieces())
    yield chunk({}, _finish(asked))
    yield "", {**base, "choices": [], "usage": _usage(asked)}


def whole(asked: Asked) -> Json:
    schema = (asked.body.get("response_format") or {}).get("json_schema", {}).get("schema")
    message: Json = {"role": "assistant", "content": json.dumps(example(schema)) if schema else asked.text}
    if asked.wants_tool:
        message = {"role": "assistant", "content": None, "tool_calls": [_call(asked)]}
    choice = {"index": 0, "message": message, "finish_reason": _finish(asked)}
    return {**_base(asked, "chat.completion"), "choices": [choice], "usage": _usage(asked)}


def _said(body: Json) -> Said:
    for message in body.get("messages", []):
        yield message.get("role", "user"), flat(message.get("content"))


def _tools(body: Json) -> Tools:
    for tool in body.get("tools", []) or []:
        yield tool["function"]["name"], tool["function"].get("parameters", {})


def _base(asked: Asked, kind: str) -> Json:
    return {"id": _id("chatcmpl"), "object": kind, "created": int(time.time()), "model": asked.model}


def _call(asked: Asked) -> Json:
    name, arguments = asked.call()
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"index": 0, "id": _id("call"), "type": "function", "function": function}


def _finish(asked: Asked) -> str:
    return "tool_calls" if asked.wants_tool else "stop"


def _usage(asked: Asked) -> Json:
    fresh, out, cached = asked.usage
    counts = {"prompt_tokens": fresh + cached, "completion_tokens": out, "total_tokens": fresh + cached + out}
    return {**counts, "prompt_tokens_details": {"cached_tokens": cached}}


def _id(prefix: str) -> str:
    return f"{prefix}_{uuid.uuid4().hex[:24]}"
