"""Gemini generateContent."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator

from real.models.wishes import Asked, Json, Said, Tools, example

_PATH = re.compile(r"/models/([^/:]+):(generateContent|streamGenerateContent)$")
_NAMES = {401: "UNAUTHENTICATED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}
_WORDS = {
    401: "API key not valid. Please pass a valid API key.",
    404: "models/no-such-model is not found",
    429: "You exceeded your current quota, please check your plan and billing details.",
    503: "The model is overloaded. Please try again later.",
}
_TYPES = "type.googleapis.com/google.rpc"


def asked(path: str, body: Json) -> Asked | None:
    found = _PATH.search(path)
    if found is None:
        return None
    return Asked(body, _said(body), _tools(body), streamed=found[2].startswith("stream"), model=found[1])


def stream(asked: Asked) -> Iterator[tuple[str, Json]]:
    if asked.wants_tool:
        yield "", whole(asked)
        return
    structured = _structured(asked)
    pieces = asked.pieces() if structured is None else [structured]
    for n, piece in enumerate(pieces):
        yield "", _answer(asked, [{"text": piece}], last=n == len(pieces) - 1)


def whole(asked: Asked) -> Json:
    if asked.wants_tool:
        name, arguments = asked.call()
        return _answer(asked, [{"functionCall": {"name": name, "args": arguments}}], last=True)
    return _answer(asked, [{"text": _structured(asked) or asked.text}], last=True)


def refusal(wish: Json, status: int, headers: dict[str, str]) -> Json:
    details: list[Json] = []
    if status == 429:
        per = "PerDay" if wish.get("kind") == "day" else "PerMinute"
        quota = f"GenerateRequests{per}PerProjectPerModel-FreeTier"
        details.append({"@type": f"{_TYPES}.QuotaFailure", "violations": [{"quotaId": quota}]})
        if "retry_after" in wish:
            details.append({"@type": f"{_TYPES}.RetryInfo", "retryDelay": f"{wish['retry_after']}s"})
    name, words = _NAMES.get(status, "INTERNAL"), _WORDS.get(status, "Internal error")
    return {"error": {"code": status, "message": words, "status": name, "details": details}}


def _said(body: Json) -> Said:
    for content in body.get("contents", []):
        for part in content.get("parts", []):
            if "functionResponse" in part:
                yield "tool", json.dumps(part["functionResponse"].get("response", {}))
            elif "text" in part:
                yield ("assistant" if content.get("role") == "model" else "user"), part["text"]


def _tools(body: Json) -> Tools:
    for group in body.get("tools", []) or []:
        for tool in group.get("functionDeclarations", []):
            yield tool["name"], tool.get("parametersJsonSchema") or tool.get("parameters") or {}


def _answer(asked: Asked, parts: list[Json], *, last: bool) -> Json:
    fresh, out, cached = asked.usage
    candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
    answer: Json = {"candidates": [candidate], "modelVersion": asked.model, "responseId": f"r_{uuid.uuid4().hex[:24]}"}
    if last:
        candidate["finishReason"] = "STOP"
        counts = {"promptTokenCount": fresh + cached, "candidatesTokenCount": out}
        total = {"cachedContentTokenCount": cached, "totalTokenCount": fresh + cached + out}
        answer["usageMetadata"] = {**counts, **total}
    return answer


def _structured(asked: Asked) -> str | None:
    config = asked.body.get("generationConfig", {})
    if config.get("responseMimeType") != "application/json":
        return None
    return json.dumps(example(config.get("responseJsonSchema") or config.get("responseSchema") or {}))
