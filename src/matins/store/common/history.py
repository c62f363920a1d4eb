"""Old runs and the log of events, in statements of both stores."""

from __future__ import annotations

from collections.abc import Iterable

from matins.model.rows import AuditRows, SealRow, StoredEvent, WriterRow
from matins.store.common.statements import Statements


class HistoryQueries(Statements):
    def last_written(self) -> int:
        return self._value("last_written") or 0

    def events_after(self, event_id: int, limit: int) -> list[StoredEvent]:
        return self._rows(StoredEvent, "events_after", after=event_id, limit=limit)

    def audit(self) -> AuditRows:
        return AuditRows(
            self._rows(StoredEvent, "all_events"),
            self._rows(WriterRow, "all_writers"),
            self._rows(SealRow, "all_seals"),
        )

    def prunable(self, ended_before: int, limit: int) -> list[int]:
        return self._column("prunable", before=ended_before, limit=limit)

    def prunable_beyond(self, newest: int, limit: int) -> list[int]:
        return sorted(self._column("prunable_beyond", newest=newest, limit=limit))

    def delete_runs(self, run_ids: Iterable[int]) -> None:
        ids = self._integers(run_ids)
        self._all("note_purged", ids=ids)
        for notes in ("delete_attempts", "delete_checks", "delete_spend", "delete_approvals"):
            self._all(notes, ids=ids)
        self._all("delete_runs", ids=ids)
        self._all("prune_votes")
