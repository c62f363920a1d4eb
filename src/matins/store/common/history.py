"""Old runs and the log of events, in statements of both stores."""

from __future__ import annotations

from collections.abc import Iterable

from matins.model.rows import AuditRows, ChainHead, SealRow, StoredEvent, WriterRow
from matins.store.common.statements import Statements


class HistoryQueries(Statements):
    def last_written(self) -> int:
        return self._value("last_written") or 0

    def events_after(self, event_id: int, limit: int) -> list[StoredEvent]:
        return self._rows(StoredEvent, "events_after", after=event_id, limit=limit)

    def writers(self) -> list[WriterRow]:
        return self._rows(WriterRow, "all_writers")

    def audit(self) -> AuditRows:
        return AuditRows(
            self._rows(StoredEvent, "all_events"),
            self._rows(WriterRow, "all_writers"),
            self._rows(SealRow, "all_seals"),
        )

    def incarnation(self) -> str:
        return self._value("meta", key="incarnation")

    def renew_incarnation(self, old: str, new: str, now: int) -> bool:
        if self._value("renew_incarnation", old=old, new=new) is None:
            return False
        self._all("set_meta", key="restored_at", value=str(now))
        self._all("delete_meta", key="copy_of")
        return True

    def copy_of(self) -> str | None:
        return self._value("meta", key="copy_of")

    def restored_at(self) -> int | None:
        value = self._value("meta", key="restored_at")
        return None if value is None else int(value)

    def has_event(self, head: ChainHead) -> bool:
        found = self._value("link_hash", id=head.event_id)
        if found is not None:
            return bytes(found).hex() == head.hash
        return (self._value("pruned_until", writer=head.writer) or 0) >= head.seq

    def prunable(self, ended_before: int, now: int, limit: int) -> list[int]:
        return self._column("prunable", before=ended_before, now=now, limit=limit)

    def prunable_beyond(self, newest: int, now: int, limit: int) -> list[int]:
        return sorted(self._column("prunable_beyond", newest=newest, now=now, limit=limit))

    def delete_runs(self, run_ids: Iterable[int]) -> None:
        whole = list(run_ids)
        ids = self._integers([*whole, *self._column("steps_of_runs", ids=self._integers(whole))])
        self._all("note_purged", ids=ids)
        self._delete_runs(ids)
        self._all("prune_votes")
