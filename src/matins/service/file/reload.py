"""The file is watched, and applied when it changes.

The reloader: applies the file when it changes and that is safe, and keeps its state.

A watch on the file: calls `changed` after the file was saved and has settled.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from matins.api.use_case import USE_CASES, Caller
from matins.config.file import ConfigFile, FileState
from matins.errors import InvalidFile, MatinsError, Stale, StoreError
from matins.model.access import Principal
from matins.model.clock import Clock
from matins.model.rows import AppliedFile
from matins.runtime.catalog import Catalog
from matins.service.file.plan import missing_agents, ownership
from matins.store import Store

log = logging.getLogger("matins")
DEBOUNCE_MS = 300
_MAX_WAITS = 10
"""With constant saves, `changed` is called after this many waits."""
_MAX_TICKS = 100
_FIRST_WAIT_S = 1.0
_MAX_WAIT_S = 30.0


class FileWatch:
    """Watches directories, not the file: editors replace it, and a ConfigMap is a link to a link that is swapped."""

    def __init__(
        self,
        path: Path,
        changed: Callable[[], object],
        *,
        debounce_ms: int = DEBOUNCE_MS,
        elsewhere: Callable[[], bool] = lambda: False,
    ) -> None:
        """`elsewhere`: whether another place has applied a file; asked now and then."""
        self._path = path
        self._changed = changed
        self._elsewhere = elsewhere
        self._debounce_ms = debounce_ms
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._failures = 0
        self._ticks = 0
        self.watching = threading.Event()
        """Set while the watch is active: later changes are seen."""

    def start(self) -> None:
        self._thread = threading.Thread(target=self._follow, name="matins-file", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _follow(self) -> None:
        wait = _FIRST_WAIT_S
        while not self._stop.is_set():
            try:
                self._watch_once()
                wait = _FIRST_WAIT_S
            except Exception:  # a missing directory, or no watches left: the file is checked on every retry
                log.warning("%s cannot be watched; retrying in %.0f s", self._path, wait, exc_info=True)
                self._call()
                self._stop.wait(wait)
                wait = min(wait * 2, _MAX_WAIT_S)
            finally:
                self.watching.clear()

    def _watch_once(self) -> None:
        """Watch until stopped, or until the links lead through other directories."""
        from watchfiles import watch  # loads a native library

        folders, names = _folders(self._path), _names(self._path)
        if self._path.parent not in folders:
            raise FileNotFoundError(f"there is no directory {self._path.parent}")
        seen = watch(
            *folders,
            watch_filter=lambda _, path: Path(path).name in names,
            debounce=_MAX_WAITS * self._debounce_ms,
            step=self._debounce_ms,
            rust_timeout=self._debounce_ms,
            yield_on_timeout=True,
            stop_event=self._stop,
            recursive=False,
            raise_interrupt=False,
        )
        for changes in seen:
            if not self.watching.is_set():
                self._call()  # changes from before the watch began
                self.watching.set()
            if changes or self._call_again():
                self._call()
            if changes and (_folders(self._path), _names(self._path)) != (folders, names):
                return

    def _call(self) -> None:
        try:
            self._changed()
            self._failures = 0
        except Exception:  # one failed change must not end the watch
            self._failures, self._ticks = self._failures + 1, 0
            log.exception("%s could not be applied; retrying", self._path)

    def _call_again(self) -> bool:
        """Whether to call again: after a failure at increasing intervals, and when another place applied a file."""
        self._ticks += 1
        if self._failures:
            return self._ticks >= min(2**self._failures, _MAX_TICKS)
        if self._ticks < _MAX_TICKS:
            return False
        self._ticks = 0
        try:
            return self._elsewhere()
        except StoreError as error:
            log.warning("%s is compared with that of other machines when the store is back: %s", self._path, error)
            return False


def _steps(path: Path) -> Iterable[Path]:
    """The file, and every link on the path to it, including links of its directories."""
    seen: set[Path] = set()
    while path not in seen and len(seen) < 40:
        seen.add(path)
        yield path
        for part in (path, *path.parents):
            if part.is_symlink():
                rest = path.relative_to(part)
                target = part.parent / part.readlink()
                if part != path:
                    yield part
                path = target / rest if rest.parts else target
                break


def _folders(path: Path) -> tuple[Path, ...]:
    return tuple(sorted({step.parent for step in _steps(path) if step.parent.is_dir()}))


def _names(path: Path) -> frozenset[str]:
    return frozenset(step.name for step in _steps(path))


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
        self._seen: Sequence[AppliedFile] = []
        """What was applied, from here and from elsewhere, when the file was last checked."""
        self._watch = FileWatch(file.path, self.check, elsewhere=self._others_applied)
        self._stopped = threading.Event()
        self._refresher: threading.Thread | None = None

    def start(self) -> None:
        """Apply the file now, and then watch it in separate threads."""
        self.check()
        with self._store.reading() as transaction:
            entries = transaction.file_entries()
            total = sum(e.kind == "schedule" and e.path in self._file.places for e in entries)
        log.info("%s: %d task(s) scheduled", self._file.path.name, total)
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
            if content.digest in (self._file.written, applied) and not self._others_applied():
                return FileState("applied", digest=content.digest)
            self._seen = self._applied()
            self._file.written = None  # the file was saved since: the text that Matins wrote would be a change again
            plan = self._caller.invoke(self._principal, USE_CASES["file.plan"], {})
            if plan.waits:
                message = f"{plan.path} waits: {plan.waits}; look at it with matins plan, then matins apply"
                return FileState("waits", message, plan.digest)
            if plan.state == "ready" or plan.digest != self._file.state.digest:  # entries may have moved to other lines
                self._caller.invoke(self._principal, USE_CASES["file.apply"], {"digest": plan.digest})
                self._seen = self._applied()
            if plan.state == "ready":
                log.info("%s hot-reloaded: %s", self._file.path.name, plan.note)
                for entry in plan.entries:
                    for note in entry.notes:
                        log.warning("%s:%d %s: %s", self._file.path.name, entry.line, entry.name, note)
                if self._refresher is not None:  # otherwise the start says it
                    self._log_missing_agents()
            return FileState("applied", digest=plan.digest)
        except Stale:
            self._seen = []
            return self._file.state  # the file is changing, and the watch calls again
        except StoreError:
            raise
        except MatinsError as error:
            return FileState("invalid", _whole(error), _digest_of(self._file))

    def _log_missing_agents(self) -> None:
        with self._store.reading() as transaction:
            for missing in missing_agents(transaction, Catalog(cache=False).policies(transaction)):
                log.warning("%s: %s. Create it: %s", self._file.path.name, missing.sentence, missing.fix)

    def _defines_something(self) -> bool:
        with self._store.reading() as transaction:
            return ownership(transaction, self._file, None) is not None

    def _others_applied(self) -> bool:
        """Whether a file was applied since the last check, as another machine does on a store that they share."""
        return self._file.shared and self._applied() != self._seen

    def _applied(self) -> Sequence[AppliedFile]:
        with self._store.reading() as transaction:
            return transaction.applied_files()


def _whole(error: MatinsError) -> str:
    many = isinstance(error, InvalidFile) and len(error.problems) > 1
    return error.message if many or not error.hint else f"{error.message} ({error.hint})"


def _digest_of(file: ConfigFile) -> str:
    try:
        return file.read().digest
    except MatinsError:
        return "unreadable"
