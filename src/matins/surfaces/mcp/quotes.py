"""Content in answers: words that Matins did not write stand between marks, so that a model can tell them from ours."""

from __future__ import annotations

from typing import Any

import orjson

from matins.engine.prompts import fenced
from matins.surfaces.display import as_data

MAX_TEXT = 2_000


class Quoted(str):
    """Content between marks that it does not contain. It is neither cut nor cleaned again."""

    __slots__ = ()


def quoted(what: str, value: Any, limit: int = MAX_TEXT) -> Quoted | None:
    """The content between marks, other values than texts as JSON; None without content."""
    if value is None or value in ("", [], {}):
        return None
    text = value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
    return Quoted(fenced(what, str(cut(as_data(text), limit))))


def cut(text: str | None, length: int = MAX_TEXT) -> str | None:
    if text is None or len(text) <= length:
        return text
    return f"{text[:length]} … ({len(text) - length} more characters)"
