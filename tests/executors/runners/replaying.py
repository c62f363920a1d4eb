"""Recordings of real tools, replayed through their runners. `make record-real` renews them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from driving import TOOLS, ask_here

from matins.executors.metering import SessionMeter, session_meter
from matins.executors.runners.protocol import Runner, RunnerRequest, RunnerResult

RECORDINGS = Path(__file__).parents[2] / "recordings"
_LEDGERS: dict[str, str] = {
    "claude": ".claude/projects/work/{session}.jsonl",
    "codex": ".codex/sessions/2026/11/17/rollout-2026-11-17T04-44-48-{session}.jsonl",
    "gemini": ".gemini/tmp/work/chats/session-2026-11-17T04-44-{short}.jsonl",
    "goose": ".local/share/goose/sessions/sessions.db",
    "qwen": ".qwen/projects/work/chats/{session}.jsonl",
}
_GOOSE = """
CREATE TABLE sessions (id TEXT, name TEXT, created_at TEXT);
CREATE TABLE usage_ledger (id INTEGER PRIMARY KEY, session_id TEXT, created_timestamp INTEGER, model TEXT,
  input_tokens INTEGER, output_tokens INTEGER, total_tokens INTEGER, cache_read_tokens INTEGER);
"""


class Recording(NamedTuple):
    path: Path
    about: dict[str, Any]

    @property
    def tool(self) -> str:
        return self.about["tool"]

    @property
    def case(self) -> str:
        return self.about["case"]

    @property
    def runner(self) -> Runner:
        return TOOLS[self.tool]

    @property
    def lines(self) -> list[bytes]:
        path = self.path.with_suffix(".out")
        return path.read_bytes().splitlines(keepends=True) if path.exists() else []

    @property
    def errors(self) -> list[bytes]:
        path = self.path.with_suffix(".err")
        return path.read_bytes().splitlines(keepends=True) if path.exists() else []

    @property
    def ledger(self) -> list[str]:
        path = self.path.with_suffix(".ledger")
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    @property
    def billed(self) -> tuple[int, int, int]:
        """The tokens that the endpoints told, in, out and cached."""
        fresh, out, cached = self.about["billed"]
        return fresh, out, cached

    @property
    def started_at(self) -> int:
        return round(datetime.fromisoformat(self.about["started_at"]).timestamp() * 1000)

    def meter(self, home: Path) -> SessionMeter:
        """The meter of the run: of one that begins for goose, whose record has whole seconds; else of one that is
        adopted."""
        session = self.about["session"]
        begins = self.tool == "goose"
        resumed = self.case in ("resume", "begun_by_hand")
        environment = {"HOME": str(home)}
        call = RunnerRequest(
            "Water the plants.",
            "/",
            session=session if resumed else None,
            environment=environment,
            ask=ask_here(environment),
        )
        path = home / _LEDGERS.get(self.tool, "none").format(session=session, short=(session or "")[:8])
        if self.ledger:
            _write_ledger(path, self.ledger[:-1] if begins else self.ledger)
        meter = session_meter(self.runner, call, None, None if begins else self.started_at)
        if self.ledger:
            _write_ledger(path, self.ledger)
        return meter._replace(session=session)

    def replayed(self, home: Path) -> RunnerResult:
        """What the runner makes of all that the tool wrote."""
        reader = self.runner.reader()
        for line in self.lines:
            reader.feed(line)
        feed_error: Callable[[bytes], None] = getattr(reader, "feed_error")  # noqa: B009
        for line in self.errors:
            feed_error(line)
        ended = self.about["ended_by"] not in (None, "exit_timeout")
        meter = self.meter(home)
        result = meter.explained(meter.of_run(reader.close(None if ended else self.about["exit_code"])))
        return replace(result, session=result.session or meter.session)


@cache
def recordings() -> dict[str, Recording]:
    """By `tool/case`."""
    found = (
        Recording(path, json.loads(path.read_text(encoding="utf-8"))) for path in sorted(RECORDINGS.glob("*/*.json"))
    )
    return {f"{one.tool}/{one.case}": one for one in found}


def of_case(*cases: str) -> list[str]:
    return [name for name, one in recordings().items() if one.case in cases]


def _write_ledger(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix != ".db":
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    connection.executescript(_GOOSE)
    for session, *rows in [[json.loads(line) for line in lines]] if lines else []:
        connection.execute("INSERT INTO sessions VALUES (?, ?, ?)", session)
        marks = ", ".join("?" * 7)
        connection.executemany(f"INSERT INTO usage_ledger VALUES (NULL, {marks})", rows)
    connection.commit()
    connection.close()
