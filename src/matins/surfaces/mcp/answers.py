"""Answers and errors in the form that models can use."""

from __future__ import annotations

from typing import Any, cast

import orjson

from matins.errors import InvalidInput, MatinsError
from matins.surfaces.display import as_data
from matins.surfaces.mcp.principal_calls import Document
from matins.surfaces.mcp.quotes import Quoted, cut

MAX_BYTES = 8_000
MAX_OUTPUT_BYTES = 16_000
MAX_ANSWER_BYTES = 32_000
"""Of all answers. Lists are made to fit into less, and say how to go on."""
_MAX_TEXT = 2_500
"""A text in an answer, with what says how much of it is cut."""


def fit(answer: Document, key: str) -> Document:
    """The answer with at most so many items that it stays small; it says how many are left out."""
    items: list[Any] = answer[key]
    kept = list(items)
    while kept and len(orjson.dumps({**answer, key: kept}, default=str)) > MAX_BYTES:
        kept.pop()
    if len(kept) == len(items):
        return answer
    return {**answer, key: kept, "left_out": len(items) - len(kept)}


def plain_answer(answer: Document) -> Document:
    """The answer as JSON data that models and people can read."""
    return bounded(orjson.loads(orjson.dumps(readable(answer), default=str)))


def readable(value: Any) -> Any:
    """The value with its texts as models and people can read them: what hides or reorders characters is written out,
    and a long text is cut. Quoted content was treated so before."""
    if isinstance(value, Quoted):
        return value
    if isinstance(value, str):
        return cut(as_data(value), _MAX_TEXT)
    if isinstance(value, dict):
        return {as_data(str(name)): readable(one) for name, one in cast("Document", value).items()}
    if isinstance(value, list | tuple):
        return [readable(one) for one in cast("list[Any]", value)]
    return value


def bounded(answer: Document) -> Document:
    """The answer without its largest parts, where it is too large for a model; it names them."""
    left_out: list[str] = []
    while len(orjson.dumps(answer)) > MAX_ANSWER_BYTES:
        largest = max((name for name in answer if name != "summary"), key=lambda name: len(orjson.dumps(answer[name])))
        left_out.append(largest)
        answer = {name: value for name, value in answer.items() if name != largest}
    return {**answer, "left_out_parts": left_out} if left_out else answer


def error_text(error: MatinsError) -> str:
    """One text that holds everything: clients show models nothing else of an error."""
    parts = [error.message]
    if isinstance(error, InvalidInput) and error.allowed and error.allowed not in (error.hint or ""):
        parts.append(f"Allowed: {error.allowed}.")
    if error.hint:
        parts.append(str(error.hint) if str(error.hint).endswith((".", "?", ")")) else f"{error.hint}.")
    field = getattr(error, "field", None)
    if step := _NEXT.get(error.code, {}).get(field, _NEXT.get(error.code, {}).get(None)):
        parts.append(step if error.hint else step.removeprefix("Or ").capitalize())
    return f"{readable(' '.join(parts))} [{error.code}{f', {readable(str(field))}' if field else ''}]"


_NEXT: dict[str, dict[str | None, str]] = {
    "not_found": {
        "name": "Or call list_schedules.",
        "run": "Or call list_runs.",
        "approval": "Or call list_approvals.",
    },
    "stale": {"digest": "Call list_approvals, then try again.", None: "Call get_schedule, then try again."},
    "not_allowed": {None: "Tell the person what you need."},
}
"""What to call next, by the code of an error and its field; None: for any other field."""
