"""Cursors of pages. A cursor is the id of the last item, so new items do not move it."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

from matins.api.use_case import UseCase
from matins.errors import InvalidInput

_DEFAULT_LIMIT = 100


def next_cursor(use_case: UseCase, arguments: dict[str, Any], items: list[Any]) -> str | None:
    """The cursor of the next page; None if there is none: a page that is not full is the last."""
    if use_case.page is None or len(items) < arguments.get("limit", _DEFAULT_LIMIT):
        return None
    if arguments.get("newest") or (use_case.name == "events.list" and arguments.get("after") is None):
        return None  # the newest of all: no page follows yet
    return encode_cursor(use_case, getattr(items[-1], use_case.page[1]))


def encode_cursor(use_case: UseCase, last: Any) -> str:
    return urlsafe_b64encode(f"{use_case.name} {last}".encode()).decode().rstrip("=")


def decode_cursor(use_case: UseCase, cursor: str) -> dict[str, str]:
    """The cursor as the argument of the use case."""
    try:
        text = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)).decode()
    except ValueError:
        text = ""
    whose, _, last = text.partition(" ")
    if use_case.page is None or whose != use_case.name or not last or not last.isprintable():
        message = '"cursor" is not one of this collection.'
        raise InvalidInput(message, value=cursor[:60], field="cursor", hint="Take it from `next` of a page.")
    return {use_case.page[0]: last}
