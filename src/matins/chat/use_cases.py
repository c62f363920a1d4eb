"""What chat needs of the store: people, drafts, posted messages, and the places of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import orjson

from matins.api.use_case import Caller
from matins.chat._rows import ChatRows
from matins.chat.messages import ChatMessage, dump, load
from matins.chat.rows import ChatPost, DraftRow
from matins.chat.settings import CHAT, ChatApp, Service
from matins.engine.reasons import run_summary
from matins.engine.when.durations import DAY_MS
from matins.errors import InvalidInput
from matins.executors.secrets import resolve
from matins.model.access import ChatBot, Principal
from matins.model.call import ANY_CHANNEL
from matins.model.clock import Clock
from matins.runtime.catalog import Catalog, run_record, schedule_record
from matins.service.idempotency import RETENTION_MS, IdempotencyStore, StoredResponse
from matins.service.tokens import hash_of, person_in_chat, principal_of
from matins.store import Store

_POSTS_KEPT_MS = 90 * DAY_MS
_SWEEP_MS = 3_600_000
_SEEN, _DONE = "chat", 200


class ChatPerson(NamedTuple):
    """The author of a message: the principal, and the time zone in which times are written."""

    principal: Principal
    zone: str

    @property
    def name(self) -> str:
        return self.principal.name


class Skipped(NamedTuple):
    """A run whose target is gone: where it was to be, and the sentence of why it was skipped."""

    channel: str | None
    reason: str


class ChatRecords:
    """Reads and writes the records of a chat. `caller` calls use cases as the author of the message."""

    def __init__(self, caller: Caller, store: Store, clock: Clock, service: Service) -> None:
        self.caller = caller
        self.clock = clock
        self.service: Service = service
        self._store = store
        self._catalog = Catalog(cache=False)
        self._requests = IdempotencyStore(store, clock)
        self._next_sweep = 0

    # -- settings and people

    def app(self) -> ChatApp | None:
        with self._store.reading() as transaction:
            policies = self._catalog.policies(transaction)
            return CHAT.storage.read(CHAT, transaction, policies).get(self.service)

    def secret(self, app: ChatApp, name: str) -> str | None:
        """The value of a token. Raises InvalidInput when it cannot be read, or is empty."""
        reference: str | None = getattr(app, name)
        if reference is None:
            return None
        value = resolve(reference, f'"{name}" of chat {app.service}')
        if not value:
            hint = "Set the variable, or write the file."
            raise InvalidInput(f'"{name}" of chat {app.service} is empty.', value=reference, field=name, hint=hint)
        return value

    def person(self, user: str) -> ChatPerson | None:
        """The person with this id in the service; None for everyone who is not mapped."""
        with self._store.reading() as transaction:
            found = person_in_chat(self._catalog.policies(transaction), self.service, user)
        return None if found is None else ChatPerson(principal_of(found), found.timezone or self.clock.local_zone())

    def set_bot(self, name: str | None, problem: str | None) -> None:
        """Remember what the connection knows of the bot, for doctor and for links."""
        with self._store.transaction(self.clock.now_ms()) as transaction:
            transaction.set_chat_bot(ChatBot(self.service, name, problem))

    def delete_bot(self) -> None:
        with self._store.transaction(self.clock.now_ms()) as transaction:
            transaction.delete_chat_bot(self.service)

    def linked(self, code: str) -> str | None:
        """The person whose code it is, which is used now; None when it is unknown, used or expired."""
        now = self.clock.now_ms()
        with self._store.transaction(now) as transaction:
            return transaction.take_chat_link(self.service, hash_of(code), now)

    @property
    def principal(self) -> Principal:
        """Who fires the calls of messages. Their senders are checked before."""
        return Principal("operator", self.service, rights=frozenset({"operate"}), kind="chat")

    def listens(self, channel: str) -> bool:
        """Whether a schedule listens to the messages of a channel."""
        with self._store.reading() as transaction:
            return any(transaction.listeners("chat", name, "") for name in (channel, ANY_CHANNEL))

    # -- what was heard and said

    def accept(self, key: str, *, again: bool) -> bool:
        """Whether a message is new, or, with `again`, was not finished. A message that is repeated is heard once."""
        now = self.clock.now_ms()
        with self._store.transaction(now) as transaction:
            if now >= self._next_sweep:
                transaction.delete_requests(now - RETENTION_MS)
                self._next_sweep = now + _SWEEP_MS
            if transaction.begin_request(_SEEN, f"{self.service}:{key}", "", now):
                return True
            known = transaction.idempotent_request(_SEEN, f"{self.service}:{key}") if again else None
            return known is not None and known.status is None

    def finish(self, key: str) -> None:
        """Remember that a message was answered."""
        with self._store.transaction(self.clock.now_ms()) as transaction:
            transaction.store_response(_SEEN, f"{self.service}:{key}", _DONE, "")

    def once(self, principal: Principal, key: str, answer: Callable[[], ChatMessage]) -> ChatMessage:
        """What a message does and the answer to it, in one transaction: a repetition does nothing, and is answered the
        same."""
        made = self._requests.once(
            principal, f"{self.service}:{key}", "", answer, lambda message: StoredResponse(_DONE, dump(message))
        )
        return load(made.body) if isinstance(made, StoredResponse) else made

    def draft(self, place: str, person: str) -> dict[str, Any] | None:
        now = self.clock.now_ms()
        with self._store.reading() as transaction:
            row = ChatRows(transaction).draft(place, person)
        return None if row is None or row.expires_at <= now else orjson.loads(row.draft)

    def save_draft(self, place: str, person: str, draft: dict[str, Any], lifetime_ms: int) -> None:
        now = self.clock.now_ms()
        with self._store.transaction(now) as transaction:
            rows = ChatRows(transaction)
            rows.delete_drafts(now)
            rows.upsert_draft(DraftRow(place, person, orjson.dumps(draft).decode(), now + lifetime_ms))

    def delete_draft(self, place: str, person: str) -> bool:
        """Whether there was one: of two clicks at once, one finds it."""
        now = self.clock.now_ms()
        with self._store.transaction(now) as transaction:
            rows = ChatRows(transaction)
            row = rows.draft(place, person)
            return rows.delete_draft(place, person) and row is not None and row.expires_at > now

    def draft_place(self, before: str, person: str) -> str | None:
        """The place of the newest draft of a person, among those that begin so."""
        now = self.clock.now_ms()
        with self._store.reading() as transaction:
            return ChatRows(transaction).draft_place(before, person, now)

    def thread_of(self, channel: str, ts: str) -> str | None:
        """The thread that a message of ours belongs to."""
        with self._store.reading() as transaction:
            found = ChatRows(transaction).subject_at(self.service, channel, ts, "thread:%")
        return None if found is None else found.removeprefix("thread:")

    def posts(self, subject: str) -> list[ChatPost]:
        with self._store.reading() as transaction:
            return ChatRows(transaction).posts(self.service, subject)

    def add_post(self, subject: str, channel: str, ts: str, digest: str | None = None) -> None:
        now = self.clock.now_ms()
        with self._store.transaction(now) as transaction:
            rows = ChatRows(transaction)
            rows.delete_posts(now - _POSTS_KEPT_MS)
            rows.insert_post(ChatPost(self.service, subject, channel, ts, digest, None, now))

    def set_post(self, post: ChatPost) -> None:
        with self._store.transaction(self.clock.now_ms()) as transaction:
            ChatRows(transaction).set_post(post)

    # -- threads

    def thread_at(self, place: str) -> int | None:
        with self._store.reading() as transaction:
            return ChatRows(transaction).thread_at(place)

    def thread_for(self, place: str, channel: str, agent: str) -> int:
        """The agent's thread at a place, opened when there is none."""
        now = self.clock.now_ms()
        with self._store.transaction(now) as transaction:
            rows = ChatRows(transaction)
            known = rows.thread_at(place)
            thread = None if known is None else transaction.thread(known)
            if thread is not None and thread.agent == agent and thread.state != "closed":
                return thread.id
            number = transaction.insert_thread(agent, channel, None, None, None, now)
            rows.set_place(number, place)
            return number

    def set_place(self, thread_id: int, place: str) -> None:
        with self._store.transaction(self.clock.now_ms()) as transaction:
            ChatRows(transaction).set_place(thread_id, place)

    def skipped(self, run_id: int) -> Skipped | None:
        """What to say of a run that was skipped; None when the run is deleted, or is a step of another."""
        with self._store.reading() as transaction:
            row = transaction.run(run_id)
            if row is None or row.parent is not None:
                return None
            run, assignment = run_record(row), transaction.thread_assignment(run_id)
            schedule = transaction.schedule(run.schedule_id)
            assert schedule is not None, run.schedule_id
            definition = schedule_record(schedule).definition
        target = None if definition.target is None else definition.target.channel
        channel = target if assignment is None else assignment.thread.channel
        reason = (run.evidence or {}).get("note") or run_summary(run, definition.trigger.timezone).joined
        return Skipped(channel, reason)
