"""Fills the index of what runs said. It has its own turn, a batch at a time, so that no fire waits for it.

The cursor of the subscription moves after the texts are written: after a kill some are written again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from matins.delivery.notices import Tail
from matins.delivery.subscribers import DeliveryQueue, DeliveryResult, QueueResults, StoredSubscriber, Turn
from matins.engine.events import TERMINAL_EVENTS
from matins.engine.run_texts import run_text
from matins.model.clock import Clock
from matins.store import Store
from matins.store.transaction import Transaction

_WINDOW, _BATCH = 5_000, 100
"""Events that one turn looks at, and runs that it takes up."""
_AGAIN_MS = 5_000
_SAVE_MS = 60_000
"""How often the cursor is saved although no run had a text."""
_MAX_STEPS = 20
"""Steps of a run whose output is read."""
_ALL = 0


class TextBatch(NamedTuple):
    run_ids: tuple[int, ...]
    upto: int
    """The event up to which all runs are among these, or have nothing to say."""

    @property
    def schedule_id(self) -> int | None:
        return None

    @property
    def label(self) -> str:
        return f"The text of {len(self.run_ids)} runs"


class TextSubscriber(StoredSubscriber):
    _batch: TextBatch | None = None
    _not_before = 0
    _saved_at = 0

    def match_events(self, turn: Turn) -> bool:
        if not self._lease(turn) or self._batch is not None or turn.now < self._not_before:
            return False
        transaction = turn.transaction
        upto = transaction.incident_window(self._seen, transaction.event_horizon(), _WINDOW)
        if upto <= self._seen:
            return False
        found = transaction.ended_texts(self._seen, upto, TERMINAL_EVENTS, _BATCH)
        if found:
            end = found[-1][0] if len(found) == _BATCH else upto
            self._batch = TextBatch(tuple(dict.fromkeys(run_id for _, run_id in found)), end)
        else:
            self._seen = upto
            if abs(turn.now - self._saved_at) > _SAVE_MS:
                self._save(turn)
        return True

    def queues(self, turn: Turn, under_way: set[int]) -> list[DeliveryQueue]:
        if self._batch is None or not self._ours or under_way:
            return []
        return [DeliveryQueue(self, "text", _ALL, None, (self._batch,), turn.policies)]

    def record(self, turn: Turn, sent: QueueResults) -> None:
        for batch, result in sent:
            self._batch = None
            if result.verdict == "arrived":
                self._seen = batch.upto
                self._save(turn)
            else:
                self._not_before = turn.now + _AGAIN_MS

    def _save(self, turn: Turn) -> None:
        turn.transaction.move_subscription(self.subscription.name, self._seen)
        self._saved_at = turn.now

    def next_at(self, turn: Turn) -> int | None:
        return None


class RunTexts:
    """Reads what runs said, then writes it in one transaction."""

    def __init__(self, store: Store, clock: Clock, tail: Tail) -> None:
        self._store = store
        self._clock = clock
        self._tail = tail

    def __call__(self, queue: DeliveryQueue, delivery: Any) -> DeliveryResult:
        texts: list[tuple[int, list[Any], str]] = []
        for run_id in delivery.run_ids:
            with self._store.reading() as transaction:
                found = _words_of(transaction, run_id)
            if found is not None:
                whole, outputs = found
                texts.append((run_id, whole[1], run_text(*whole, [self._tail(one) for one in outputs])))
        with self._store.transaction(self._clock.now_ms()) as transaction:
            for run_id, outcomes, text in texts:
                now = _words_of(transaction, run_id)
                if now is not None and now[0][1] == outcomes:  # otherwise it was erased meanwhile
                    transaction.upsert_run_text(run_id, text)
        return DeliveryResult()


def _words_of(
    transaction: Transaction, run_id: int
) -> tuple[tuple[str | None, list[Any], list[Any]], list[int]] | None:
    """The reason, outcomes and evidence of a run with its steps, and what has output; None if the run was pruned."""
    row = transaction.run(run_id)
    if row is None:
        return None
    steps = transaction.steps_of(run_id)
    parts = [row, *steps]
    outcomes = [orjson.loads(part.outcome) for part in parts if part.outcome]
    evidence = [orjson.loads(part.evidence) for part in parts if part.evidence]
    return (row.reason, outcomes, evidence), [step.id for step in steps[:_MAX_STEPS]] or [run_id]
