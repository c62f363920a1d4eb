"""The reloader: applies the file when it changes and that is safe, and keeps its state."""

from __future__ import annotations

import logging
import threading

from matins.api.use_case import USE_CASES, Caller
from matins.config.file import ConfigFile, FileState
from matins.config.watcher import FileWatch
from matins.errors import InvalidFile, MatinsError, Stale, StoreError
from matins.model.access import Principal
from matins.model.clock import Clock
from matins.runtime.catalog import Catalog
from matins.service.file.plan import defined_by, missing_agents
from matins.store import Store

log = logging.getLogger("matins")
_REFRESH_S = 5


class Reloader:
    """Call `check` whenever the file may have changed. Any thread may call it."""

    def __init__(self, caller: Caller, file: ConfigFile, store: Store, clock: Clock) -> None:
        self._caller = caller
        self._file = file
        self._store = store
        self._clock = clock
        self._principal = Principal("owner", file.path.name, kind="file")
        self._checking = threading.Lock()
        self._watch = FileWatch(file.path, self.check)
        self._stopped = threading.Event()
        self._refresher: threading.Thread | None = None

    def start(self) -> None:
        """Apply the file now, and then watch it in separate threads."""
        self.check()
        self._log_total()
        self._log_missing_agents()
        self._watch.start()
        if self._file.format.refresh is not None:
            self._refresher = threading.Thread(target=self._run, name="matins-file-back", daemon=True)
            self._refresher.start()

    def stop(self) -> None:
        self._stopped.set()
        self._watch.stop()
        if self._refresher is not None:
            self._refresher.join()
            self._refresher = None

    def refresh(self) -> bool:
        """Write computed fields into the file of another system. Returns whether the file was written."""
        refresh = self._file.format.refresh
        if refresh is None:
            return False
        with self._checking:
            return refresh(self._store, self._clock, self._file)

    def _run(self) -> None:
        while not self._stopped.wait(_REFRESH_S):
            try:
                self.refresh()
            except MatinsError as error:  # the next refresh retries
                log.warning("%s was not written: %s", self._file.path, error)

    def check(self) -> FileState:
        """Apply the file. If it is invalid or needs confirmation, nothing changes, and each content is logged once."""
        with self._checking:
            before, state = self._file.state, self._check()
            self._file.state = state
            if state.state in ("invalid", "waits") and state != before:
                level = logging.ERROR if state.state == "invalid" else logging.WARNING
                for line in state.message.split("\n"):
                    log.log(level, "%s", line)
            return state

    def _check(self) -> FileState:
        try:
            content = self._file.read()
            if content.file is None and not self._defines_something():
                return FileState("unread")  # there never was a file
            applied = self._file.state.digest if self._file.state.state == "applied" else None
            if content.digest in (self._file.written, applied):
                return FileState("applied", digest=content.digest)
            self._file.written = None  # the file was saved since: the text that Matins wrote would be a change again
            plan = self._caller.call(self._principal, USE_CASES["file.plan"], {})
            if plan.waits:
                message = f"{plan.path} waits: {plan.waits}; look at it with matins plan, then matins apply"
                return FileState("waits", message, plan.digest)
            if plan.state == "ready" or plan.digest != self._file.state.digest:  # entries may have moved to other lines
                self._caller.call(self._principal, USE_CASES["file.apply"], {"digest": plan.digest})
            if plan.state == "ready":
                log.info("%s hot-reloaded: %s", self._file.path.name, plan.note)
                for entry in plan.entries:
                    for note in entry.notes:
                        log.warning("%s:%d %s: %s", self._file.path.name, entry.line, entry.name, note)
                if self._refresher is not None:  # otherwise the start says it
                    self._log_missing_agents()
            return FileState("applied", digest=plan.digest)
        except Stale:
            return self._file.state  # the file is changing, and the watch calls again
        except StoreError:
            raise
        except MatinsError as error:
            return FileState("invalid", _whole(error), _digest_of(self._file))

    def _log_total(self) -> None:
        with self._store.reading() as transaction:
            total = sum(e.kind == "schedule" and e.path == str(self._file.path) for e in transaction.file_entries())
        log.info("%s: %d task(s) scheduled", self._file.path.name, total)

    def _log_missing_agents(self) -> None:
        with self._store.reading() as transaction:
            for missing in missing_agents(transaction, Catalog(cache=False).policies(transaction)):
                log.warning("%s: %s. Create it: %s", self._file.path.name, missing.sentence, missing.fix)

    def _defines_something(self) -> bool:
        with self._store.reading() as transaction:
            return defined_by(transaction, self._file.path)


def _whole(error: MatinsError) -> str:
    many = isinstance(error, InvalidFile) and len(error.problems) > 1
    return error.message if many or not error.hint else f"{error.message} ({error.hint})"


def _digest_of(file: ConfigFile) -> str:
    try:
        return file.read().digest
    except MatinsError:
        return "unreadable"
