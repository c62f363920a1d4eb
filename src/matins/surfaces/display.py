"""Text of others, transcripts, durations: shared by surfaces.

Text of others, safe to show: control and invisible characters are written out.

A transcript as lines of text: words as they are, tools and problems behind a mark, results indented.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from matins.model.words import write_out

_ESCAPE_CODE = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]"  # colours and the cursor
    "|\x1b[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)?"  # titles, links, the clipboard
    "|\x1b[ -/]*[0-~]?"
    "|\x9b[0-?]*[ -/]*[@-~]"
)
_LINE_END = re.compile("\r\n?")


def one_line(text: object) -> str:
    """The text on one line, with control and invisible characters escaped."""
    return write_out(" ".join(str(text).split()), escaped)


def block(text: str) -> str:
    """The lines, with control characters escaped."""
    lines = _LINE_END.sub("\n", text).split("\n")
    return "\n".join(write_out(line.expandtabs(4), escaped) for line in lines)


def as_data(text: str) -> str:
    """The text as it is, with control and invisible characters escaped, except line ends and tabs."""
    return write_out(text, escaped, keep="\n\t")


def without_codes(text: str) -> str:
    """The output of a program, without colours and cursor movements."""
    return block(_ESCAPE_CODE.sub("", text))


def escaped(character: str) -> str:
    """A character as its number."""
    number = ord(character)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


MARKS = {"call": "● ", "result": "  ", "error": "✗ ", "note": "– ", "thought": "~ "}


class TranscriptText:
    """Joins entries that arrive in parts. An entry ends with the first one that does not continue it."""

    def __init__(self) -> None:
        self._kept = ""
        self._begun = False

    def read(self, entries: Iterable[Mapping[str, Any]]) -> str:
        """The lines that are complete."""
        for entry in entries:
            self._add(entry)
        lines, end, self._kept = self._kept.rpartition("\n")
        return lines + end

    def rest(self) -> str:
        """The last line."""
        text, self._kept = self._kept, ""
        return f"{text}\n" if self._begun else ""

    def _add(self, entry: Mapping[str, Any]) -> None:
        if entry.get("continues") and self._begun:
            self._kept += entry["text"]
            return
        mark = MARKS.get(entry["kind"], "")
        self._kept += "\n" * self._begun + mark + entry["text"].replace("\n", "\n" + " " * len(mark))
        self._begun = True


SIZES = (86_400, 3_600, 60, 1)
"""The seconds of a day, an hour, a minute and a second."""


def amounts(seconds: float, units: tuple[str, str, str, str]) -> list[str]:
    """The amounts of the units that are not 0, the largest first, each followed by its unit."""
    left, found = round(seconds), list[str]()
    for size, unit in zip(SIZES, units, strict=True):
        amount, left = divmod(left, size)
        if amount:
            found.append(f"{amount}{unit}")
    return found


_MAX_INPUT_LENGTH = 200


def input_line(value: Any) -> str:
    """The input of a run in a line: `days=30, repo=api`."""
    import json  # most runs have no input

    def text(item: Any) -> str:
        return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)

    pairs = cast("dict[str, Any]", value).items() if isinstance(value, dict) else ()
    line = ", ".join(f"{name}={text(item)}" for name, item in pairs) or text(value)
    return one_line(line if len(line) <= _MAX_INPUT_LENGTH else f"{line[: _MAX_INPUT_LENGTH - 1]}…")


def given_sentence(run: Mapping[str, Any]) -> str | None:
    """`By ada, with days=30, model opus.`; None for a run that was given nothing."""
    given = [] if run["input"] is None else [input_line(run["input"])]
    given += [f"{name} {one_line(run[name])}" for name in ("model", "effort") if run[name] is not None]
    if not given:
        return None
    evidence: Mapping[str, Any] = run["evidence"] or {}
    by: Mapping[str, Any] = evidence.get("by") or {}
    return f"By {by.get('name', 'owner')}, with {', '.join(given)}."
