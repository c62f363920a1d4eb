"""Pipelines: the end of a run calls the schedules that follow. The outbox delivers each end at least once; the key of
the call is the run, so that it counts once."""

from __future__ import annotations

from typing import Any

import orjson

from matins.delivery.subscribers import DeliveryQueue, DeliveryResult, EventDelivery
from matins.engine.calls import mapping_of
from matins.engine.when.definitions import instant_text
from matins.model.call import Call
from matins.model.clock import Clock
from matins.model.run import RunRecord
from matins.runtime.calls import fire
from matins.runtime.catalog import Catalog
from matins.store import Store

_MAX_TEXT_LENGTH = 64_000


class Pipelines:
    """The sender of the outbox for ends of runs."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._catalog = Catalog(cache=False)  # this thread has no part in the engine's cache

    def __call__(self, queue: DeliveryQueue, delivery: EventDelivery) -> DeliveryResult:
        run, compiled = delivery.run, delivery.compiled
        if run is None or compiled is None or run.backfill is not None:
            return DeliveryResult()  # it has been pruned, or cannot be read; what follows is not made up for
        now = self._clock.now_ms()
        with self._store.transaction(now) as transaction:
            hops = 1 + max((call.hops for call in transaction.calls_of_run(run.id, _ALL)), default=0)
            fire(transaction, self._catalog, end_call(run, f"{compiled.agent}/{compiled.name}", hops), now, "matins")
        self._store.notify()
        return DeliveryResult()


_ALL = 1_000


def end_call(run: RunRecord, schedule: str, hops: int) -> Call:
    """The call that the end of a run makes. `schedule` is agent/name."""
    text = outcome_text(run.outcome)
    body: dict[str, Any] = {
        "schedule": schedule.removeprefix("/"),
        "run": str(run.id),
        "outcome": run.state.label,
        "reason": run.reason,
        "text": text,
        "started_at": None if run.started_at is None else instant_text(run.started_at),
        "ended_at": None if run.ended_at is None else instant_text(run.ended_at),
    }
    return Call("schedule", schedule, str(run.id), body, run.state.label, text, hops=hops)


def outcome_text(outcome: Any) -> str | None:
    """What the run said: the agent's answer, the job's result, or its error."""
    found = mapping_of(outcome)
    result = found.get("result")
    said = mapping_of(result).get("text", result)
    said = found.get("error") if said is None else said
    if said is None:
        return None
    text = said if isinstance(said, str) else orjson.dumps(said).decode()
    return text[:_MAX_TEXT_LENGTH]
