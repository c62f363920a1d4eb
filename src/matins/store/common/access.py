"""Records of the surfaces, in SQL that both stores share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import orjson

from matins.model.access import BrowserSession, IdempotentRequest, Token
from matins.model.audit import StoredEvent
from matins.model.file import FileEntry
from matins.model.rows import RunRow
from matins.store.common.statements import Statements

R = TypeVar("R", Token, BrowserSession)


class AccessQueries(Statements):
    def insert_token(self, token: Token) -> None:
        values = token._asdict()
        del values["revoked_at"], values["used_at"]
        values["rights"] = None if token.rights is None else orjson.dumps(token.rights).decode()
        self._all("insert_token", **values)

    def token(self, token_id: str) -> Token | None:
        row = self._row(Token, "token", id=token_id)
        return None if row is None else _with_rights(row)

    def tokens(self) -> list[Token]:
        return [_with_rights(row) for row in self._rows(Token, "tokens")]

    def revoke_token(self, token_id: str, now: int) -> bool:
        return bool(self._all("revoke_token", id=token_id, now=now))

    def touch_token(self, token_id: str, now: int) -> None:
        self._all("touch_token", id=token_id, now=now)

    def insert_session(self, session: BrowserSession) -> None:
        values = session._asdict()
        del values["opened_at"], values["used_at"], values["ended_at"]
        values["rights"] = None if session.rights is None else orjson.dumps(session.rights).decode()
        self._all("insert_session", **values)

    def session(self, secret_hash: str) -> BrowserSession | None:
        row = self._row(BrowserSession, "browser_session", hash=secret_hash)
        return None if row is None else _with_rights(row)

    def sessions(self) -> list[BrowserSession]:
        return [_with_rights(row) for row in self._rows(BrowserSession, "sessions")]

    def open_session(self, session_id: str, code_hash: str, secret_hash: str, now: int, until: int) -> bool:
        return bool(self._all("open_session", id=session_id, code=code_hash, secret=secret_hash, now=now, until=until))

    def touch_session(self, session_id: str, now: int, until: int) -> None:
        self._all("touch_session", id=session_id, now=now, until=until)

    def end_sessions(self, session_id: str | None, token: str | None, person: str | None, now: int) -> list[str]:
        return self._column("end_sessions", id=session_id, token=token, person=person, now=now)

    def delete_sessions(self, before: int) -> None:
        self._all("delete_sessions", before=before)

    def idempotent_request(self, principal: str, key: str) -> IdempotentRequest | None:
        return self._row(IdempotentRequest, "idempotent_request", principal=principal, key=key)

    def begin_request(self, principal: str, key: str, digest: str, now: int) -> bool:
        return bool(self._all("begin_request", principal=principal, key=key, digest=digest, now=now))

    def store_response(self, principal: str, key: str, status: int, answer: str) -> None:
        self._all("store_response", principal=principal, key=key, status=status, answer=answer)

    def delete_request(self, principal: str, key: str) -> None:
        self._all("delete_request", principal=principal, key=key)

    def delete_requests(self, before: int) -> None:
        self._all("delete_requests", before=before)

    def file_entries(self) -> list[FileEntry]:
        return self._rows(FileEntry, "file_entries")

    def file_entry(self, kind: str, name: str) -> FileEntry | None:
        return next(iter(self.file_entries_named(kind, [name])), None)

    def file_entries_named(self, kind: str, names: Iterable[str]) -> list[FileEntry]:
        return self._rows(FileEntry, "file_entries_named", kind=kind, names=self._texts(names))

    def upsert_file_entries(self, entries: Iterable[FileEntry]) -> None:
        for entry in entries:
            self._all("upsert_file_entry", **entry._asdict())

    def delete_file_entries(self, keys: Iterable[tuple[str, str]]) -> None:
        for kind, name in keys:
            self._all("delete_file_entry", kind=kind, name=name)

    def recent_runs(self, before: int, limit: int, agent: str | None) -> list[RunRow]:
        return self._rows(RunRow, "recent_runs", before=before, limit=limit, agent=agent)

    def report_outcome(self, run_id: int, epoch: int, reported: str) -> None:
        self._all("report_outcome", run_id=run_id, epoch=epoch, reported=reported)

    def reported_outcome(self, run_id: int, epoch: int) -> str | None:
        return self._value("reported_outcome", run_id=run_id, epoch=epoch)

    def runs_in_hand(self, limit: int) -> list[RunRow]:
        return self._rows(RunRow, "runs_in_hand", limit=limit)

    def newest_runs(self, schedule_ids: Iterable[int]) -> list[RunRow]:
        return self._rows(RunRow, "newest_runs", ids=self._integers(schedule_ids))

    def started_runs(self, schedule_ids: Iterable[int]) -> list[RunRow]:
        return self._rows(RunRow, "started_runs", ids=self._integers(schedule_ids))

    def stopped_schedules(self, limit: int) -> list[int]:
        return self._column("stopped_schedules", limit=limit)

    def upcoming(self, limit: int) -> list[int]:
        return self._column("upcoming", limit=limit)

    def events_before(self, event_id: int, limit: int) -> list[StoredEvent]:
        return self._rows(StoredEvent, "events_before", before=event_id, limit=limit)

    def worker_of(self, run_id: int, epoch: int) -> str | None:
        return self._value("worker_of", run_id=run_id, epoch=epoch)


def _with_rights(row: R) -> R:
    rights: Any = row.rights
    return row if rights is None else row._replace(rights=tuple(orjson.loads(rights)))
