"""The output of agents' tools as text. Many tools print events as JSON, one per line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

from matins.surfaces.cli.terminal_text import one_line

_TEXT_FIELDS = frozenset(["text", "content", "error", "msg"])
_TOOL_NAMES = ("name", "tool_name", "tool")
_NOT_ANSWERS = frozenset(["user", "system", "init"])
"""Roles and types of events that are not the agent's answer."""


class Transcript:
    """Converts line by line: text stays as it is, and an event becomes its texts, if any. Pieces of a message join."""

    def __init__(self) -> None:
        self._kept = ""
        self._last = ""
        self._message: str | None = None
        """The message whose pieces arrive."""

    def read(self, text: str) -> str:
        """The text of all complete lines so far."""
        *lines, self._kept = (self._kept + text).split("\n")
        return "".join(self._line_text(line) for line in lines)

    def rest(self) -> str:
        return (self._line_text(self._kept).removesuffix("\n") if self._kept else "") + self._end_message()

    def _line_text(self, line: str) -> str:
        event = _event(line)
        if event is None:
            return f"{self._end_message()}{line}\n"
        message = _message_of_piece(event)
        if message is not None:
            before = "" if message == self._message else self._end_message()
            self._message = message
            return before + "".join(_texts(event))
        texts = [text for text in _texts(event) if text.strip() and text != self._last]
        self._last = texts[-1] if texts else self._last
        return (self._end_message() if texts else "") + "".join(f"{text.rstrip()}\n" for text in texts)

    def _end_message(self) -> str:
        ended, self._message = self._message is not None, None
        return "\n" if ended else ""


def _message_of_piece(event: dict[str, Any]) -> str | None:
    """The message to which a piece of text belongs; None for any other event."""
    if event.get("delta") is True and event.get("role") == "assistant":
        return "assistant"
    message: Any = event.get("message") if event["type"] == "message" else None
    if not isinstance(message, dict):
        return None
    found = cast("dict[str, Any]", message)
    parts = cast("list[dict[str, Any]]", found["content"]) if isinstance(found.get("content"), list) else []
    is_text = bool(parts) and all(isinstance(part, dict) and part.get("type") == "text" for part in parts)  # pyright: ignore[reportUnnecessaryIsInstance]
    return str(found["id"]) if is_text and found.get("role") == "assistant" and found.get("id") else None


def _event(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        event = json.loads(line)
    except ValueError:
        return None
    found: dict[str, Any] = event
    return found if isinstance(found.get("type"), str) else None


def _texts(value: Any) -> Iterator[str]:
    """The texts and tool calls anywhere in an event."""
    if isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _texts(item)
    elif isinstance(value, dict):
        yield from _texts_of(cast("dict[str, Any]", value))


def _texts_of(part: dict[str, Any]) -> Iterator[str]:
    if part.get("role") in _NOT_ANSWERS or part.get("type") in _NOT_ANSWERS:
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
            shown = key in _TEXT_FIELDS or (key == "result" and part.get("type") == "result") or _is_error(part, key)
            yield from [item] if shown else []
        else:
            yield from _texts(item)


def _is_error(part: dict[str, Any], key: str) -> bool:
    return key == "message" and (part.get("type") == "error" or "type" not in part)


def _arguments(part: dict[str, Any]) -> str:
    state: dict[str, Any] = part["state"] if isinstance(part.get("state"), dict) else {}
    used = part.get("input") or part.get("parameters") or state.get("input")
    return one_line(json.dumps(used, ensure_ascii=False)) if used else ""
