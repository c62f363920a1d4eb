"""The events that a view's filters select, as a file: JSON lines or CSV. One page of them is in memory at a time."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator

from matins.api import codec
from matins.api.results import Event
from matins.surfaces.web.views.events import chosen
from matins.surfaces.web.visit import Visit

_PAGE = 500
_COLUMNS = ("id", "at", "type", "schedule", "agent", "run", "data")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet would run a cell that begins like this."""
FORMATS = {"jsonl": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}


def exported_parts(visit: Visit) -> Iterator[bytes]:
    """The file, the oldest event first, up to the newest when it was asked for."""
    written: Callable[[list[Event]], bytes] = _csv if visit.query.get("format") == "csv" else _json_lines
    listed, filters = visit.api.events.list, chosen(visit.query)
    newest = listed(limit=1)
    last, after = int(newest[-1].id) if newest else 0, 0
    if written is _csv:
        yield _rows([_COLUMNS])
    while page := [event for event in listed(after=str(after), limit=_PAGE, **filters) if int(event.id) <= last]:
        yield written(page)
        after = int(page[-1].id)


def _json_lines(page: list[Event]) -> bytes:
    return b"".join(codec.encode(event) + b"\n" for event in page)


def _csv(page: list[Event]) -> bytes:
    return _rows([
        (event.id, event.at.isoformat(), event.type, *map(_cell, (event.schedule, event.agent, event.run_id)),
         codec.encode(event.data).decode())
        for event in page
    ])  # fmt: skip


def _cell(text: str | None) -> str:
    return f"'{text}" if text and text.startswith(_FORMULA) else text or ""


def _rows(rows: list[tuple[str, ...]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()
