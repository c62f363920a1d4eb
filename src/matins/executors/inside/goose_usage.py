"""Prints what goose has recorded of a session, as one line of JSON. Its arguments: the session, and a limit in seconds.

goose's store of sessions is an SQLite file with a row for each answer. Its logs name the session, too.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sqlite3
import stat
import sys
from collections.abc import Iterator
from urllib.parse import quote

_MEMORY = 256 << 20
_CPU_S = 2
_WAIT_S = 0.2
_ID = "SELECT id FROM sessions WHERE name = ?1 OR id = ?1 ORDER BY created_at DESC, id DESC LIMIT 1"
_USAGE = """
SELECT count(*), coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0), coalesce(sum(cache_read_tokens), 0)
FROM usage_ledger WHERE created_timestamp < ?2 AND session_id = ?1
"""
_AGAIN = "Request failed, retrying"
_MAX_PROBLEM_LENGTH = 500
_MAX_ID_LENGTH = 200
_MAX_LOGS = 20
_MAX_LOG_BYTES = 1 << 20


def main(session: str, before_s: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
    with contextlib.suppress(ValueError, OSError):  # macOS has no such limit
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    data, logs = _folders()
    try:
        identity, usage = _recorded(os.path.join(data, "sessions", "sessions.db"), session, before_s)
    except (sqlite3.Error, OSError) as error:  # another version, a store that is being made, or none
        sys.exit(f"the store of goose cannot be read: {error}")
    problem = _logged(os.path.join(logs, "logs", "cli"), identity) if identity else None
    sys.stdout.write(json.dumps({"usage": usage, "problem": problem}) + "\n")


def _folders() -> tuple[str, str]:
    """Where goose has its data and its logs."""
    root = os.environ.get("GOOSE_PATH_ROOT")
    if root:
        return os.path.join(root, "data"), os.path.join(root, "state")
    home = os.path.expanduser("~/.local")
    data, state = os.environ.get("XDG_DATA_HOME"), os.environ.get("XDG_STATE_HOME")
    return os.path.join(data or f"{home}/share", "goose"), os.path.join(state or f"{home}/state", "goose")


def _recorded(path: str, session: str, before_s: int) -> tuple[str | None, list[int] | None]:
    """The id of the session, and its answers with their tokens: in, out, cached. Rows have whole seconds: those of the
    second of `before_s` count as later."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError("it is no file")
    with contextlib.closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, timeout=_WAIT_S)) as connection:
        connection.execute("PRAGMA temp_store = MEMORY")
        row = connection.execute(_ID, (session,)).fetchone()
        if row is None:
            return None, None
        return str(row[0])[:_MAX_ID_LENGTH], list(connection.execute(_USAGE, (row[0], before_s)).fetchone())


def _logged(folder: str, identity: str) -> str | None:
    """The last line about a request that failed and is tried again."""
    for line in _lines(folder, identity.encode()):
        with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
            message = json.loads(line)["fields"]["message"]
            if isinstance(message, str) and _AGAIN in message:
                return " ".join(message[: 10 * _MAX_PROBLEM_LENGTH].split())[:_MAX_PROBLEM_LENGTH]
    return None


def _lines(folder: str, part: bytes) -> Iterator[bytes]:
    """The lines of the newest logs that have this part, from the last one backwards."""
    with contextlib.suppress(OSError):
        files = [file for day in os.scandir(folder) if day.is_dir() for file in os.scandir(day)]
        logs = [file for file in files if file.name.endswith(".log") and file.is_file()]
        for file in sorted(logs, key=lambda one: one.stat().st_mtime_ns)[: -_MAX_LOGS - 1 : -1]:
            with open(file, "rb") as stream:
                stream.seek(max(0, os.fstat(stream.fileno()).st_size - _MAX_LOG_BYTES))
                yield from (line for line in reversed(stream.read(_MAX_LOG_BYTES).splitlines()) if part in line)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
