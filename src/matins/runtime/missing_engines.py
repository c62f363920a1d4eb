"""Runs that need what no running engine has: they are reported, or fail if their schedule says so."""

from __future__ import annotations

import json

from matins.engine.jobs import JOB_NEED
from matins.engine.transitions import FAIL_UNSTARTED
from matins.model.rows import NewEvent, StartedRun
from matins.model.run import RunState
from matins.runtime.catalog import Catalog, CompiledSchedule
from matins.runtime.placement import Needs, Placement, unserved
from matins.runtime.run_change import RunChange
from matins.runtime.run_changes import apply
from matins.store import Store

_REPORT_AFTER_MS, _LOOK_MS = 60_000, 10_000
_PAGE = 500
"""How many runs of a place one look reads. The next look goes on from there."""


class MissingEngines:
    """Reports each set of needs once. A run fails after the time that an engine has to come back: the lease."""

    def __init__(self, store: Store, catalog: Catalog, placement: Placement, lease_ms: int) -> None:
        self._store = store
        self._catalog = catalog
        self._placement = placement
        self._lease = lease_ms
        self._next = 0
        self._read: dict[int, int] = {}
        """By place, the last run that was read."""

    def turn(self, now: int, boot: int) -> None:
        if boot >= self._next:
            self._next = boot + _LOOK_MS
            self.look(now)

    def look(self, now: int) -> None:
        patience = min(self._lease, _REPORT_AFTER_MS)
        with self._store.reading() as transaction:
            late = [row for row in transaction.ready_places() if row.not_before <= now - patience]
            places = {row.id: row.needs for row in transaction.places()} if late else {}
        elsewhere = [row for row in late if row.place in places and row.place not in self._placement.mine]
        engines = [engine.offers for engine in self._store.engines(self._lease)] if elsewhere else []
        for row in elsewhere:
            needs = json.loads(places[row.place])
            missing = unserved(frozenset(needs), engines)
            if missing is not None:
                self._fail(row.place, missing, now)
                if row.not_before <= now - _REPORT_AFTER_MS:
                    self._report(row.place, needs, row.not_before, now)

    def _report(self, place: int, needs: list[str], since: int, now: int) -> None:
        with self._store.transaction(now) as transaction:
            if transaction.report_place(place, now):
                transaction.events.append(NewEvent(now, "run.no_engine", None, None, {"needs": needs, "since": since}))

    def _fail(self, place: int, missing: Needs, now: int) -> None:
        """Fail runs of a place whose job is missing, if their schedules say so."""
        if not any(need.startswith(JOB_NEED) for need in missing):
            return
        with self._store.reading() as transaction:
            ids = transaction.ready_in(place, now - self._lease, self._read.get(place, 0), _PAGE)
        self._read[place] = ids[-1] if len(ids) == _PAGE else 0
        if not ids:
            return
        with self._store.transaction(now) as transaction:
            rows = [row for row in transaction.live_runs(ids) if row.state == RunState.READY]
            compiled = self._catalog.compiled(transaction, {row.key for row in rows})
            found = [(row, compiled.get(row.key)) for row in rows]
            changes = [
                _failed(row, item, now)
                for row, item in found
                if isinstance(item, CompiledSchedule) and item.definition.missing_job == "fail"
            ]
            apply(transaction, changes, now)


def _failed(row: StartedRun, item: CompiledSchedule, now: int) -> RunChange:
    evidence = {"job": item.definition.job}
    return RunChange(row.id, row.epoch, row.slot, item, FAIL_UNSTARTED, now, reason="missing_job", evidence=evidence)
