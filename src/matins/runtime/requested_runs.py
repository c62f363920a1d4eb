"""Runs that no slot creates: a person, an agent or a call requests them."""

from __future__ import annotations

from typing import Any

from matins.engine.gates import Verdict
from matins.engine.planning import PlannedRun
from matins.engine.transitions import INITIAL_STATES
from matins.model.rows import NewEvent
from matins.model.run import RunState
from matins.runtime.catalog import Catalog, CompiledSchedule
from matins.runtime.new_runs import end_data, new_run
from matins.runtime.placement import Placement
from matins.runtime.run_changes import end_runs
from matins.store.transaction import Transaction


def insert_requested_run(
    transaction: Transaction, catalog: Catalog, compiled: CompiledSchedule, verdict: Verdict | None, key: str,
    by: dict[str, Any], now: int,
) -> int:  # fmt: skip
    """Insert a run in the state that the gates decided, with its event. `by` says who requested it."""
    planned = PlannedRun(None, None, 1, RunState.READY, None, {"by": by})
    if verdict is not None:
        evidence = {**(verdict.evidence or {}), "by": by}
        planned = PlannedRun(None, None, 1, verdict.state, verdict.reason, evidence, verdict.until)
    (run_id,) = transaction.run_ids(1)
    place = Placement().place(transaction, compiled, catalog.policies(transaction))
    transaction.insert_runs([new_run(run_id, compiled, planned, now, key, place)])
    if verdict is not None and verdict.cancel:
        end_runs(transaction, catalog, verdict.cancel, now, "cancelled_by_newer")
    data: dict[str, Any] = {"by": by["name"], "reason": planned.reason, "slot": None}
    if "who" in by:
        data["who"] = by["who"]
    if not planned.state.live:
        data |= end_data(compiled, planned, now)
    transaction.events.append(NewEvent(now, INITIAL_STATES[planned.state], compiled.schedule_id, run_id, data))
    return run_id
