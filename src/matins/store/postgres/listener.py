"""Receives notifications about changes of other processes, on its own connection and thread."""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import sql

log = logging.getLogger("matins")
_BACK_OFF_S = (0.1, 0.5, 2.0, 5.0)


class Listener:
    def __init__(
        self, connect: Callable[[], psycopg.Connection[Any]], channel: str, me: str, wake: Callable[[], None]
    ) -> None:
        self._connect = connect
        self._listen = sql.SQL("LISTEN {}").format(sql.Identifier(channel))
        self._me = me
        self._wake = wake
        self._stop_read, self._stop_write = os.pipe()
        self._thread = threading.Thread(target=self._run, name="matins-listener", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the listener. Returns when the connection is closed."""
        if self._thread.is_alive():
            os.write(self._stop_write, b".")
            self._thread.join()
            os.close(self._stop_read)
            os.close(self._stop_write)

    def _run(self) -> None:
        failures = 0
        while True:
            try:
                with self._connect() as connection:
                    connection.execute(self._listen)
                    failures = 0
                    self._wake()  # for notifications that arrived while nothing listened
                    if self._receive(connection):
                        return
            except psycopg.Error as error:
                log.warning("Matins does not receive changes of other processes, and connects again: %s", error)
            if self._stopped(_BACK_OFF_S[min(failures, len(_BACK_OFF_S) - 1)]):
                return
            failures += 1

    def _receive(self, connection: psycopg.Connection[Any]) -> bool:
        """Receive notifications. Returns True when the listener is stopped; raises when the connection is lost."""
        while True:
            foreign = [notice.payload != self._me for notice in connection.notifies(timeout=0)]
            if any(foreign):
                self._wake()
            if self._stop_read in select.select([connection, self._stop_read], [], [])[0]:
                return True

    def _stopped(self, seconds: float) -> bool:
        return bool(select.select([self._stop_read], [], [], seconds)[0])
