"""Events of tools, one JSON object per line, read defensively: wrong types are absent, long texts keep their end.

Parts of a transcript: calls of tools and their results, shortened. Runners read the events of their tools.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from matins.engine.validation import UNSTORABLE
from matins.model.run import Entry
from matins.model.words import counted

MAX_LINE_BYTES = 8 * 1024 * 1024
"""A longer line is skipped: no useful event is as long."""
MAX_TEXT_LENGTH = 1_000_000
MAX_NOTE_LENGTH = 500
MAX_NUMBER = 10**15
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_MAX_INTEGER = 2**63 - 1
_BEFORE_JSON = re.compile(r"(?:\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x20\ufeff])*")


class Event:
    """An object of a stream."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = raw

    def text(self, key: str) -> str | None:
        """A text that is not blank."""
        value = self.raw.get(key)
        return storable_text(value) if isinstance(value, str) and value else None

    def name(self, key: str) -> str | None:
        """A short text, such as a name or an id."""
        value = self.raw.get(key)
        return storable_text(value) if isinstance(value, str) and 0 < len(value) <= MAX_NOTE_LENGTH else None

    def count(self, key: str) -> int:
        """A count; 0 when it is missing."""
        value = self.number(key)
        return 0 if value is None else int(value)

    def number(self, key: str) -> float | None:
        """A number within a plausible range, not negative."""
        value = self.raw.get(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        return value if 0 <= value <= MAX_NUMBER else None

    def flag(self, key: str) -> bool:
        return self.raw.get(key) is True

    def inner(self, key: str) -> Event:
        """A nested object; an empty one when it is missing."""
        value = self.raw.get(key)
        return Event(cast("dict[str, Any]", value) if isinstance(value, dict) else {})

    def inners(self, key: str) -> Iterator[Event]:
        """The objects of a nested list."""
        value = self.raw.get(key)
        for item in cast("list[Any]", value) if isinstance(value, list) else []:
            if isinstance(item, dict):
                yield Event(cast("dict[str, Any]", item))

    def texts(self, key: str) -> list[str]:
        """The texts of a nested list."""
        value = self.raw.get(key)
        listed = cast("list[Any]", value) if isinstance(value, list) else []
        return [storable_text(item) for item in listed if isinstance(item, str) and item]


def read_event(line: bytes) -> Event | None:
    """The event of a line; None for anything but an object. Terminal escape sequences may precede it."""
    if len(line) > MAX_LINE_BYTES or b"{" not in line:
        return None
    text = line.decode("utf-8", "replace")
    begin = _BEFORE_JSON.match(text)
    value = _decoded(text, begin.end() if begin else 0)
    return Event(cast("dict[str, Any]", value)) if isinstance(value, dict) else None


def read_json(text: str) -> Any | None:
    """The object or list in a text, in storable form; None for any other text."""
    stripped = text.strip()
    if not stripped.startswith(("{", "[")):
        return None
    try:
        value = json.loads(stripped, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
    return storable(value)


def storable(value: Any) -> Any | None:
    """A JSON value that every database can hold; None when it is too long or too deep."""
    try:
        return _storable(value) if len(json.dumps(value)) <= MAX_TEXT_LENGTH else None
    except (ValueError, TypeError, RecursionError):
        return None


def without_escapes(text: str) -> str:
    """The text without escape sequences and control characters, which a terminal would execute."""
    return _ESCAPES.sub("", text)


def storable_text(text: str) -> str:
    """The text without NUL and lone surrogates."""
    return UNSTORABLE.sub("\ufffd", text)


def shorten(text: str) -> str:
    """The text as one short line."""
    line = " ".join(storable_text(text[: 10 * MAX_NOTE_LENGTH]).split())
    return line if len(line) <= MAX_NOTE_LENGTH else line[: MAX_NOTE_LENGTH - 1] + "…"


def action(name: str | None, arguments: Any) -> str:
    """A tool and its arguments, as one short line."""
    if not arguments:
        return shorten(name or "a tool")
    try:
        text = json.dumps(arguments, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        text = "…"
    return shorten(storable_text(f"{name or 'a tool'} {text}"))


class Text:
    """A text that arrives in parts. A long one keeps its end: the last line may declare an outcome."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0
        self._before = ""
        self.length = 0
        """Number of characters, including replaced and removed ones."""
        self.final_length = 0
        """Number of characters of the last text, including removed ones."""
        self._begun = False

    def add(self, part: str) -> None:
        self.length += len(part)
        if part:
            self.final_length = len(part) + (0 if self._begun else self.final_length)
            self._begun = False
        self._parts.append(part)
        self._size += len(part)
        if self._size > 2 * MAX_TEXT_LENGTH:
            self._parts = [self.final_text()]
            self._size = len(self._parts[0])

    def begin(self) -> None:
        """Start a new text. It replaces the old one as soon as a part arrives."""
        if self._parts:
            self._before = self.final_text()
            self._parts, self._size = [], 0
        self._begun = True

    def final_text(self) -> str:
        text = "".join(self._parts) or self._before
        return text if len(text) <= MAX_TEXT_LENGTH else "…" + text[1 - MAX_TEXT_LENGTH :]


def _decoded(text: str, begin: int) -> Any:
    if not text.startswith("{", begin):
        return None
    try:
        return _DECODER.raw_decode(text, begin)[0]
    except (ValueError, RecursionError):
        return None


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, list):
        return [_storable(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {storable_text(key): _storable(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, int) and abs(value) > _MAX_INTEGER:
        return storable_text(str(value))
    return value if value not in (math.inf, -math.inf) else None


# Control characters inside texts are accepted: tools pass on those of their terminals. NaN is no absent number but an
# impossible one, which readers see as such.
_DECODER = json.JSONDecoder(strict=False, parse_constant=lambda _: math.inf)


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
