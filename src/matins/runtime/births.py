"""New runs: the record of a slot or of a manual start."""

from __future__ import annotations

import orjson

from matins.engine.planning import PlannedRun
from matins.engine.transitions import INITIAL_STATES
from matins.model.rows import NewEvent, NewRun
from matins.model.run import RunState
from matins.runtime.catalog import Known


def new_run(run_id: int, item: Known, birth: PlannedRun, now: int, request_key: str | None) -> NewRun:
    """The row of a new run, in the planned state."""
    live = birth.state < RunState.SUCCEEDED
    evidence = None if birth.evidence is None else orjson.dumps(birth.evidence).decode()
    return NewRun(
        run_id, item.schedule_id, item.rev, birth.slot, request_key, birth.state, item.exclusive, item.scope, 0, 0,
        None, (birth.until or now) if live else None, now, None, None if live else now, birth.slots, birth.first,
        birth.reason, evidence,
    )  # fmt: skip


def birth_event(run_id: int, item: Known, birth: PlannedRun, now: int) -> NewEvent:
    data = None
    if birth.reason is not None or birth.slots > 1:
        data = {"reason": birth.reason, "slot": birth.slot, "slots": birth.slots, **(birth.evidence or {})}
    return NewEvent(now, INITIAL_STATES[birth.state], item.schedule_id, run_id, data)
