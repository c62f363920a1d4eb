"""Maintenance: seals the event chains, deletes old history, writes the SQLite log back."""

from __future__ import annotations

from matins.engine.audit import PRUNED, pruned_record, pruning_of
from matins.engine.audit_definitions import DEFINING, carried
from matins.engine.audit_runs import RUNS_PRUNED, id_ranges
from matins.engine.reasons import rfc3339
from matins.engine.when.durations import DAY_MS
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
        earlier = pruning_of(transaction.last_of_type(PRUNED))
        pruned = transaction.prune_events(before, DEFINING)
        transaction.prune_records(before, rfc3339(before - _ZONES_MS)[:10])
        if pruned is not None:
            seal = transaction.prune_seals(_SEAL_BATCH)
            tokens, old = transaction.tokens(), transaction.approvals_before(before)
            data = pruned_record(before, transaction.writers(), tokens, old, carried(pruned), seal, earlier)
            transaction.events.append(NewEvent(now, PRUNED, None, None, data))
