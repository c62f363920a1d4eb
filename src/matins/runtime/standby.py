"""Standing by while another process has the engine of a store, and taking over when that ends."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from matins.errors import StoreBusy, StoreError
from matins.store import Store

log = logging.getLogger("matins")
_POLL_S = 0.5


class Standby:
    """Calls `start` until it returns True: no other engine is running any more."""

    def __init__(self, start: Callable[[], bool]) -> None:
        self._start = start
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._wait, name="matins-standby", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _wait(self) -> None:
        while not self._ended.wait(_POLL_S):
            try:
                if self._start():
                    log.info("The other engine has ended. This one has taken over.")
                    return
            except StoreError as error:
                log.warning("Taking over failed, and is tried again: %s", error)


def engine_running(store: Store) -> StoreBusy:
    pid = store.owner_pid()
    who, stop = ("", "") if pid is None else (f" (process {pid})", f": kill {pid}")
    message = f"Another engine is running on this store{who}. A SQLite file can have only one."
    return StoreBusy(message, hint=f"Use that engine, or stop it{stop}.")
