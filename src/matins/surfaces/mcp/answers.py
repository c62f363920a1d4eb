"""Answers and errors in the form that models can use."""

from __future__ import annotations

from typing import Any

import orjson

from matins.errors import InvalidInput, MatinsError
from matins.surfaces.mcp.desk import Document

MAX_BYTES = 8_000
MAX_OUTPUT_BYTES = 16_000


def fit(answer: Document, key: str) -> Document:
    """The answer with at most so many items that it stays small; it says how many are left out."""
    items: list[Any] = answer[key]
    kept = list(items)
    while kept and len(orjson.dumps({**answer, key: kept}, default=str)) > MAX_BYTES:
        kept.pop()
    if len(kept) == len(items):
        return answer
    return {**answer, key: kept, "left_out": len(items) - len(kept)}


def error_text(error: MatinsError) -> str:
    """One text that holds everything: clients show models nothing else of an error."""
    parts = [error.message]
    if isinstance(error, InvalidInput) and error.allowed and error.allowed not in (error.hint or ""):
        parts.append(f"Allowed: {error.allowed}.")
    if error.hint:
        parts.append(str(error.hint) if str(error.hint).endswith((".", "?", ")")) else f"{error.hint}.")
    if step := _NEXT.get(error.code):
        parts.append(step)
    field = getattr(error, "field", None)
    return f"{' '.join(parts)} [{error.code}{f', {field}' if field else ''}]"


_NEXT = {
    "not_found": "Or call list_schedules.",
    "stale": "Call get_schedule, then try again.",
    "not_allowed": "Tell the person what you need.",
}
