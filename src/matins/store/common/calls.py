"""Calls, the runs that they started, and the schedules that listen to them, in SQL that both stores share."""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from matins.model.call import Call, CalledRun, CallOutcome, CallRow, Listener
from matins.store.common.statements import Statements


class CallQueries(Statements):
    def insert_call(self, call: Call, now: int) -> int | None:
        values = call._asdict() | {"body": orjson.dumps(call.body).decode()}
        del values["signed"]
        return self._value("insert_call", at=now, **values)

    def claim_signed(self, call: Call, now: int, since: int) -> str | None:
        what = {"source": call.source, "name": call.name, "digest": call.signed}
        if self._all("claim_signed", **what, key=call.key, at=now, since=since):
            return None
        return self._value("signed_key", **what)

    def set_call_outcome(self, call_id: int, outcome: CallOutcome, reason: str | None) -> None:
        self._all("set_call_outcome", id=call_id, outcome=outcome, reason=reason)

    def call(self, call_id: int) -> CallRow | None:
        return self._row(CallRow, "call", id=call_id)

    def call_by_key(self, source: str, name: str, key: str) -> CallRow | None:
        return self._row(CallRow, "call_by_key", source=source, name=name, key=key)

    def calls(self, before: int, limit: int, source: str, name: str) -> list[CallRow]:
        return self._rows(CallRow, "calls", before=before, limit=limit, source=source, name=name)

    def calls_of_run(self, run_id: int, limit: int) -> list[CallRow]:
        return self._rows(CallRow, "calls_of_run", run_id=run_id, limit=limit)

    def is_called(self, run_id: int) -> bool:
        return bool(self._all("is_called", run_id=run_id))

    def runs_of_calls(self, call_ids: Iterable[int]) -> list[CalledRun]:
        return self._rows(CalledRun, "runs_of_calls", ids=self._integers(call_ids))

    def link_call(self, call_id: int, run_id: int, grouped: str | None) -> None:
        self._all("link_call", call_id=call_id, run_id=run_id, grouped=grouped)

    def debouncing_run(self, schedule_id: int, grouped: str) -> int | None:
        return self._value("debouncing_run", id=schedule_id, grouped=grouped)

    def debounce_run(self, run_id: int, until: int, most: int) -> bool:
        return bool(self._all("debounce_run", run_id=run_id, until=until, most=most))

    def count_execution(self, schedule_id: int) -> None:
        self._all("count_execution", id=schedule_id)

    def last_planned(self, schedule_id: int, since: int) -> int | None:
        return self._value("last_planned", id=schedule_id, since=since)

    def set_listeners(self, schedule_id: int, listeners: Iterable[Listener]) -> None:
        self._all("delete_listeners", id=schedule_id)
        for listener in listeners:
            self._all("insert_listener", **listener._asdict())

    def listeners(self, source: str, name: str, agent: str) -> list[int]:
        return self._column("listeners", source=source, name=name, agent=agent)

    def pipelines(self) -> list[tuple[int, int]]:
        return [(source, follower) for source, follower in self._all("pipelines")]

    def prune_calls(self, bodies_before: int, before: int, signed_before: int) -> None:
        self._all("prune_call_bodies", before=bodies_before)
        self._all("prune_calls", before=before)
        self._all("prune_call_runs")
        self._all("prune_signed", before=signed_before)
