"""Records of the surfaces, in SQL that both stores share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from matins.model.desk import Answered, FileEntry, Token
from matins.model.records import StoredEvent


class Desk:
    """Part of a transaction. The store implements `_common`, which runs a named query."""

    def _common(self, query: str, /, **values: Any) -> list[Any]:
        raise NotImplementedError

    def insert_token(self, token: Token) -> None:
        values = token._asdict()
        del values["revoked_at"], values["used_at"]
        values["rights"] = None if token.rights is None else orjson.dumps(token.rights).decode()
        self._common("insert_token", **values)

    def token(self, token_id: str) -> Token | None:
        rows = self._common("token", id=token_id)
        return _token(rows[0]) if rows else None

    def tokens(self) -> list[Token]:
        return [_token(row) for row in self._common("tokens")]

    def revoke_token(self, token_id: str, now: int) -> bool:
        return bool(self._common("revoke_token", id=token_id, now=now))

    def use_token(self, token_id: str, now: int) -> None:
        self._common("use_token", id=token_id, now=now)

    def answered(self, principal: str, key: str) -> Answered | None:
        rows = self._common("answered", principal=principal, key=key)
        return Answered(*rows[0]) if rows else None

    def open_request(self, principal: str, key: str, digest: str, now: int) -> bool:
        """False when the request is being processed, or has a response."""
        return bool(self._common("open_request", principal=principal, key=key, digest=digest, now=now))

    def answer_request(self, principal: str, key: str, status: int, answer: str) -> None:
        self._common("answer_request", principal=principal, key=key, status=status, answer=answer)

    def drop_request(self, principal: str, key: str) -> None:
        self._common("drop_request", principal=principal, key=key)

    def drop_requests(self, before: int) -> None:
        self._common("drop_requests", before=before)

    def file_entries(self) -> list[FileEntry]:
        return [FileEntry(*row) for row in self._common("file_entries")]

    def file_entry(self, kind: str, name: str) -> FileEntry | None:
        rows = self._common("file_entry", kind=kind, name=name)
        return FileEntry(*rows[0]) if rows else None

    def put_file_entries(self, entries: Iterable[FileEntry]) -> None:
        for entry in entries:
            self._common("put_file_entry", **entry._asdict())

    def drop_file_entries(self, keys: Iterable[tuple[str, str]]) -> None:
        for kind, name in keys:
            self._common("drop_file_entry", kind=kind, name=name)

    def recent_runs(self, before: int, limit: int, agent: str | None) -> list[tuple[Any, ...]]:
        return self._common("recent_runs", before=before, limit=limit, agent=agent)

    def newest_run(self, schedule_id: int) -> tuple[Any, ...] | None:
        return next(iter(self._common("newest_run", id=schedule_id)), None)

    def upcoming(self, limit: int) -> list[int]:
        return [row[0] for row in self._common("upcoming", limit=limit)]

    def events_before(self, event_id: int, limit: int) -> list[StoredEvent]:
        return [StoredEvent(*row) for row in self._common("events_before", before=event_id, limit=limit)]

    def worker_of(self, run_id: int, epoch: int) -> str | None:
        """The identity of the worker that started an attempt."""
        rows = self._common("worker_of", run_id=run_id, epoch=epoch)
        return rows[0][0] if rows else None


def _token(row: tuple[Any, ...]) -> Token:
    found = Token(*row)
    rights: Any = found.rights
    return found if rights is None else found._replace(rights=tuple(orjson.loads(rights)))
