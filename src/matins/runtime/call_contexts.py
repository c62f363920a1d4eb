"""The calls that runs stand for, as prompts, jobs and approvals see them."""

from __future__ import annotations

from typing import Any

import orjson

from matins.engine.prompts import CallContext
from matins.model.call import CallRow
from matins.store.transaction import Transaction


def call_context(transaction: Transaction, run_id: int) -> CallContext | None:
    """The newest call that the run stands for, or the run that it is a step of."""
    rows = transaction.calls_of_run(next(iter(transaction.parents_of([run_id])), run_id), 1)
    return _context(rows[0]) if rows else None


def _context(row: CallRow) -> CallContext:
    body: Any = None if row.body is None else orjson.loads(row.body)
    return CallContext(row.key, row.source, row.type, row.text, body)
