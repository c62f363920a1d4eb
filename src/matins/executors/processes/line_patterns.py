"""Lines of a tool's output that a warden must recognise while nobody else reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

LinePattern = Mapping[str, str] | str
"""A mapping matches an event (a line that is a JSON object) in which each of these keys has this value. `part.reason`
is the key `reason` of the object `part`; a value with a `*` at its end is the beginning of one. A text matches any line
that contains it."""
_MAX_LINE_BYTES = 8 * 1024 * 1024


class Seen(NamedTuple):
    final: bool = False
    """A line was the final event."""
    progress: bool = True
    """There was more than lines that only say that the tool tries again."""


_PROGRESS = Seen()


def matches(pattern: LinePattern, line: bytes) -> bool:
    if isinstance(pattern, str):
        return pattern.encode() in line
    if not all(value.removesuffix("*").encode() in line for value in pattern.values()):
        return False  # quicker than reading the line
    event = _event(line)
    return event is not None and all(_has(event, key, value) for key, value in pattern.items())


class LineWatch:
    """Reads a stream in chunks. Without patterns, every chunk is progress and nothing is kept."""

    def __init__(self, finals: Sequence[LinePattern], retries: Sequence[LinePattern]) -> None:
        self._finals = finals
        self._retries = retries
        self._rest = b""
        self._skipping = False

    def feed(self, chunk: bytes) -> Seen:
        if not self._finals and not self._retries:
            return _PROGRESS
        *lines, rest = (self._rest + chunk).split(b"\n")
        if self._skipping and lines:
            del lines[0]
            self._skipping = False
        self._skipping = self._skipping or len(rest) > _MAX_LINE_BYTES
        self._rest = b"" if self._skipping else rest
        final = any(matches(pattern, line) for line in lines for pattern in self._finals)
        return Seen(final, bool(rest) or not lines or any(self._is_progress(line) for line in lines))

    def _is_progress(self, line: bytes) -> bool:
        return not any(matches(pattern, line) for pattern in self._retries)


def _event(line: bytes) -> dict[str, Any] | None:
    begin = line.find(b"{")  # codes of a terminal may precede it
    try:
        event = json.loads(line[begin:].decode("utf-8", "replace"), strict=False) if begin >= 0 else None
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", event) if isinstance(event, dict) else None


def _has(event: dict[str, Any], key: str, value: str) -> bool:
    found: Any = event
    for name in key.split("."):
        found = cast("dict[str, Any]", found).get(name) if isinstance(found, dict) else None
    if not isinstance(found, str):
        return False
    return found.startswith(value[:-1]) if value.endswith("*") else found == value
