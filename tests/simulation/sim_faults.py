"""Faults on the way to the database: a connection that crashes, fails or stalls at a chosen statement."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, Literal

import apsw

TrapKind = Literal["crash_in_transaction", "crash_after_commit", "io_error", "lost_commit", "slow_commit"]
_WRITES = ("INSERT", "UPDATE", "DELETE")


class SimulatedCrash(BaseException):
    """The process is gone. Not an Exception: nothing may catch it and go on."""


class Faults:
    """What has gone wrong so far, and what is wrong now."""

    def __init__(self) -> None:
        self.injected: Counter[str] = Counter()
        self.disk_full = False


class Trap:
    """Waits for a statement: the `countdown`-th from now, or the next COMMIT."""

    def __init__(self, kind: TrapKind, countdown: int) -> None:
        self.kind: TrapKind = kind
        self.countdown = countdown


class Wire:
    """Stands in for a store's connection. Says which rows a commit changed, and springs traps."""

    def __init__(
        self, connection: apsw.Connection, faults: Faults, committed: Callable[[dict[str, set[int]]], None]
    ) -> None:
        self._connection: Any = connection
        self._faults = faults
        self._committed = committed
        self._changed: dict[str, set[int]] = defaultdict(set)
        self.trap: Trap | None = None
        self.is_cut = False
        """Whether the store cannot be reached: each write fails."""
        self.interlude: Callable[[], None] = lambda: None
        """What others do while a commit's answer takes its time."""
        connection.set_update_hook(self._note)

    def __getattr__(self, name: str) -> Any:
        """Whatever is not a statement."""
        return getattr(self._connection, name)

    def execute(self, sql: str, values: Any = None) -> Any:
        if sql == "COMMIT":
            return self._commit()
        if sql == "ROLLBACK":
            self._changed.clear()
        elif not sql.startswith("PRAGMA"):
            self._before(sql)
        return self._connection.execute(sql, values)

    def executemany(self, sql: str, rows: Any) -> Any:
        self._before(sql)
        return self._connection.executemany(sql, rows)

    def _note(self, kind: int, database: str, table: str, rowid: int) -> None:
        self._changed[table].add(rowid)

    def _before(self, sql: str) -> None:
        if self._faults.disk_full and sql.startswith(_WRITES):
            raise apsw.FullError("database or disk is full")
        if self.is_cut:
            raise apsw.IOError("the store cannot be reached")
        if self._sprung("crash_in_transaction"):
            raise SimulatedCrash
        if self._sprung("io_error"):
            raise apsw.IOError("disk I/O error")

    def _sprung(self, kind: TrapKind) -> bool:
        trap = self.trap
        if trap is None or trap.kind != kind:
            return False
        trap.countdown -= 1
        if trap.countdown > 0:
            return False
        self._faults.injected[kind] += 1
        self.trap = None
        return True

    def _commit(self) -> None:
        self._before("COMMIT")
        self._connection.execute("COMMIT")
        changed, self._changed = self._changed, defaultdict(set)
        if changed:
            self._committed(changed)
        if self._sprung("crash_after_commit"):
            raise SimulatedCrash
        if self._sprung("lost_commit"):
            raise apsw.IOError("the answer to COMMIT was lost")
        if self._sprung("slow_commit"):
            self.interlude()
