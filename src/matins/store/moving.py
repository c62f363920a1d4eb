"""What a store says of its move to another one, and the form in which its tables are copied and compared.

A table is copied as lines: the text form of PostgreSQL's COPY, in the order of the primary key, with 0 and 1 for
booleans. Both kinds of stores write the same lines for the same rows, so one digest of them compares any two.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from hashlib import sha256
from shlex import quote
from typing import Any, Literal, NamedTuple, Protocol

import orjson

from matins.errors import Conflict, InvalidInput, StoreCorrupt, StoreMoved

MOVING, MOVED, COPY = "moving", "moved", "copy"
"""Keys of `meta`: in the source while it moves, and afterwards; in the target until it is in charge."""
OWN_KEYS = frozenset({MOVING, MOVED, COPY, "next_run_id", "xact_base", "sealed", "oldest"})
"""Keys of `meta` that belong to one store, or to one kind of stores."""
OWN_TABLES = frozenset({"migrations", "meta", "output_followers", "callers_chains"})
"""Tables that are not copied: what they hold is of one store, or is over when no engine runs."""
ADDED: Mapping[tuple[str, str], str] = {("seals", "upto"): "0", ("writers", "sealed_seq"): "0"}
"""Columns that one kind of stores has in addition, and what they have until they are computed."""
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class Mark(NamedTuple):
    """A move, as both stores note it."""

    token: str
    store_id: str
    source: str
    target: str
    """URLs without passwords."""
    host: str
    at: int

    @property
    def text(self) -> str:
        return orjson.dumps(self._asdict()).decode()


def mark_of(text: str | Mapping[str, Any]) -> Mark:
    return Mark(**(orjson.loads(text) if isinstance(text, str) else text))


def refusal(marks: Mapping[str, str], *, writes: bool) -> StoreMoved | None:
    """Why a store with these marks must not be used. It can be read while it moves."""
    if MOVED in marks:
        return moved(mark_of(marks[MOVED]))
    if COPY in marks:
        mark = mark_of(marks[COPY])
        return StoreMoved(f"This store is a copy of {mark.source} that is not in charge yet.", hint=_go_on(mark))
    if MOVING in marks and writes:
        mark = mark_of(marks[MOVING])
        return StoreMoved(f"This store is moving to {mark.target}: nothing is written here.", hint=_go_on(mark))
    return None


def moved(mark: Mark) -> StoreMoved:
    day = f"{datetime.fromtimestamp(mark.at / 1000, UTC):%-d %b %Y}"
    target = quote(mark.target)
    hint = f"Start: matins up --store {target}. For other commands: export MATINS_STORE={target}"
    return StoreMoved(f"This store moved to {mark.target} on {day}.", hint=hint)


def _go_on(mark: Mark) -> str:
    command = f"matins --store {quote(mark.source)} promote {quote(mark.target)}"
    return f"Finish: {command}; give up: {command} --abort"


def drain_note(target: str) -> str:
    """The note on nodes that are cordoned until nothing runs."""
    return f"moving to {target}"


class Column(NamedTuple):
    name: str
    kind: Literal["integer", "text", "blob"]


class Table(NamedTuple):
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    """The columns by which rows are ordered: the primary key, or all."""


class Counts(NamedTuple):
    """What is carried, and what keeps a store from moving."""

    schedules: int
    runs: int
    events: int
    approvals: int
    """Those that wait for an answer."""
    running: int
    """Runs with a process."""


class Numbers(NamedTuple):
    """What continues in the target, and is in no table."""

    next_run: int
    next_schedule: int
    sealed: int
    """All events up to this one are sealed."""


class Digest(NamedTuple):
    rows: int
    digest: str


Progress = Callable[[str, int], None]
"""Told of a table, and of its rows so far."""


class End(Protocol):
    """A store that moves, or to which another one moves."""

    name: str

    def close(self) -> None: ...

    # -- a source

    def exists(self) -> bool:
        """Whether there is a store of Matins."""
        ...

    def hold(self) -> None:
        """Keep engines, and other commands that move this store, away until it is closed. Raises StoreBusy."""
        ...

    def marks(self) -> dict[str, str]: ...
    def meta(self) -> dict[str, str]: ...
    def counts(self) -> Counts: ...
    def engines(self, lease_ms: int) -> list[str]:
        """The nodes that have a live engine."""
        ...

    def mark(self, mark: Mark, lease_ms: int) -> None:
        """Note the move, if nothing runs. From now on nothing is written to the other tables. Raises StoreBusy."""
        ...

    def set_moved(self, mark: Mark) -> None:
        """Note that the store has moved. Raises StoreBusy when the mark has changed."""
        ...

    def unmark(self, mark: Mark) -> None:
        """Be as before the move."""
        ...

    def tables(self) -> Mapping[str, Table]: ...
    def numbers(self) -> Numbers: ...
    def snapshot(self) -> AbstractContextManager[None]:
        """What is read in it is of one moment."""
        ...

    def lines(self, table: str, columns: Sequence[Column], key: Sequence[str]) -> Iterator[bytes]:
        """Blocks of whole lines."""
        ...

    # -- a target

    def check_usable(self) -> None:
        """Raise an error with a fix unless a store can be made here: access, version, and no other tables."""
        ...

    def state(self) -> Literal["empty", "copy", "in_charge"]: ...
    def copy_from(self, source: End, mark: Mark, now: int, progress: Progress) -> dict[str, Digest]:
        """Make the copy, all or nothing, and compare it. Raises Conflict when the move was given up."""
        ...

    def drop(self, mark: Mark) -> None:
        """Give the copy up: no statement of this move that arrives later makes one again. Raises Conflict when the
        store here is in charge already."""
        ...


def check_not_finished(end: End, mark: Mark) -> None:
    """Raise Conflict when the store to which a move leads is in charge."""
    if end.state() == "in_charge" and end.meta().get("store_id") == mark.store_id:
        message = f"The move is finished: {mark.target} is in charge."
        raise Conflict(
            message, field="target", hint=f"To go back: matins --store {quote(mark.target)} promote sqlite:///NEW.db"
        )


def shared_columns(source: Mapping[str, Table], target: Mapping[str, Table]) -> dict[str, tuple[Column, ...]]:
    """What is copied: the tables of the target with the columns that both have."""
    found: dict[str, tuple[Column, ...]] = {}
    for name, table in target.items():
        if name in source:
            known = {column.name for column in source[name].columns}
            found[name] = tuple(column for column in table.columns if column.name in known)
    return found


class Hashed:
    """Passes blocks of lines on, and has their digest afterwards."""

    def __init__(self, table: str, blocks: Iterable[bytes], progress: Progress) -> None:
        self._table, self._blocks, self._progress = table, blocks, progress
        self._hash = sha256()
        self._rows = 0

    def __iter__(self) -> Iterator[bytes]:
        for block in self._blocks:
            self._hash.update(block)
            self._rows += block.count(b"\n")
            self._progress(self._table, self._rows)
            yield block

    @property
    def digest(self) -> Digest:
        return Digest(self._rows, self._hash.hexdigest())


def digest_of(table: str, blocks: Iterable[bytes], progress: Progress = lambda table, rows: None) -> Digest:
    hashed = Hashed(table, blocks, progress)
    for _ in hashed:
        pass
    return hashed.digest


def check_same(table: str, source: Digest, target: Digest) -> None:
    if source != target:
        message = f"The copy of the table {table} differs: {source.rows} rows there, {target.rows} here."
        raise StoreCorrupt(message, hint="Nothing has moved. Check both disks, then repeat the command.")


def check_text(table: str, block: bytes) -> bytes:
    if b"\0" in block:
        line = block[: block.index(b"\0")].rpartition(b"\n")[2].partition(b"\t")[0].decode(errors="replace")
        message = f"PostgreSQL text cannot contain the character NUL, and the table {table} has one (row {line})."
        raise InvalidInput(message, field="target", hint="Delete that record, then repeat the command.")
    return block


def values_of(block: bytes, columns: Sequence[Column]) -> Iterator[tuple[int | str | bytes | None, ...]]:
    """The rows of a block."""
    kinds = [column.kind for column in columns]
    for line in block.decode().split("\n")[:-1]:
        yield tuple(map(_value, line.split("\t"), kinds))


def _value(field: str, kind: str) -> int | str | bytes | None:
    if field == "\\N":
        return None
    if kind == "integer":
        return int(field)
    if kind == "blob":
        return bytes.fromhex(field[3:])
    return _ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[1]), field) if "\\" in field else field
