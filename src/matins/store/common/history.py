"""Old runs and the log of events, in statements of both stores."""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from matins.model import audit
from matins.model.rows import AttemptRow
from matins.store.common.statements import Statements


class HistoryQueries(Statements):
    def last_written(self) -> int:
        return self._value("last_written") or 0

    def events_after(self, event_id: int, limit: int) -> list[audit.StoredEvent]:
        return self._rows(audit.StoredEvent, "events_after", after=event_id, limit=limit)

    def writers(self) -> list[audit.WriterRow]:
        return self._rows(audit.WriterRow, "all_writers")

    def logged(self, after: int, limit: int) -> list[audit.StoredEvent]:
        return self._rows(audit.StoredEvent, "logged", after=after, limit=limit)

    def last_of_type(self, kind: str) -> audit.StoredEvent | None:
        return self._row(audit.StoredEvent, "last_of_type", type=kind)

    def links(self, ids: Iterable[int]) -> list[audit.EventLink]:
        return self._rows(audit.EventLink, "links", ids=self._integers(ids))

    def seals(self, after: int, limit: int) -> list[audit.SealRow]:
        return self._rows(audit.SealRow, "seals", after=after, limit=limit)

    def newest_seal(self) -> audit.SealRow | None:
        return self._row(audit.SealRow, "newest_seal")

    def bound_runs(self, ids: Iterable[int]) -> list[audit.BoundRun]:
        return self._rows(audit.BoundRun, "bound_runs", ids=self._integers(ids))

    def bound_attempts(self, ids: Iterable[int]) -> list[AttemptRow]:
        return self._rows(AttemptRow, "bound_attempts", ids=self._integers(ids))

    def bound_revision(self, schedule_id: int, rev: int) -> audit.BoundRevision:
        row = self._row(audit.BoundRevision, "bound_revision", id=schedule_id, rev=rev)
        assert row is not None, (schedule_id, rev)
        return row

    def bound_revisions(self, schedule_ids: Iterable[int]) -> list[audit.BoundRevision]:
        return self._rows(audit.BoundRevision, "bound_revisions", ids=self._integers(schedule_ids))

    def current_revisions(self) -> list[audit.CurrentRevision]:
        return self._rows(audit.CurrentRevision, "current_revisions")

    def count_revisions(self) -> int:
        return self._value("count_revisions")

    def revisions(self) -> list[tuple[int, int, str, str]]:
        return self._all("revisions")

    def count_bound(self, since: int) -> list[int]:
        (counts,) = self._all("count_bound", since=since)
        return list(counts)

    def unlogged_runs(self, since: int, created: Iterable[str], ended: Iterable[str]) -> list[int]:
        unplanned = self._column("unplanned_runs", since=since, types=self._texts(created))
        return unplanned or self._column("unlogged_runs", since=since, types=self._texts(ended))

    def unlogged_attempts(self, since: int, types: Iterable[str]) -> list[tuple[int, int]]:
        return self._all("unlogged_attempts", since=since, types=self._texts(types))

    def unlogged_approvals(self, since: int) -> list[int]:
        return self._column("unlogged_approvals", since=since)

    def unlogged_votes(self, since: int) -> list[tuple[int, str]]:
        return self._all("unlogged_votes", since=since)

    def prune_seals(self, limit: int) -> audit.SealRow | None:
        pruned = {writer.id: writer.pruned_seq for writer in self.writers()}
        last: audit.SealRow | None = None
        *some, _ = self.seals(0, limit) or [None]  # the newest one stays: the chain continues from it
        for seal in some:
            if seal is None or any(seq > pruned.get(writer, 0) for writer, seq, *_ in orjson.loads(seal.heads)):
                break
            last = seal
        if last is not None:
            self._all("delete_seals", last=last.id)
        return last

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

    def has_event(self, head: audit.ChainHead) -> bool:
        found = self._value("link_hash", id=head.event_id)
        if found is not None:
            return bytes(found).hex() == head.hash
        return (self._value("pruned_until", writer=head.writer) or 0) >= head.seq

    def prunable(self, ended_before: int, now: int, limit: int) -> list[int]:
        return self._column("prunable", before=ended_before, now=now, limit=limit)

    def prunable_beyond(self, newest: int, now: int, limit: int) -> list[int]:
        return sorted(self._column("prunable_beyond", newest=newest, now=now, limit=limit))

    def delete_runs(self, run_ids: Iterable[int]) -> list[int]:
        whole = list(run_ids)
        every = [*whole, *self._column("steps_of_runs", ids=self._integers(whole))]
        ids = self._integers(every)
        self._all("note_purged", ids=ids)
        self._delete_runs(ids)
        self._all("prune_votes")
        return every
