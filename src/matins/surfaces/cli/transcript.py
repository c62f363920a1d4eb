"""What agents' tools print, as people read it: they tell events as JSON, a line each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

from matins.surfaces.cli.text import one_line

_TEXTS = frozenset(["text", "content", "error", "msg"])
_TOOL_NAMES = ("name", "tool_name", "tool")
_OURS = frozenset(["user", "system", "init"])
"""Who speaks, or what is told, that is not the agent's answer."""


class Transcript:
    """Line by line: words as they are, of an event what it says, and nothing of one that says nothing to people."""

    def __init__(self) -> None:
        self._kept = ""
        self._last = ""

    def read(self, text: str) -> str:
        """All whole lines so far."""
        *lines, self._kept = (self._kept + text).split("\n")
        return "".join(self._told(line) for line in lines)

    def rest(self) -> str:
        return self._told(self._kept).removesuffix("\n") if self._kept else ""

    def _told(self, line: str) -> str:
        event = _event(line)
        if event is None:
            return f"{line}\n"
        said = [text for text in _said(event) if text.strip() and text != self._last]
        self._last = said[-1] if said else self._last
        return "".join(f"{text.rstrip()}\n" for text in said)


def _event(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        event = json.loads(line)
    except ValueError:
        return None
    told: dict[str, Any] = event
    return told if isinstance(told.get("type"), str) else None


def _said(value: Any) -> Iterator[str]:
    """Texts and uses of tools, wherever they stand in an event."""
    if isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _said(item)
    elif isinstance(value, dict):
        yield from _said_by(cast("dict[str, Any]", value))


def _said_by(part: dict[str, Any]) -> Iterator[str]:
    if part.get("role") in _OURS or part.get("type") in _OURS:
        return
    name = next((part[key] for key in _TOOL_NAMES if isinstance(part.get(key), str)), None)
    if name is not None and "tool" in str(part.get("type")):
        yield f"● {one_line(name)} {_arguments(part)}".rstrip()
        return
    if isinstance(part.get("command"), str):
        yield f"● {one_line(part['command'])}"
        return
    for key, item in part.items():
        if isinstance(item, str):
            told = key in _TEXTS or (key == "result" and part.get("type") == "result") or _complains(part, key)
            yield from [item] if told else []
        else:
            yield from _said(item)


def _complains(part: dict[str, Any], key: str) -> bool:
    return key == "message" and (part.get("type") == "error" or "type" not in part)


def _arguments(part: dict[str, Any]) -> str:
    state: dict[str, Any] = part["state"] if isinstance(part.get("state"), dict) else {}
    used = part.get("input") or part.get("parameters") or state.get("input")
    return one_line(json.dumps(used, ensure_ascii=False)) if used else ""
