"""Runs, their permits and their workers, in statements of both stores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from matins.model.rows import (
    ChainStart,
    LiveRun,
    NewStep,
    PlaceRow,
    ReadyPlace,
    RunAhead,
    RunRow,
    ScopeRow,
    StartedRun,
    WorkerRow,
)
from matins.store.common.statements import Statements


class RunQueries(Statements):
    def live(self, schedule_ids: Iterable[int]) -> list[LiveRun]:
        return self._rows(LiveRun, "live", ids=self._integers(schedule_ids))

    def count_places(self) -> int:
        return self._value("count_places")

    def places(self) -> list[PlaceRow]:
        return self._rows(PlaceRow, "places")

    def place(self, needs: str) -> int:
        found = self._value("place", needs=needs)
        if found is None:
            self._all("insert_place", needs=needs)
            found = self._value("place", needs=needs)
        return found

    def ready_places(self) -> list[ReadyPlace]:
        return self._rows(ReadyPlace, "ready_places")

    def ready_in(self, place: int, since: int, after: int, limit: int) -> list[int]:
        return self._column("ready_in", place=place, since=since, after=after, limit=limit)

    def move_runs(self, scope: str, before: int, after: int) -> None:
        self._all("move_runs", scope=scope, before=before, after=after)

    def report_place(self, place: int, now: int) -> bool:
        return bool(self._all("report_place", id=place, now=now))

    def clear_reports(self, places: Iterable[int]) -> None:
        for place in places:
            self._all("clear_report", id=place)

    def mark_cancelling(self, run_ids: Iterable[int]) -> list[tuple[int, int, int]]:
        return self._all("mark_cancelling", ids=self._lock_due_of(run_ids))

    def live_runs(self, run_ids: Iterable[int]) -> list[StartedRun]:
        return self._rows(StartedRun, "live_runs", ids=self._lock_due_of(run_ids))

    def started(self, worker: int, *, mine: bool) -> list[StartedRun]:
        return self._rows(StartedRun, "started", worker=worker, mine=mine)

    def manual_runs(self, schedule_id: int) -> int:
        return self._column("manual_runs", id=schedule_id)[0]

    def orphans(self) -> list[StartedRun]:
        return self._rows(StartedRun, "orphans")

    def owner_of(self, run_id: int) -> WorkerRow | None:
        return self._row(WorkerRow, "owner_of", run_id=run_id)

    def suspend_runs(self, schedule_id: int) -> list[int]:
        return self._column("suspend_runs", id=schedule_id)

    def resume_runs(self, schedule_id: int, now: int) -> None:
        self._all("resume_runs", id=schedule_id, now=now)

    def undefer_runs(self, now: int) -> None:
        self._all("undefer_runs", now=now)

    def run_by_request(self, schedule_id: int, key: str) -> int | None:
        return self._value("run_by_request", id=schedule_id, key=key)

    def run(self, run_id: int) -> RunRow | None:
        return self._row(RunRow, "run", id=run_id)

    def runs_of(self, schedule_id: int, before: int, limit: int) -> list[RunRow]:
        return self._rows(RunRow, "runs_of", id=schedule_id, before=before, limit=limit)

    def covered(self, schedule_id: int, since: int) -> list[tuple[int, int]]:
        return self._all("covered", id=schedule_id, since=since)

    def next_recorded(self, schedule_id: int, since: int) -> tuple[int, int] | None:
        return next(iter(self._all("next_recorded", id=schedule_id, since=since)), None)

    def note_recorded(self, slot: int) -> None:
        if slot > self.recorded_until():
            self._raised(self._all("set_recorded", value=str(slot)))

    def recorded_until(self) -> int:
        return int(self._value("meta", key="recorded_until") or 0)

    def set_replanning(self, begun: bool) -> None:
        if begun:
            self._all("set_meta", key="replanning", value="1")
        else:
            self._all("delete_meta", key="replanning")

    def is_replanning(self) -> bool:
        return self._value("meta", key="replanning") is not None

    def runs_ahead(self, now: int, after: int, limit: int) -> list[RunAhead]:
        return self._rows(RunAhead, "runs_ahead", now=now, after=after, limit=limit)

    def set_range(self, run_id: int, first: int | None, slot: int, slots: int) -> None:
        self._all("set_range", id=run_id, first=first, slot=slot, slots=slots)

    def withdraw_runs(self, run_ids: Iterable[int]) -> None:
        self._delete_runs(self._integers(run_ids))

    def unfold(self, run_id: int, epoch: int, now: int) -> int | None:
        return self._value("unfold", id=run_id, epoch=epoch, now=now)

    def insert_steps(self, rows: Sequence[NewStep]) -> None:
        for row in rows:
            self._all("insert_step", **row._asdict())

    def steps_of(self, run_id: int) -> list[RunRow]:
        return self._rows(RunRow, "steps_of", id=run_id)

    def live_steps(self, run_ids: Iterable[int]) -> list[int]:
        return self._column("live_steps", ids=self._integers(run_ids))

    def parents_of(self, run_ids: Iterable[int]) -> list[int]:
        return self._column("parents_of", ids=self._integers(run_ids))

    def set_retry(self, run_id: int, retry_of: int, retry_from: int | None) -> None:
        self._all("set_retry", id=run_id, retry_of=retry_of, retry_from=retry_from)

    def retry_of(self, run_id: int) -> tuple[int | None, int | None]:
        return self._all("retry_of", id=run_id)[0]

    def nominal_slot(self, run_id: int) -> int | None:
        return self._value("nominal_slot", id=run_id)

    def previous_state(self, schedule_id: int, run_id: int) -> int | None:
        return self._value("previous_state", id=schedule_id, run=run_id)

    def last_chain_start(self, schedule_id: int, since: int, now: int) -> ChainStart:
        found = self._row(ChainStart, "last_chain_start", id=schedule_id, since=since, now=now)
        assert found is not None
        return found

    def _lock_due_of(self, run_ids: Iterable[int]) -> Any:
        """The ids as a value of a statement, after the cursors of their schedules are locked."""
        return self._integers(run_ids)

    # -- limits and workers

    def take_permit(self, scope: str, run_id: int) -> bool:
        return bool(self._all("take_permit", scope=scope, run=run_id))

    def release_permits(self, run_ids: Iterable[int]) -> None:
        ids = self._integers(run_ids)
        self._all("delete_surplus_permits", ids=ids)
        self._all("release_permits", ids=ids)

    def limits(self) -> list[ScopeRow]:
        return self._rows(ScopeRow, "limits")

    def held_permits(self) -> list[tuple[str, int]]:
        return [(scope, run_id) for scope, run_id in self._all("held_permits")]

    def set_offers(self, worker: int, offers: str) -> None:
        self._all("set_offers", id=worker, offers=offers)

    def offers(self) -> list[str]:
        return self._column("offers")

    def insert_worker(self, identity: str, now: int, offers: str = "[]") -> int:
        return self._value("insert_worker", identity=identity, now=now, offers=offers)

    def heartbeat(self, worker: int) -> int | None:
        return self._value("heartbeat", id=worker)

    def workers(self) -> list[WorkerRow]:
        return self._rows(WorkerRow, "workers")

    def stop_worker(self, worker: int, now: int) -> bool:
        return bool(self._all("stop_worker", id=worker, now=now))
