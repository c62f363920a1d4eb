"""Housekeeping: `Maintenance` seals the event chains, deletes old history and writes the SQLite log back.

`Lineage` notices that the store was set back to an older copy. A file beside the journals has the last event that this
machine committed; a store without that event is older.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, cast

from matins.engine.audit import DEFINING, PRUNED, RUNS_PRUNED, carried, id_ranges, pruned_record, pruning_of
from matins.engine.reasons import rfc3339
from matins.engine.when.durations import DAY_MS
from matins.errors import StoreMoved
from matins.model.event import ChainHead
from matins.model.rows import NewEvent
from matins.runtime.calls import SIGNED_MS
from matins.store import Store
from matins.store.transaction import Transaction

_SEAL_MS = 1_000
_PRUNE_MS = 3_600_000
_PRUNE_BATCH = 1_000
_SEAL_BATCH = 20_000
_CALL_BODY_MS, _CALL_MS = 14 * DAY_MS, 30 * DAY_MS
"""How long the bodies of calls are kept, and how long their keys are known."""
_INCIDENT_MS = 90 * DAY_MS
"""How long incidents are kept after their end."""
_ZONES_MS = 2 * DAY_MS
"""Days of other time zones end later."""


class Maintenance:
    def __init__(self, store: Store, history_days: float | None, history_runs: int | None) -> None:
        self._store = store
        self._days = history_days
        self._runs = history_runs
        self._next_seal = 0
        self._next_prune = 0
        self.dirty = True
        """Whether events were written since the last seal."""

    def turn(self, now: int, boot: int) -> None:
        if self.dirty and boot >= self._next_seal:
            self._next_seal = boot + _SEAL_MS
            self.seal(now)
        if boot >= self._next_prune:
            # A full batch means that there is more: continue soon, but let the loops run.
            self._next_prune = boot + (_SEAL_MS if self.prune(now) == _PRUNE_BATCH else _PRUNE_MS)

    def seal(self, now: int) -> None:
        with self._store.transaction(now) as transaction:
            transaction.seal(now)
        self.dirty = False

    def prune(self, now: int) -> int:
        """Delete old runs, events, approvals and budget usage. Cursors are not changed, so no slot fires again."""
        with self._store.transaction(now) as transaction:
            old: list[int] = []
            if self._days is not None:
                before = now - int(self._days * DAY_MS)
                old = transaction.prunable(before, now, _PRUNE_BATCH)
                self._prune_log(transaction, before, now)
            if self._runs is not None and len(old) < _PRUNE_BATCH:
                old += transaction.prunable_beyond(self._runs, now, _PRUNE_BATCH - len(old))
            if old:
                gone = {"runs": id_ranges(transaction.delete_runs(old))}
                transaction.events.append(NewEvent(now, RUNS_PRUNED, None, None, gone))
            transaction.prune_calls(now - _CALL_BODY_MS, now - _CALL_MS, now - SIGNED_MS)
            transaction.prune_incidents(now - _INCIDENT_MS, now - DAY_MS)
        return len(old)

    def _prune_log(self, transaction: Transaction, before: int, now: int) -> None:
        earlier = pruning_of(transaction.last_pruning())
        pruned = transaction.prune_events(before, DEFINING)
        transaction.prune_records(before, rfc3339(before - _ZONES_MS)[:10])
        if pruned is not None:
            seal = transaction.prune_seals(_SEAL_BATCH)
            tokens, old = transaction.tokens(), transaction.approvals_before(before)
            data = pruned_record(before, transaction.writers(), tokens, old, carried(pruned), seal, earlier)
            transaction.events.append(NewEvent(now, PRUNED, None, None, data))


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
        """Compare and remember, once a second. True when the store has another incarnation now."""
        if boot < self._next and not at_once:
            return False
        changed = self._compare(now)
        self._next = boot + _EVERY_MS  # after an error, it is compared again at once
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
            if store.shared and current != store.incarnation:
                transaction.check_store(store.store_id)
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
            seen = json.loads(self._file.read_text(encoding="ascii"))
            if isinstance(seen, dict):
                from matins.store.moving import mark_of, moved  # of stores that have moved; others need not load it

                mark = mark_of(cast("dict[str, Any]", seen))
                if mark.store_id == self._store.store_id:  # an older copy, without a mark, of what moved away from here
                    refused = moved(mark)
                    hint = f"{refused.hint}. To run this older copy all the same, delete {self._file}."
                    raise StoreMoved(refused.message, hint=hint)
                return None
            store_id, incarnation, head, past = seen
            if store_id == self._store.store_id:
                return Witness(store_id, incarnation, ChainHead(*head), tuple(past))
        return None
