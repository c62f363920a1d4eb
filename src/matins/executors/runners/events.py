"""One JSON object per line, read without trust: wrong types are absent, long texts keep their end."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from matins.engine.validation import UNSTORABLE

LINE_ROOM = 8 * 1024 * 1024
"""A longer line is passed over: no event that we need is as long."""
TEXT_ROOM = 1_000_000
NOTE_ROOM = 500
_MOST = 10**15
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_MOST_WHOLE = 2**63 - 1
_BEFORE_JSON = re.compile(r"(?:\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x20\ufeff])*")


class Event:
    """An object of a stream."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = raw

    def text(self, key: str) -> str | None:
        """A text that says something."""
        value = self.raw.get(key)
        return clean(value) if isinstance(value, str) and value else None

    def word(self, key: str) -> str | None:
        """A name or an id: a text that is not long."""
        value = self.raw.get(key)
        return clean(value) if isinstance(value, str) and 0 < len(value) <= NOTE_ROOM else None

    def whole(self, key: str) -> int:
        """A count; 0 where there is none."""
        value = self.number(key)
        return 0 if value is None else int(value)

    def number(self, key: str) -> float | None:
        """A number that is not negative and not beyond reason."""
        value = self.raw.get(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        return value if 0 <= value <= _MOST else None

    def flag(self, key: str) -> bool:
        return self.raw.get(key) is True

    def inner(self, key: str) -> Event:
        """An object inside; an empty one where there is none."""
        value = self.raw.get(key)
        return Event(cast("dict[str, Any]", value) if isinstance(value, dict) else {})

    def inners(self, key: str) -> Iterator[Event]:
        """The objects of a list inside."""
        value = self.raw.get(key)
        for item in cast("list[Any]", value) if isinstance(value, list) else []:
            if isinstance(item, dict):
                yield Event(cast("dict[str, Any]", item))

    def texts(self, key: str) -> list[str]:
        """The texts of a list inside."""
        value = self.raw.get(key)
        listed = cast("list[Any]", value) if isinstance(value, list) else []
        return [clean(item) for item in listed if isinstance(item, str) and item]


def read_event(line: bytes) -> Event | None:
    """None for what is not an object; escape sequences of a terminal may stand before it."""
    if len(line) > LINE_ROOM or b"{" not in line:
        return None
    text = line.decode("utf-8", "replace")
    begin = _BEFORE_JSON.match(text)
    value = _decoded(text, begin.end() if begin else 0)
    return Event(cast("dict[str, Any]", value)) if isinstance(value, dict) else None


def read_json(text: str) -> Any | None:
    """The object or list that a text is, as it can be stored; None for any other text."""
    stripped = text.strip()
    if not stripped.startswith(("{", "[")):
        return None
    try:
        value = json.loads(stripped, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
    return storable(value)


def storable(value: Any) -> Any | None:
    """A value of JSON as every database holds it; None where it is too long or too deep."""
    try:
        return _storable(value) if len(json.dumps(value)) <= TEXT_ROOM else None
    except (ValueError, TypeError, RecursionError):
        return None


def without_escapes(text: str) -> str:
    """Without escape sequences and control characters, which a terminal would obey."""
    return _ESCAPES.sub("", text)


def clean(text: str) -> str:
    """Without NUL and half characters."""
    return UNSTORABLE.sub("\ufffd", text)


def brief(text: str) -> str:
    """One line, and not a long one."""
    line = " ".join(clean(text[: 10 * NOTE_ROOM]).split())
    return line if len(line) <= NOTE_ROOM else line[: NOTE_ROOM - 1] + "…"


def action(name: str | None, given: Any) -> str:
    """A tool and what it was asked for."""
    if not given:
        return brief(name or "a tool")
    try:
        words = json.dumps(given, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        words = "…"
    return brief(clean(f"{name or 'a tool'} {words}"))


class Text:
    """A text that comes in parts; of a long one the end is kept, for the last line may declare an outcome."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0
        self._before = ""
        self.heard = 0
        """Characters, also of what was replaced or cut."""

    def add(self, part: str) -> None:
        self.heard += len(part)
        self._parts.append(part)
        self._size += len(part)
        if self._size > 2 * TEXT_ROOM:
            self._parts = [self.last_words()]
            self._size = len(self._parts[0])

    def begin(self) -> None:
        """What comes next replaces what came before, if anything does come."""
        if self._parts:
            self._before = self.last_words()
            self._parts, self._size = [], 0

    def last_words(self) -> str:
        text = "".join(self._parts) or self._before
        return text if len(text) <= TEXT_ROOM else "…" + text[1 - TEXT_ROOM :]


def _decoded(text: str, begin: int) -> Any:
    if not text.startswith("{", begin):
        return None
    try:
        return _DECODER.raw_decode(text, begin)[0]
    except (ValueError, RecursionError):
        return None


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_storable(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {clean(key): _storable(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, int) and abs(value) > _MOST_WHOLE:
        return clean(str(value))
    return value if value not in (math.inf, -math.inf) else None


# Control characters inside texts are passed, as tools let those of their terminals through.
_DECODER = json.JSONDecoder(strict=False, parse_constant=lambda _: None)
