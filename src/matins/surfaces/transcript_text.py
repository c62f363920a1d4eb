"""A transcript as lines of text: words as they are, tools and problems behind a mark, results indented."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

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
