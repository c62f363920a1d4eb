"""What a process tells about itself, one line each, written so that nothing is lost when it is killed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import orjson

Line = dict[str, Any]


class Diary:
    """The writing side: one file per process, one `write` per line, no buffer."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def tell(self, kind: str, **facts: Any) -> None:
        os.write(self._file, orjson.dumps({"kind": kind, **facts}) + b"\n")


class Reader:
    """The reading side: what was told, also while the process lives."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0
        self.lines: list[Line] = []

    def news(self) -> list[Line]:
        """What was told since the last time."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        text = text[: text.rfind(b"\n") + 1]  # a line that is being written waits for the next time
        self._read += len(text)
        fresh = [orjson.loads(line) for line in text.splitlines()]
        self.lines += fresh
        return fresh

    def in_flight(self) -> list[tuple[int, int]]:
        """The (run, epoch) that began here, take their time, and have not ended."""
        over = {(line["run"], line["epoch"]) for line in self.lines if line["kind"] == "end"}
        begun = [(line["run"], line["epoch"]) for line in self.lines if line["kind"] == "begin" and line["slow"]]
        return [attempt for attempt in begun if attempt not in over]
