"""Parts of a transcript: calls of tools and their results, shortened. Runners read the events of their tools."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast

from matins.executors.runners.tool_events import Event, shorten, storable_text
from matins.model.counting import counted
from matins.model.transcript import Entry

_MAX_SAID, _MAX_VALUE, _MAX_RESULT, _RESULT_LINES = 20_000, 200, 600, 4
_MAIN = ("command", "file_path", "filePath", "path", "pattern", "query", "url", "prompt")
"""The argument that says what a call is about."""


def said(text: str | None, part_of: str | None = None) -> list[Entry]:
    return [Entry("words", _cut(text), part_of)] if text else []


def thought(text: str | None) -> list[Entry]:
    return [Entry("thought", _cut(text))] if text else []


def note(text: str) -> list[Entry]:
    return [Entry("note", shorten(text))]


def problem(text: str | None) -> list[Entry]:
    return [Entry("error", shorten(text or "an error without a message"))]


def call(name: str | None, arguments: Any) -> list[Entry]:
    """A tool and its arguments on one line; the main argument comes first, without its name."""
    parts: list[str] = []
    if isinstance(arguments, dict):
        given = cast("dict[str, Any]", arguments)
        main = next((key for key in _MAIN if isinstance(given.get(key), str)), None)
        parts = [_value(given[main])] if main else []
        parts += [f"{key}: {_value(value)}" for key, value in given.items() if key != main]
    elif arguments:
        parts = [_value(arguments)]
    return [Entry("call", shorten(f"{name or 'a tool'} {', '.join(parts)}".rstrip()))]


def result(text: str | None, *, failed: bool = False) -> list[Entry]:
    """What a tool answered: its first lines, and how many follow."""
    lines = storable_text(text or "").strip().splitlines()
    shown = "\n".join(lines[:_RESULT_LINES])
    if len(shown) > _MAX_RESULT:
        shown = f"{shown[:_MAX_RESULT]} … {len(text or ''):,} characters"
    elif len(lines) > _RESULT_LINES:
        shown += f"\n… {len(lines) - _RESULT_LINES} more lines"
    return [Entry("error" if failed else "result", shown or "(no output)")]


def ended(*facts: str | None) -> list[Entry]:
    """The end of a tool's work, with what it reports about it."""
    return note(", ".join(["Ended", *(fact for fact in facts if fact)]))


def amount(number: int, noun: str) -> str | None:
    """A number of things; None for none."""
    return counted(number, noun) if number else None


def texts(parts: Iterable[Event]) -> str:
    """The texts of parts of a message."""
    return "\n".join(text for part in parts if (text := part.text("text")))


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    line = " ".join(text[: 2 * _MAX_VALUE].split())
    return line if len(line) <= _MAX_VALUE else f"{line[:_MAX_VALUE]}…"


def _cut(text: str) -> str:
    kept = text[:_MAX_SAID].rstrip("\n") if len(text) > _MAX_SAID else text
    return kept if kept is text else f"{kept}\n… {len(text) - _MAX_SAID:,} more characters"
