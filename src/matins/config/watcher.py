"""A watch on the file: calls `changed` after the file was saved and has settled."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

log = logging.getLogger("matins")
DEBOUNCE_MS = 300
_MAX_WAITS = 10
"""With constant saves, `changed` is called after this many waits."""
_MAX_TICKS = 100
_FIRST_WAIT_S = 1.0
_MAX_WAIT_S = 30.0


class FileWatch:
    """Watches directories, not the file: editors replace it, and a ConfigMap is a link to a link that is swapped."""

    def __init__(self, path: Path, changed: Callable[[], object], *, debounce_ms: int = DEBOUNCE_MS) -> None:
        self._path = path
        self._changed = changed
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
        """Whether to call again after a failure, at increasing intervals."""
        self._ticks += 1
        return bool(self._failures) and self._ticks >= min(2**self._failures, _MAX_TICKS)


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
