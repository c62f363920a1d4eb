"""A real PgBouncer before the tests' PostgreSQL. It refuses to run as root, and is the server's user then."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
_CONFIGURATION = """
[databases]
postgres = {server}
[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
unix_socket_mode = 0777
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
server_round_robin = {in_turn}
query_wait_timeout = 2
"""


@contextlib.contextmanager
def pgbouncer(server: str, mode: str, size: int = 20, *, in_turn: bool = False) -> Iterator[str]:
    """The URL of a PgBouncer before the server with this URL. It stays until the block ends."""
    assert PROGRAM is not None, "PgBouncer is missing: apt-get install pgbouncer"
    folder = Path(tempfile.mkdtemp(prefix="matins-pgbouncer-"))
    folder.chmod(0o777)
    socket = Path(urlsplit(server).query.partition("host=")[2].partition("&")[0])
    text = _CONFIGURATION.format(
        server=f"host={socket} port=5432 user=postgres", folder=folder, mode=mode, size=size, in_turn=int(in_turn)
    )
    (folder / "pgbouncer.ini").write_text(text, encoding="utf-8")
    user = socket.stat().st_uid if os.geteuid() == 0 else None
    process = subprocess.Popen(
        [PROGRAM, str(folder / "pgbouncer.ini")], user=user, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )
    try:
        _wait_until_up(process)
        yield f"postgresql://postgres:@/postgres?host={folder}&port=6432"
    finally:
        process.kill()
        process.communicate()
        shutil.rmtree(folder)


def _wait_until_up(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    lines: list[str] = []
    for line in process.stderr:
        lines.append(line)
        if "process up" in line:
            return
    raise AssertionError("".join(lines))


def sessions(*connections: psycopg.Connection) -> list[int]:
    """The server's sessions of connections, asked for one after the other."""
    cursors = [connection.execute("SELECT pg_backend_pid()", prepare=False) for connection in connections]
    return [session for cursor in cursors for (session,) in cursor.fetchall()]
