"""Sends the output of runs to the store that machines share, in pieces, while they run and at their end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from matins.errors import StoreError
from matins.executors.processes.output import SUFFIXES
from matins.executors.processes.recovery import RunFiles
from matins.model.clock import Clock
from matins.runtime.attempt import Mark
from matins.runtime.kept_output import HEAD_BYTES, PIECE_BYTES, TAIL_BYTES, KeptOutput, Piece

log = logging.getLogger("matins")
_LOOK_S = 1.0
_EVERY_MS = 5_000


class OutputSender:
    """One thread, which lives while a run is watched. It sends every five seconds; each second what is being read."""

    def __init__(self, kept: KeptOutput | None, files: Callable[[], RunFiles], clock: Clock) -> None:
        self._kept = kept
        """None where the store belongs to one machine: its files are there."""
        self._files = files
        self._clock = clock
        self._sent: dict[Mark, dict[str, int]] = {}
        """How much of each stream was sent."""
        self._due: dict[Mark, int] = {}
        self._sending = threading.Lock()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def watch(self, mark: Mark) -> None:
        if self._kept is None:
            return
        with self._changed:
            self._due[mark] = self._clock.boot_ms() + _EVERY_MS
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="matins-output", daemon=True)
                self._thread.start()

    def finish(self, mark: Mark) -> None:
        """Send the rest, before the outcome is recorded. Raises StoreUnavailable; it can be called again then."""
        if self._kept is not None:
            with self._changed:
                self._due.pop(mark, None)
            self._send(self._kept, mark)
            for stream, suffix in SUFFIXES.items():
                self._kept.keep_whole(mark, stream, Path(self._files().path(*mark, suffix)))
            self._sent.pop(mark, None)

    def forget(self, mark: Mark) -> None:
        """The attempt did not start, or another engine has it."""
        with self._changed:
            self._due.pop(mark, None)
            self._sent.pop(mark, None)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while self._wait():
            try:
                self.look()
            except StoreError as error:
                log.warning("Output of runs is sent when the store is back: %s", error)
            except Exception:
                log.exception("Output of runs cannot be sent now.")

    def _wait(self) -> bool:
        with self._changed:
            self._changed.wait(_LOOK_S)
            if self._closed or not self._due:
                self._thread = None
            return self._thread is not None

    def look(self) -> None:
        """Send what is due."""
        assert self._kept is not None
        due, now = dict(self._due), self._clock.boot_ms()
        followed = self._kept.followed()
        for mark, at in due.items():
            if at <= now or mark[0] in followed:
                self._send(self._kept, mark)
                with self._changed:
                    if mark in self._due:
                        self._due[mark] = now + _EVERY_MS

    def _send(self, kept: KeptOutput, mark: Mark) -> None:
        with self._sending:
            sent = self._sent.get(mark)
            if sent is None:  # of an adopted run, an earlier engine may have sent some
                sent = self._sent[mark] = dict(kept.kept(mark))
            pieces = [piece for stream in SUFFIXES for piece in self._pieces(mark, stream, sent.get(stream, 0))]
            if pieces:
                kept.keep(mark, pieces)
            sent.update({piece.stream: piece.at + len(piece.data) for piece in pieces})

    def _pieces(self, mark: Mark, stream: str, offset: int) -> Iterator[Piece]:
        """New pieces of a stream, without those between the beginning and the end that are kept."""
        files, suffix = self._files(), SUFFIXES[stream]
        while True:
            limit = min(PIECE_BYTES, HEAD_BYTES - offset) if offset < HEAD_BYTES else PIECE_BYTES
            data, at, total = files.read_after(*mark, offset, limit, stream=suffix)
            if at >= HEAD_BYTES and at < total - TAIL_BYTES:
                offset = total - TAIL_BYTES
                continue
            if not data:
                return
            yield Piece(stream, at, data, total)
            offset = at + len(data)
