"""New runs: the record of a slot or of a manual start."""

from __future__ import annotations

from typing import Any

import orjson

from matins.engine.audit_runs import end_facts
from matins.engine.planning import PlannedRun
from matins.engine.reasons import sentence, summary_data
from matins.engine.transitions import INITIAL_STATES
from matins.model.rows import NewEvent, NewRun
from matins.model.run import RunState
from matins.runtime.catalog import CompiledSchedule


def new_run(
    run_id: int, item: CompiledSchedule, planned: PlannedRun, now: int, request_key: str | None, place: int = 0
) -> NewRun:
    """The row of a new run, in the planned state. The place of one that has ended does not matter."""
    live = planned.state < RunState.SUCCEEDED
    evidence = None if planned.evidence is None else orjson.dumps(planned.evidence).decode()
    return NewRun(
        run_id, item.schedule_id, item.rev, planned.slot, request_key, planned.state, item.exclusive, item.scope, 0, 0,
        None, (planned.until or now) if live else None, now, None, None if live else now, planned.slots, planned.first,
        planned.reason, evidence, place,
    )  # fmt: skip


def planned_event(run_id: int, item: CompiledSchedule, planned: PlannedRun, now: int) -> NewEvent:
    data = covered(planned.slot, planned.slots, planned.first)
    if planned.reason is not None:
        data = {"reason": planned.reason, **data, **(planned.evidence or {})}
        if not planned.state.live:
            data |= end_data(item, planned, now)
    return NewEvent(now, INITIAL_STATES[planned.state], item.schedule_id, run_id, data)


def covered(slot: int | None, slots: int, first: int | None) -> dict[str, Any]:
    """The slots that a run stands for, as the event of its creation says them."""
    if slots == 1 and first is None:
        return {"slot": slot}
    return {"slot": slot, "slots": slots, "first": first}


def end_data(item: CompiledSchedule, planned: PlannedRun, now: int) -> dict[str, Any]:
    """What the event says of a run that is over when it is created, with the sentence of `why`."""
    evidence = {"slots": planned.slots, "first": planned.first, "last": planned.slot, **(planned.evidence or {})}
    zone = item.definition.trigger.timezone
    summary = sentence(
        planned.reason or planned.state.label, evidence, zone, state=planned.state, at=planned.slot or now
    )
    return {**summary_data(summary), **end_facts(item.rev, None)}
