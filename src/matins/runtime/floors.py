"""The shortest interval between runs of what agents made, by every way: slots, starts, retries and catch-up.

It holds for a chain: a schedule with all that descends from it. A chain of one-shots that renew themselves is one.
"""

from __future__ import annotations

from matins.engine.policies import Policies
from matins.model.access import name_of
from matins.runtime.catalog import CompiledSchedule
from matins.store.transaction import Transaction

_TOLERANCE_MS = 1_000
"""A start may be late by this much without delaying the next one."""


class Floors:
    """The starts of one turn, beside those in the store."""

    def __init__(self) -> None:
        self._started: dict[int, int] = {}

    def begin(self) -> None:
        self._started.clear()

    def free_at(self, transaction: Transaction, item: CompiledSchedule, policies: Policies, now: int) -> int:
        """When the next run of this schedule may start: `now`, or later."""
        if item.creator is None or item.step:  # the steps of a run are one run
            return now
        floor = policies.rules_for(name_of(item.creator)).min_interval_ms - _TOLERANCE_MS
        chain = transaction.last_chain_start(item.schedule_id, now - floor, now)
        root = chain.root or item.schedule_id
        last = max(chain.started_at or 0, self._started.get(root, 0))
        if last + floor > now:
            return last + floor
        self._started[root] = now
        return now
