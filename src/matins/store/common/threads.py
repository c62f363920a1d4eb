"""Threads, their messages and their runs, in SQL that both stores share."""

from __future__ import annotations

from typing import Any

import orjson

from matins.model.thread import Landing, Message, Thread


class Threads:
    """Part of a transaction. The store implements `_common`, which runs a named query."""

    def _common(self, query: str, /, **values: Any) -> list[Any]:
        raise NotImplementedError

    def insert_thread(
        self, agent: str, channel: str | None, session: str | None, session_name: str | None, now: int
    ) -> int:
        values = {"agent": agent, "channel": channel, "session": session, "session_name": session_name, "now": now}
        return self._common("insert_thread", state="waiting", **values)[0][0]

    def thread(self, thread_id: int) -> Thread | None:
        return _first(self._common("thread", id=thread_id))

    def locked_thread(self, thread_id: int) -> Thread | None:
        self._common("lock_thread", id=thread_id)
        return self.thread(thread_id)

    def channel_thread(self, agent: str, channel: str) -> Thread | None:
        return _first(self._common("channel_thread", agent=agent, channel=channel))

    def channel_session(self, agent: str, channel: str) -> tuple[str | None, str | None]:
        rows = self._common("channel_session", agent=agent, channel=channel)
        return (rows[0][0], rows[0][1]) if rows else (None, None)

    def session_thread(self, agent: str, session: str) -> Thread | None:
        """The thread of a session, by the tool's id or by its name."""
        return _first(self._common("session_thread", agent=agent, session=session))

    def threads(self, before: int, limit: int) -> list[Thread]:
        return [_thread(row) for row in self._common("threads", before=before, limit=limit)]

    def set_thread(
        self, thread_id: int, state: str, now: int, session: str | None = None, tokens: tuple[int, ...] | None = None
    ) -> None:
        text = None if tokens is None else orjson.dumps(tokens).decode()
        self._common("set_thread", id=thread_id, state=state, session=session, tokens=text, now=now)

    def land(self, run_id: int, thread_id: int, how: str) -> None:
        self._common("land", run_id=run_id, thread_id=thread_id, how=how)

    def unland(self, run_id: int) -> None:
        self._common("unland", run_id=run_id)

    def forget_session(self, thread_id: int, state: str) -> None:
        self._common("forget_session", id=thread_id, state=state)

    def landing(self, run_id: int) -> Landing | None:
        rows = self._common("landing", run_id=run_id)
        return Landing(rows[0][0], _thread(rows[0][2:]), rows[0][1]) if rows else None

    def adopt(self, run_id: int, epoch: int, owner: int) -> bool:
        return bool(self._common("adopt", run_id=run_id, epoch=epoch, owner=owner))

    def in_thread(self, thread_id: int, run_id: int) -> int | None:
        """Another run that is active in the thread."""
        rows = self._common("in_thread", id=thread_id, run_id=run_id)
        return rows[0][0] if rows else None

    def insert_message(self, thread_id: int, run_id: int | None, role: str, text: str, at: int) -> None:
        self._common("insert_message", thread_id=thread_id, run_id=run_id, role=role, text=text, at=at)

    def messages(self, thread_id: int, after: int, limit: int) -> list[Message]:
        return [Message(*row) for row in self._common("messages", id=thread_id, after=after, limit=limit)]

    def last_messages(self, thread_id: int, limit: int) -> list[Message]:
        return [Message(*row) for row in reversed(self._common("last_messages", id=thread_id, limit=limit))]


def _first(rows: list[Any]) -> Thread | None:
    return _thread(rows[0]) if rows else None


def _thread(row: Any) -> Thread:
    number, agent, channel, session, session_name, state, tokens, created_at, updated_at = row
    used = tuple(orjson.loads(tokens)) if tokens else (0, 0, 0)
    return Thread(number, agent, channel, session, session_name, state, used, created_at, updated_at)
