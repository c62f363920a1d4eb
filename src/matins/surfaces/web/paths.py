"""Addresses: of views, of calls, of files. All of them lie below the root at which the application is mounted."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode


def full_name(record: Any) -> str:
    """A schedule's name with its agent's, which is unique."""
    return f"{record.agent}/{record.name}" if record.agent else record.name


def address(root: str, start: str, /, *parts: str | None, **query: object) -> str:
    """`start` with further parts of the path and a query. Parts and values are quoted; empty ones are left out."""
    path = "".join([root, start, *(f"/{quote(part, safe='')}" for part in parts if part)])
    given = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(given)}" if given else path
