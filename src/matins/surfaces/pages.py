"""Cursors: where a long collection goes on. They hold the last item's id, so nothing that is added moves them."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

from matins.errors import InvalidInput
from matins.surfaces.routes import PAGES


def next_cursor(use_case: str, arguments: dict[str, Any], items: list[Any]) -> str | None:
    """None where nothing follows: a page that is not full is the last."""
    page = PAGES.get(use_case)
    if page is None or len(items) < arguments.get("limit", 100):
        return None
    if use_case == "events" and arguments.get("after") is None:  # the newest: nothing is behind them yet
        return None
    return encode_cursor(use_case, items[-1][page.field])


def encode_cursor(use_case: str, last: Any) -> str:
    return urlsafe_b64encode(f"{use_case} {last}".encode()).decode().rstrip("=")


def decode_cursor(use_case: str, cursor: str) -> dict[str, str]:
    """As the argument that it stands for."""
    try:
        text = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)).decode()
    except ValueError:
        text = ""
    whose, _, last = text.partition(" ")
    if whose != use_case or not last or not last.isprintable():
        raise InvalidInput(
            '"cursor" is not one of this collection', value=cursor[:60], field="cursor", hint="take it from `next`"
        )
    return {PAGES[use_case].argument: last}
