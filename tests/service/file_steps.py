"""A bench with a file, and what the tests of it say."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

from matins.service.file.reload import Reloader
from matins.testing import Sandbox, iso

FILE = """\
# what we do
agents:
  scout: {runner: demo}
schedules:
  morning: # the early one
    when: every day at 9am
    agent: scout
    prompt: Good morning

  often:
    when: 5m
    job: work # hard
  hourly: {when: "0 * * * *", job: work, quiet_hours: nights}
  late: {when: "30 23 * * *", job: work}
quiet_hours:
  nights: {windows: ["22:00-07:00"]}
"""


class Desk:
    """A file, and a bench that follows it when it is told to look."""

    def __init__(self, bench: Sandbox, path: Path, text: str = FILE) -> None:
        self.bench = bench
        self.path = path
        self.write(text)
        self.reloader: Reloader = bench.watch_file(path)
        self.file: Any = bench._service.local.file

    def write(self, text: str) -> None:
        self.path.write_text(dedent(text), encoding="utf-8")

    def change(self, *pairs: tuple[str, str]) -> None:
        text = self.path.read_text(encoding="utf-8")
        for old, new in pairs:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        self.path.write_text(text, encoding="utf-8")

    def look(self) -> str:
        return self.reloader.check().state

    def names(self) -> list[str]:
        return sorted(schedule.name for schedule in self.bench.list())

    def cursors(self) -> dict[str, tuple[int, str | None]]:
        return {schedule.name: (schedule.rev, iso(schedule.next_run_at)) for schedule in self.bench.list()}

    def notes(self) -> list[str]:
        import orjson

        with self.bench._store.reading() as transaction:
            events = transaction.logged(0, 10**9)
        return [orjson.loads(event.data or "{}")["note"] for event in events if event.type == "file.applied"]
