"""OpenAI Responses."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator

from real.models.openai_errors import refusal
from real.models.wishes import Asked, Json, Said, Tools, flat

__all__ = ["asked", "refusal", "stream", "whole"]


def asked(path: str, body: Json) -> Asked | None:
    if not path.endswith("/responses"):
        return None
    model = str(body.get("model", "fake-model"))
    return Asked(body, _said(body), _tools(body), streamed=bool(body.get("stream")), model=model)


def stream(asked: Asked) -> Iterator[tuple[str, Json]]:
    response, item = _response(asked, "in_progress"), _item(asked)
    yield _event("response.created", response=response)
    unfinished = {"content": []} if item["type"] == "message" else {"arguments": ""}
    yield _event("response.output_item.added", output_index=0, item={**item, "status": "in_progress", **unfinished})
    for piece in asked.pieces() if item["type"] == "message" else ():
        place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
        yield _event("response.output_text.delta", **place, delta=piece)
    yield _event("response.output_item.done", output_index=0, item=item)
    done = {**response, "status": "completed", "output": [item], "usage": _usage(asked)}
    yield _event("response.completed", response=done)


def whole(asked: Asked) -> Json:
    return {**_response(asked, "completed"), "output": [_item(asked)], "usage": _usage(asked)}


def _said(body: Json) -> Said:
    given = body.get("input", [])
    for item in [{"content": given}] if isinstance(given, str) else given:
        kind = item.get("type", "message")
        if kind == "message":
            yield item.get("role", "user"), flat(item.get("content"))
        elif kind.endswith("_output"):
            yield "tool", flat(item.get("output"))
        elif kind.endswith("_call"):
            yield "assistant", f"<{item.get('name', kind)}>"


def _tools(body: Json) -> Tools:
    for tool in body.get("tools", []):
        if tool.get("type") == "namespace":
            for inner in tool.get("tools", []):
                yield inner.get("name", ""), {**inner.get("parameters", {}), "namespace": tool.get("name")}
        else:
            yield tool.get("name", tool.get("type", "")), tool.get("parameters", {})


def _event(name: str, **fields: object) -> tuple[str, Json]:
    return name, {"type": name, **fields}


def _response(asked: Asked, status: str) -> Json:
    made = {"id": _id("resp"), "object": "response", "created_at": int(time.time())}
    return {**made, "model": asked.model, "status": status, "output": []}


def _item(asked: Asked) -> Json:
    if not asked.wants_tool:
        part = {"type": "output_text", "text": asked.text, "annotations": []}
        return {"type": "message", "id": _id("msg"), "role": "assistant", "status": "completed", "content": [part]}
    name, arguments = asked.call()
    space = asked.tools.get(name, {}).get("namespace")
    call = {"type": "function_call", "id": _id("fc"), "call_id": _id("call"), "name": name, "status": "completed"}
    return {**call, "arguments": json.dumps(arguments), **({"namespace": space} if space else {})}


def _usage(asked: Asked) -> Json:
    fresh, out, cached = asked.usage
    return {
        "input_tokens": fresh + cached,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": out,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": fresh + cached + out,
    }


def _id(prefix: str) -> str:
    return f"{prefix}_{uuid.uuid4().hex[:24]}"
