"""Use cases on runs."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from matins.engine.gates import Candidate, judge
from matins.engine.planning import Birth
from matins.engine.transitions import FAIL, LOSE, RETRY, SUCCEED
from matins.errors import Conflict, InvalidInput, NotFound
from matins.model.principal import Principal
from matins.model.records import NewEvent
from matins.model.run import Run, RunState
from matins.model.schedule import Schedule
from matins.ports import Clock, Store, Transaction
from matins.runtime.catalog import Catalog, Known
from matins.runtime.planner import live_runs, new_run
from matins.runtime.recorder import Change, apply, end_runs
from matins.store.chain import faults

_NEWEST = 1 << 62
_ENDS = {"succeeded": SUCCEED, "failed": FAIL, "unknown": LOSE, "retry": RETRY}


class Runs:
    _store: Store
    _clock: Clock
    _catalog: Catalog
    _changed: Callable[[], None]
    _find: Callable[[Transaction, str, str | None], Schedule]
    _find_locked: Callable[[Transaction, str, str | None], Schedule]
    _known: Callable[[Transaction, Schedule], Known]

    def run(self, principal: Principal, name: str, key: str | None = None, agent: str | None = None) -> Run:
        """Start it now, once per key: the same key gives the run that exists. Overlap holds here too."""
        now = self._clock.now_ms()
        key = _checked_key(key)
        with self._store.transaction(now) as transaction:
            schedule = self._find_locked(transaction, name, agent)  # overlap and the key are decided under the lock
            existing = transaction.run_by_request(schedule.id, key)
            if existing is not None:
                return self._run(transaction, existing)
            known = self._known(transaction, schedule)
            live = live_runs(transaction, [schedule.id]).get(schedule.id, [])
            verdict = judge(Candidate(known.definition, None, live, 0, False, False, now))
            birth = Birth(None, None, 1, RunState.READY) if verdict is None else Birth(None, None, 1, *verdict[:3])
            (run_id,) = transaction.run_ids(1)
            transaction.insert_runs([new_run(run_id, known, birth, now, key)])
            if verdict is not None and verdict.cancel:
                end_runs(transaction, self._catalog, verdict.cancel, now, "cancelled_by_newer")
            data = {"by": principal.name, "reason": birth.reason}
            transaction.events.append(NewEvent(now, f"run.{birth.state.word}", schedule.id, run_id, data))
            run = self._run(transaction, run_id)
        self._changed()
        return run

    def cancel(self, principal: Principal, run_id: int, reason: str = "cancelled") -> Run:
        """End a run: at once when it has not started, otherwise as soon as its worker has ended it."""
        now = self._clock.now_ms()
        with self._store.transaction(now) as transaction:
            run = self._run(transaction, run_id)
            if not run.state.live:
                raise Conflict(f"Run {run_id} is over: {run.state.word}", value=run_id, field="run")
            end_runs(transaction, self._catalog, [run_id], now, reason)
            run = self._run(transaction, run_id)
        self._changed()
        return run

    def resolve(self, principal: Principal, run_id: int, end: str) -> Run:
        """Say what became of a run that is held because nobody knows: succeeded, failed, unknown, or retry it."""
        if end not in _ENDS:
            allowed = ", ".join(_ENDS)
            raise InvalidInput(f'"{end}" is no end', value=end, field="end", allowed=allowed, hint=f"one of: {allowed}")
        now = self._clock.now_ms()
        with self._store.transaction(now) as transaction:
            run = self._run(transaction, run_id)
            if run.state is not RunState.HELD:
                raise Conflict(f"Run {run_id} is not held: {run.state.word}", value=run_id, field="run")
            known = self._catalog.get(transaction, [(run.schedule_id, run.rev)])[run.schedule_id, run.rev]
            assert isinstance(known, Known), known
            transition = _ENDS[end]
            not_before = now if transition is RETRY else None
            reason = f"resolved_by_{principal.name}"
            apply(transaction, [Change(run.id, run.epoch, run.slot, known, transition, now, not_before, reason)], now)
            run = self._run(transaction, run_id)
        self._changed()
        return run

    def get_run(self, principal: Principal, run_id: int) -> Run:
        with self._store.reading() as transaction:
            return self._run(transaction, run_id)

    def runs(
        self, principal: Principal, name: str, agent: str | None = None, before: int | None = None, limit: int = 100
    ) -> list[Run]:
        """A schedule's runs, the newest first."""
        with self._store.reading() as transaction:
            schedule = self._find(transaction, name, agent)
            rows = transaction.runs_of(schedule.id, _NEWEST if before is None else before, limit)
        return [run_of(row) for row in rows]

    def verify_audit(self, principal: Principal) -> list[str]:
        """What is wrong with the event chains and seals; nothing when all is well."""
        with self._store.reading() as transaction:
            events, writers, seals = transaction.audit()
        return list(faults(events, writers, seals))

    def _run(self, transaction: Transaction, run_id: int) -> Run:
        row = transaction.run(run_id)
        if row is None:
            raise NotFound(f"There is no run {run_id}", value=run_id, field="run")
        return run_of(row)


def run_of(row: Sequence[Any]) -> Run:
    values = list(row)
    values[4] = RunState(values[4])
    values[16] = orjson.loads(values[16]) if values[16] else None
    values[17] = orjson.loads(values[17]) if values[17] else None
    return Run(*values)


def _checked_key(key: str | None) -> str:
    if key is None:
        return str(uuid.uuid4())
    if not key or len(key) > 200 or not key.isprintable():
        raise InvalidInput('"key" must be a text of 1 to 200 printable characters', value=key[:60], field="key")
    return key
