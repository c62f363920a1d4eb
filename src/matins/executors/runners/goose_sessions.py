"""goose's store of sessions, an SQLite file with a row for each answer; and its logs, which name the session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw

from matins.executors.runners.protocol import SessionUsage
from matins.executors.runners.tool_events import read_event, shorten

_WAIT_MS = 200
_USAGE = """
SELECT count(*), coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0), coalesce(sum(cache_read_tokens), 0)
FROM usage_ledger WHERE created_timestamp < ?2 AND session_id =
  (SELECT id FROM sessions WHERE name = ?1 OR id = ?1 ORDER BY created_at DESC, id DESC LIMIT 1)
"""
_EVER = 1 << 62
_AGAIN = "Request failed, retrying"


_ID = "SELECT id FROM sessions WHERE name = ?1 OR id = ?1 ORDER BY created_at DESC, id DESC LIMIT 1"
_MAX_LOGS = 20
_MAX_LOG_BYTES = 1 << 20


class GooseLedger:
    def __init__(self, path: Path, logs: Path) -> None:
        self._path = path
        self._logs = logs

    def usage(self, session: str, before: int | None = None) -> SessionUsage | None:
        """Rows have whole seconds: those of the second of `before` count as later."""
        try:
            rows = self._rows(_USAGE, session, _EVER if before is None else before // 1000)
        except apsw.Error:  # another version, a store that is being made, or none
            return None
        for answers, given, out, cached in rows:
            return SessionUsage((max(0, given - cached), out, cached)) if answers else None
        return None

    def problem(self, session: str) -> str | None:
        try:
            identity = next((str(row[0]) for row in self._rows(_ID, session)), None)
            return None if identity is None else self._logged(identity)
        except (apsw.Error, OSError):
            return None

    def _logged(self, identity: str) -> str | None:
        """The last line about a request that failed and is tried again."""
        files = sorted(self._logs.glob("*/*.log"), key=lambda path: path.stat().st_mtime_ns)[-_MAX_LOGS:]
        for path in reversed(files):
            lines = path.read_bytes()[-_MAX_LOG_BYTES:].splitlines()
            events = (read_event(line) for line in reversed(lines) if identity.encode() in line)
            messages = (event.inner("fields").text("message") or "" for event in events if event is not None)
            found = next((message for message in messages if _AGAIN in message), None)
            if found is not None:
                return shorten(found)
        return None

    def _rows(self, statement: str, *bindings: str | int) -> list[tuple[Any, ...]]:
        connection: Any = apsw.Connection(str(self._path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.set_busy_timeout(_WAIT_MS)
            return list(connection.execute(statement, bindings))
        finally:
            connection.close()
