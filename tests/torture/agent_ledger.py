"""Agents whose journals were lost: none that is to be held runs twice, and each that is held can be explained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from cast import HOLDS, RETRIES
from stage import Stage

from matins import Matins
from matins.model.run import RunState

if TYPE_CHECKING:
    from ledger import Tally

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
RUNS = """SELECT r.id, s.name, s.uid, r.slot, r.first_slot, r.state, r.reason
FROM runs r JOIN schedules s ON s.id = r.schedule_id ORDER BY r.id"""


def check_agents(tally: Tally, stage: Stage, rows: Sequence[Any]) -> None:
    told = stage.effects.read_text().splitlines() if stage.effects.exists() else []
    done = Counter(tuple(line.split()) for line in told)
    held: list[int] = []
    for run_id, name, uid, slot, first, state, reason in rows:
        key = f"{uid}-{first or slot}"
        begun, ended = done["begin", key], done["end", key]
        what = f"run {run_id} of {name} ({RunState(state).label}, {reason})"
        if name == HOLDS:
            tally.add("duplicated", max(0, begun - 1), f"{what} ran {begun} times although it was to be held")
            was_held = state == RunState.HELD and reason in ("unknown", "worker_lost")
            if begun and not ended and not was_held:
                tally.wrong(f"{what} was cut, and is not held as unknown")
        elif name == RETRIES:
            tally.repeated += max(0, begun - 1)
        if state == RunState.SUCCEEDED and not ended:
            tally.wrong(f"{what} succeeded, but its agent never ended")
        if state == RunState.HELD:
            held.append(slot)
    tally.held += len(held)
    _check_explanations(tally, stage, held)


def _check_explanations(tally: Tally, stage: Stage, slots: list[int]) -> None:
    matins = Matins(stage.url)
    for slot in slots:
        told = matins.why(HOLDS, at=_EPOCH + timedelta(milliseconds=slot))
        run = None if told.run is None else told.run.run
        held = run is not None and run.state == "held" and run.reason in ("unknown", "worker_lost")
        if not held or "Held until resolved" not in told.summary:
            tally.wrong(f"why does not say that the outcome of slot {slot} is unknown: {told}")
    matins.close()
