"""Use cases on threads: conversations with agents."""

from __future__ import annotations

import builtins
from dataclasses import dataclass

from matins.api.results import Message, Thread
from matins.engine.when.triggers import to_datetime
from matins.errors import NotFound
from matins.model import thread as model
from matins.model.access import Principal
from matins.service.core import MAX_ID, Core


@dataclass(frozen=True)
class Threads:
    core: Core

    def list(self, principal: Principal, *, before: int | None = None, limit: int = 100) -> builtins.list[Thread]:
        with self.core.store.reading() as transaction:
            found = transaction.threads(MAX_ID if before is None else before, limit)
        return [thread_result(thread) for thread in found]

    def messages(
        self, principal: Principal, thread_id: int, *, after: int | None = None, limit: int = 100
    ) -> builtins.list[Message]:
        with self.core.store.reading() as transaction:
            if transaction.thread(thread_id) is None:
                raise NotFound(f"There is no thread {thread_id}.", value=thread_id, field="thread")
            found = transaction.messages(thread_id, after or 0, limit)
        return [_message_result(message) for message in found]


def thread_result(thread: model.Thread) -> Thread:
    return Thread(
        id=str(thread.id),
        agent=thread.agent,
        channel=thread.channel,
        session=thread.session,
        session_name=thread.session_name,
        state=thread.state,
        tokens=list(thread.usage[:3]),
        created_at=to_datetime(thread.created_at),
        updated_at=to_datetime(thread.updated_at),
    )


def _message_result(message: model.Message) -> Message:
    return Message(
        id=str(message.id),
        thread_id=str(message.thread_id),
        run_id=None if message.run_id is None else str(message.run_id),
        role=message.role,
        text=message.text,
        at=to_datetime(message.at),
    )
