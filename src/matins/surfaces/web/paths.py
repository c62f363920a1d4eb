"""Addresses: of views, of calls, of files. All of them lie below the root at which the application is mounted."""

from __future__ import annotations

from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlencode


def full_name(record: Any) -> str:
    """A schedule's name with its agent's, which is unique."""
    return f"{record.agent}/{record.name}" if record.agent else record.name


def address(root: str, start: str, /, *parts: str | None, **query: object) -> str:
    """`start` with further parts of the path and a query. Parts and values are quoted; empty ones are left out."""
    path = "".join([root, start, *[_segment(part) for part in parts if part]])
    given = {name: value for name, value in query.items() if value} if query else None
    return f"{path}?{urlencode(given)}" if given else path


@lru_cache(4096)
def _segment(part: str) -> str:
    """A page names the same schedules and agents again and again."""
    return f"/{quote(part, safe='')}"
