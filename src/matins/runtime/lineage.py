"""Notices that the store was set back to an older copy: a restored backup, or a failover to an old one.

A file beside the journals has the last event that was committed on this machine. A store without that event is older.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from matins.model.audit import ChainHead
from matins.model.rows import NewEvent
from matins.store import Store
from matins.store.transaction import Transaction

log = logging.getLogger("matins")
_EVERY_MS = 1_000
_MAX_PAST = 100
_numbers = itertools.count()
"""One for each engine of this process."""


class Witness(NamedTuple):
    """The last event of a store, as this machine saw it."""

    store_id: str
    incarnation: str
    head: ChainHead
    past: tuple[str, ...] = ()
    """Earlier incarnations: a store that has one of these again is an older copy."""


class Lineage:
    def __init__(self, store: Store, folder: Path | None = None) -> None:
        self._store = store
        self._file = None if folder is None else folder / "witness.json"
        self._number = next(_numbers)
        self._witness: Witness | None = None
        self._next = 0

    def open(self, now: int) -> None:
        """Compare the store with what this machine saw of it before."""
        self._witness = self._load()
        if self._compare(now):
            self.note()

    def turn(self, now: int, boot: int, *, at_once: bool = False) -> bool:
        """Compare and take note, once a second. True when the store has another incarnation now."""
        if boot < self._next and not at_once:
            return False
        self._next = boot + _EVERY_MS
        changed = self._compare(now)
        self.note()
        return changed

    def note(self) -> None:
        """Remember the last event that this process committed."""
        store, head = self._store, self._store.last_head
        if head is None or (self._witness is not None and self._witness.head == head):
            return
        self._witness = Witness(store.store_id, store.incarnation, head, self._past(store.incarnation))
        if self._file is not None:
            try:
                self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                new = self._file.with_suffix(f".{os.getpid()}-{self._number}.new")  # engines may share the folder
                new.touch(mode=0o600)
                new.write_text(json.dumps(self._witness), encoding="ascii")
                new.replace(self._file)
            except OSError as error:  # a full disk: the file is older then, which is never wrong
                log.warning("%s cannot be written: %s", self._file, error.strerror)

    def _past(self, current: str) -> tuple[str, ...]:
        seen = self._witness
        if seen is None or seen.incarnation == current:
            return () if seen is None else seen.past
        return (*seen.past, seen.incarnation)[-_MAX_PAST:]

    def _compare(self, now: int) -> bool:
        store = self._store
        with store.reading() as transaction:
            current = transaction.incarnation()
            reason = self._reason(transaction, current)
        if reason is not None:
            current = self._renew(current, reason, now)
        elif current != store.incarnation:  # another engine renewed it
            store.last_head = None
        changed, store.incarnation = current != store.incarnation, current
        return changed

    def _reason(self, transaction: Transaction, current: str) -> str | None:
        """Why the store is older than what was seen of it; None if it is not."""
        if transaction.copy_of() is not None:
            return "backup"
        seen = self._witness
        if seen is not None and current in seen.past:
            return "older_copy"
        heads = [seen.head] if seen is not None and seen.incarnation == current else []
        if self._store.last_head is not None and self._store.incarnation == current:
            heads.append(self._store.last_head)
        return None if all(map(transaction.has_event, heads)) else "older_copy"

    def _renew(self, old: str, reason: str, now: int) -> str:
        new = secrets.token_hex(8)
        with self._store.transaction(now) as transaction:
            if not transaction.renew_incarnation(old, new, now):
                return transaction.incarnation()  # another engine was first
            data = {"reason": reason, "before": old, "incarnation": new}
            transaction.events.append(NewEvent(now, "store.restored", None, None, data))
        log.warning("The store is an older copy (%s): what happened after the copy was made may happen again.", reason)
        return new

    def _load(self) -> Witness | None:
        if self._file is None:
            return None
        with suppress(OSError, ValueError, TypeError):
            store_id, incarnation, head, past = json.loads(self._file.read_text(encoding="ascii"))
            if store_id == self._store.store_id:
                return Witness(store_id, incarnation, ChainHead(*head), tuple(past))
        return None
