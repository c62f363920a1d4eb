"""Results without secrets. The stored output has none, but pieces of a text may join to one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, cast

from matins.executors.processes.redaction import Redactor
from matins.executors.runners.protocol import RunnerResult


def without_secrets(result: RunnerResult, secrets: Collection[str]) -> RunnerResult:
    """The result without secrets, also those split between chunks."""
    if not secrets:
        return result
    texts = {
        name: redacted_text(text, secrets)
        for name in ("text", "error", "reason", "session", "complaint")
        if isinstance(text := getattr(result, name), str)
    }
    limit = result.limit and result.limit._replace(reason=redacted_text(result.limit.reason, secrets))
    denials = tuple(redacted_text(denial, secrets) for denial in result.denials)
    return replace(
        result, **texts, limit=limit, denials=denials, structured=_without_secrets(result.structured, secrets)
    )


def redacted(data: bytes, secrets: Collection[str]) -> bytes:
    if not secrets:
        return data
    redactor = Redactor([secret.encode() for secret in secrets])
    return redactor.feed(data) + redactor.finish()


def redacted_text(text: str, secrets: Collection[str]) -> str:
    return redacted(text.encode(errors="replace"), secrets).decode(errors="replace")


def _without_secrets(value: Any, secrets: Collection[str]) -> Any:
    if isinstance(value, str):
        return redacted_text(value, secrets)
    if isinstance(value, list):
        return [_without_secrets(item, secrets) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return {redacted_text(key, secrets): _without_secrets(item, secrets) for key, item in pairs}
    return value
