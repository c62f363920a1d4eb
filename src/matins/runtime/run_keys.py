"""The key of a run as the store has it. That of most runs follows from their slot, and is not looked up."""

from __future__ import annotations

from matins.engine.keys import run_key
from matins.runtime.catalog import CompiledSchedule
from matins.store.transaction import Transaction


def key_at_claim(transaction: Transaction, compiled: CompiledSchedule, run_id: int, slot: int | None) -> str | None:
    """The key of a manual run or of a step, read while the store is there; None when it follows from the slot."""
    return stored_run_key(transaction, compiled, run_id) if slot is None or compiled.step else None


def stored_run_key(transaction: Transaction, compiled: CompiledSchedule, run_id: int) -> str:
    """The key of a run. That of a step is the key of the whole run with the step's number."""
    whole = next(iter(transaction.parents_of([run_id])), run_id) if compiled.step else run_id
    run = transaction.run(whole)
    if run is None:
        return run_key(compiled.uid, None, None, compiled.step)
    first = run.slot if run.first_slot is None else run.first_slot
    return run_key(compiled.uid, first, run.request_key, compiled.step)
