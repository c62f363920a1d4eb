"""Moves a store to another one: SQLite to PostgreSQL, back, or to another server.

The order of the steps is the promise: at every instant at most one of the two stores may have an engine, and a move
that is killed anywhere is finished, or given up, by the same command. `tests/store/test_moving_model.py` looks at all
orders.

1. The locks of both; nothing runs; a backup that was checked.
2. The source is marked `moving`: no engine starts there, and nothing is written.
3. The target gets a copy in one transaction, compared table by table, marked `copy`: no engine starts there either.
4. The source is marked `moved`.
5. The target loses its mark, if it is still that of this move: it is in charge.
6. Output of runs goes to where engines of the target look for it. A `witness.json` stays.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from matins.engine.reasons import rfc3339
from matins.errors import Conflict, NotFound, StoreBusy, StoreUnavailable, unwritable
from matins.model.clock import Clock
from matins.model.rows import NewEvent
from matins.service.core import LEASE_MS
from matins.store import open_end, open_store
from matins.store.moving import COPY, MOVED, MOVING, Counts, End, Mark, mark_of, refusal
from matins.store.sqlite.store import write_backup

_EVERY_MS = 2_000
_WITNESS = "witness.json"


class Place(NamedTuple):
    """A store, as the command names it."""

    url: str
    shown: str
    """The URL without a password."""
    path: Path | None
    state: Path | None
    """The folder in which engines on a server keep a folder for each store."""

    def folder(self, store_id: str) -> Path:
        """Where engines keep journals and output."""
        if self.path is not None:
            return self.path.with_name(f"{self.path.name}.runs")
        return (
            self.state or Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser() / "matins"
        ) / store_id


class Preview(NamedTuple):
    counts: Counts
    backup: str | None
    """The file of the backup that is made first."""
    output: str | None
    """The folder to which output goes; None when there is none."""
    begun: str | None
    """When the move began that is finished now."""


class Move:
    """A move that has its locks. `tell` gets a line for each step."""

    def __init__(self, source: Place, target: Place, clock: Clock, tell: Callable[[str], None]) -> None:
        self._from, self._to, self._clock, self._tell = source, target, clock, tell
        self._told_at = 0
        self._source: End | None = None
        self._target: End | None = None
        self._mark: Mark | None = None
        self._is_begun = self._is_finished = False

    def close(self) -> None:
        for end in (self._target, self._source):
            if end is not None:
                end.close()
        self._source = self._target = None

    def prepare(self) -> Preview:
        """Take the locks, and find out what would be done. Raises an error with a fix when it cannot be done."""
        source = self._open_source()
        begun = self._begun(source)
        target = self._open_target()
        store_id = source.meta()["store_id"]
        if begun is None:
            self._check_idle(source)
        self._mark = begun or Mark(
            secrets.token_hex(8), store_id, self._from.shown, self._to.shown, socket.gethostname(), self._clock.now_ms()
        )
        self._is_begun = begun is not None
        self._check_target(source, target, self._mark)
        folder = self._from.folder(store_id)
        output = str(self._to.folder(store_id)) if folder.exists() and folder != self._to.folder(store_id) else None
        backup = (
            None
            if self._is_begun or self._from.path is None
            else f"{self._from.path}.before-move-{self._mark.token[:6]}"
        )
        return Preview(source.counts(), backup, output, None if begun is None else rfc3339(begun.at))

    def run(self) -> Counts:
        """Do it, or go on where it stopped."""
        source, target, mark = self._source, self._target, self._mark
        assert source is not None, "prepare() comes first"
        assert target is not None, "prepare() comes first"
        assert mark is not None, "prepare() comes first"
        counts = source.counts()
        if not self._is_finished:
            if not self._is_begun:
                if self._from.path is not None:
                    backup = Path(f"{self._from.path}.before-move-{mark.token[:6]}")
                    write_backup(self._from.path, backup)
                    self._tell(f"Backed up to {backup}.")
                source.mark(mark, LEASE_MS)
            self._tell("Copying. Nothing runs until it is done.")
            with source.snapshot():
                digests = target.copy_from(source, mark, self._clock.now_ms(), self._progress)
            if digests:
                self._tell(
                    f"Compared: {len(digests)} tables, {sum(digest.rows for digest in digests.values()):,} rows."
                )
            source.set_moved(mark)
            target.close()
            self._take_charge(mark, counts)
        self._move_output(mark)
        return counts

    def abort(self) -> None:
        """Give the move up: the source is as it was."""
        source = self._open_source()
        begun = self._begun(source)
        if begun is None:
            raise Conflict(f"No move of {self._from.shown} has begun.", field="target", hint="Nothing was changed.")
        try:
            target = self._open_target()
        except StoreUnavailable as error:
            hint = "It may hold the copy, so the move is not given up until it answers. Repeat the command then."
            raise StoreUnavailable(error.message, hint=hint) from error
        target.drop(begun)
        source.unmark(begun)

    # -- the checks

    def _open_source(self) -> End:
        source = self._source = open_end(self._from.url, self._clock)
        if not source.exists():
            hint = "Name it: matins --store URL promote …"
            raise NotFound(f"There is no store {self._from.shown}.", value=self._from.shown, field="store", hint=hint)
        source.hold()
        marks = source.marks()
        if COPY in marks and (refused := refusal(marks, writes=True)):
            raise refused
        return source

    def _open_target(self) -> End:
        target = self._target = open_end(self._to.url, self._clock)
        target.check_usable()
        if self._from.url == self._to.url:
            raise Conflict("A store cannot move to itself.", field="target", hint="Name another one.")
        target.hold()
        return target

    def _begun(self, source: End) -> Mark | None:
        """The move that has begun, which must be the one that is asked for."""
        marks = source.marks()
        text = marks.get(MOVED) or marks.get(MOVING)
        if text is None:
            return None
        mark = mark_of(text)
        if mark.target != self._to.shown:
            command = f"matins promote {quote(mark.target)}"
            message = f"A move to {mark.target} has begun, on {rfc3339(mark.at)}."
            if MOVED in marks and (refused := refusal(marks, writes=False)):
                message = refused.message
            raise Conflict(message, field="target", hint=f"Finish it: {command}; give it up: {command} --abort")
        if self._to.path is not None and mark.host != socket.gethostname():
            raise Conflict(
                f"The move to {mark.target} began on {mark.host}.", field="target", hint="Repeat the command there."
            )
        return mark

    def _check_idle(self, source: End) -> None:
        live = source.engines(LEASE_MS)
        if live:
            hint = f"Stop them, or let the command wait: --wait. A killed engine counts for {LEASE_MS // 1000} s."
            raise StoreBusy(f"Engines run on {self._from.shown}: {', '.join(live)}.", hint=hint)
        running = source.counts().running
        if running:
            what = "1 run is" if running == 1 else f"{running} runs are"
            hint = (
                "Let an engine follow them to their end (matins up), or cancel them (matins cancel RUN). Then stop it."
            )
            raise StoreBusy(f"{what} recorded as running, and no engine is.", hint=hint)

    def _check_target(self, source: End, target: End, mark: Mark) -> None:
        state = target.state()
        if state == "empty":
            return
        same = target.meta()["store_id"] == mark.store_id
        if state == "copy" and same:
            return
        if state == "copy":
            message, hint = f"{self._to.shown} has a copy of another store.", "Name an empty schema, or another file."
        elif same and self._is_begun and MOVED in source.marks():
            self._is_finished = True
            return
        elif self._to.path is not None and MOVED in target.marks():
            there = mark_of(target.marks()[MOVED])
            message = f"{self._to.path} is a store that moved to {there.target}."
            hint = f"Name a new file, or put that one away: mv {self._to.path} {self._to.path}.old"
        else:
            message = f"{self._to.shown} has a store already, with {target.counts().schedules} schedules."
            hint = (
                "Name a new file." if self._to.path is not None else "Name an empty database, or an empty schema of it."
            )
        raise Conflict(message, value=self._to.shown, field="target", hint=hint)

    # -- the steps

    def _progress(self, table: str, rows: int) -> None:
        now = self._clock.boot_ms()
        if now - self._told_at >= _EVERY_MS:
            self._told_at = now
            self._tell(f"  {table}: {rows:,} rows")

    def _take_charge(self, mark: Mark, counts: Counts) -> None:
        now = self._clock.now_ms()
        store = open_store(self._to.url, self._clock, of_move=True)
        try:
            with store.transaction(now) as transaction:
                if not transaction.take_charge(mark.text):
                    raise Conflict("Meanwhile this move was given up.", field="target", hint="Repeat the command.")
                data = {"from": mark.source, "to": mark.target, "began_at": mark.at, **counts._asdict()}
                del data["running"]
                transaction.events.append(NewEvent(now, "store.promoted", None, None, data))
                transaction.seal(now)
        finally:
            store.close()

    def _move_output(self, mark: Mark) -> None:
        old, new = self._from.folder(mark.store_id), self._to.folder(mark.store_id)
        if old == new:
            return
        with unwritable(new):
            if old.exists() and not _is_left(old):
                _move_folder(old, new)
            old.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = old / _WITNESS
            file.touch(mode=0o600)
            file.write_text(json.dumps(mark._asdict()), encoding="ascii")


def _is_left(folder: Path) -> bool:
    """Whether output has gone from this folder already."""
    try:
        return isinstance(json.loads((folder / _WITNESS).read_text(encoding="ascii")), dict)
    except (OSError, ValueError):
        return False


def _move_folder(old: Path, new: Path) -> None:
    """Move what is in a folder. Repeated after a kill, it moves the rest."""
    new.mkdir(mode=0o700, parents=True, exist_ok=True)
    if _is_left(new):  # of an earlier move, away from there
        (new / _WITNESS).unlink()
    for entry in sorted(old.iterdir()):
        if not os.path.lexists(new / entry.name):
            part = new / f".{entry.name}.partial"
            if part.is_dir() and not part.is_symlink():
                shutil.rmtree(part)
            part.unlink(missing_ok=True)
            shutil.move(entry, part)  # another disk may be full in the middle of it
            part.replace(new / entry.name)
