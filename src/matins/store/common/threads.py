"""Threads, their messages and their runs, in SQL that both stores share."""

from __future__ import annotations

from typing import Any

import orjson

from matins.model.thread import Message, Thread, ThreadAssignment
from matins.store.common.statements import Statements


class ThreadQueries(Statements):
    def insert_thread(
        self, agent: str, channel: str | None, session: str | None, session_name: str | None, now: int
    ) -> int:
        values = {"agent": agent, "channel": channel, "session": session, "session_name": session_name, "now": now}
        return self._value("insert_thread", state="waiting", **values)

    def thread(self, thread_id: int) -> Thread | None:
        return _first(self._all("thread", id=thread_id))

    def lock_thread(self, thread_id: int) -> Thread | None:
        self._all("lock_thread", id=thread_id)
        return self.thread(thread_id)

    def channel_thread(self, agent: str, channel: str) -> Thread | None:
        return _first(self._all("channel_thread", agent=agent, channel=channel))

    def channel_session(self, agent: str, channel: str) -> tuple[str | None, str | None]:
        return next(iter(self._all("channel_session", agent=agent, channel=channel)), (None, None))

    def session_thread(self, agent: str, session: str) -> Thread | None:
        return _first(self._all("session_thread", agent=agent, session=session))

    def threads(self, before: int, limit: int) -> list[Thread]:
        return [_thread(row) for row in self._all("threads", before=before, limit=limit)]

    def set_thread(
        self, thread_id: int, state: str, now: int, session: str | None = None, usage: tuple[int, ...] | None = None
    ) -> None:
        text = None if usage is None else orjson.dumps(usage).decode()
        self._all("set_thread", id=thread_id, state=state, session=session, usage=text, now=now)

    def assign_thread(self, run_id: int, thread_id: int, how: str) -> None:
        self._all("assign_thread", run_id=run_id, thread_id=thread_id, how=how)

    def unassign_thread(self, run_id: int) -> None:
        self._all("unassign_thread", run_id=run_id)

    def clear_session(self, thread_id: int, state: str) -> None:
        self._all("clear_session", id=thread_id, state=state)

    def thread_assignment(self, run_id: int) -> ThreadAssignment | None:
        for number, how, *thread in self._all("thread_assignment", run_id=run_id):
            return ThreadAssignment(number, _thread(thread), how)
        return None

    def adopt(self, run_id: int, epoch: int, owner: int) -> bool:
        return bool(self._all("adopt", run_id=run_id, epoch=epoch, owner=owner))

    def run_in_thread(self, thread_id: int, run_id: int) -> int | None:
        return self._value("run_in_thread", id=thread_id, run_id=run_id)

    def insert_message(self, thread_id: int, run_id: int | None, role: str, text: str, at: int) -> None:
        self._all("insert_message", thread_id=thread_id, run_id=run_id, role=role, text=text, at=at)

    def messages(self, thread_id: int, after: int, limit: int) -> list[Message]:
        return self._rows(Message, "messages", id=thread_id, after=after, limit=limit)

    def last_messages(self, thread_id: int, limit: int) -> list[Message]:
        return self._rows(Message, "last_messages", id=thread_id, limit=limit)[::-1]


def _first(rows: list[Any]) -> Thread | None:
    return _thread(rows[0]) if rows else None


def _thread(row: Any) -> Thread:
    thread: Any = Thread(*row)
    return thread._replace(usage=tuple(orjson.loads(thread.usage)) if thread.usage else (0, 0, 0, 0))
