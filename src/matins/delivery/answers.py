"""Brings the answers of runs to their destinations, and into the threads of chats: once, or twice and said so.

A part is marked as being sent before it leaves. What is marked and was not confirmed may have arrived: it is repeated
under its key where the channel recognises that, else once more with a note; then it counts as unconfirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

import msgspec
import orjson

from matins.delivery.decisions import next_delivery_at
from matins.delivery.destinations import (
    Address,
    Answer,
    AnswerFile,
    NotDelivered,
    Part,
    Receipt,
    destination_kinds,
    part_key,
    parts_of,
    send_part,
)
from matins.delivery.notices import address_of, no_url
from matins.delivery.subscribers import (
    LATEST_MS,
    DeliveryQueue,
    DeliveryResult,
    QueueResults,
    StoredSubscriber,
    Turn,
    storable_text,
)
from matins.delivery.texts import span_text
from matins.engine.answers import DIGEST, FAILED, answer_text, waits_until
from matins.engine.calls import mapping_of
from matins.engine.money import format_money
from matins.engine.reasons import run_summary
from matins.engine.when.definitions import instant_text
from matins.engine.when.durations import HOUR_MS
from matins.model.clock import Clock
from matins.model.destination import FINAL, THREAD, AnswerRow
from matins.model.event import destination_of
from matins.model.rows import NewEvent
from matins.model.run import RunRecord
from matins.model.words import counted
from matins.runtime.catalog import Catalog, CompiledSchedule, run_record
from matins.runtime.run_changes import ThreadInChat, chat_place
from matins.store import Store
from matins.store.transaction import Transaction

_MAX_LEFT_OUT = 10
_MAX_DIGEST = 50
"""Maximum number of answers in a digest."""


class ThreadChannel(Protocol):
    """A chat service, as it posts the answers of runs into their threads.

    A service registers itself under its name while it is connected: `matins.post_answers("slack", channel)`, where
    `matins` is the `Scheduler` of its part; the result ends the registration. The core decides in the transaction that
    ends a run whether its answer belongs into a thread of the service, keeps it as destination `thread:slack`, and
    calls `parts` and `post` from a thread of the outbox: in order for each schedule, with back-off and 20 attempts, as
    for other destinations. `ChatChannels` (entry point `matins.chat_channels`) says which channels are its own.
    """

    title: str
    """`Slack`, in sentences."""
    keyed: bool
    """Whether a part that is sent twice under one key is recognised."""

    def parts(self, where: ThreadInChat, answer: Answer) -> list[Part]:
        """Render an answer, without I/O. With `answer.again`, the text says that a copy may have arrived before."""
        ...

    def post(self, where: ThreadInChat, part: Part, key: str) -> Receipt:
        """Post a part. Without `where.location`, it is in no thread yet, and begins one in `where.place.channel`:
        the service keeps its place with `set_place(where.thread_id, …)`, so that the next answer goes there too.
        `part.first` is the receipt of the first part. Raises NotDelivered, with `sent` if it may have arrived."""
        ...


class AnswerDelivery(NamedTuple):
    """An answer for a destination, or all those of a digest."""

    rows: tuple[AnswerRow, ...]

    @property
    def schedule_id(self) -> int:
        return 0 if self.rows[0].digest_at else self.rows[0].schedule_id

    @property
    def label(self) -> str:
        return f"The answer of run {self.rows[0].run_id}"


class AnswerSubscriber(StoredSubscriber):
    """The subscription that brings answers to one destination. It reads no events: the rows are what waits."""

    @property
    def _name(self) -> str:
        return destination_of(self.subscription.name) or ""

    def match_events(self, turn: Turn) -> bool:
        if self._lease(turn) and not self.checked:
            turn.transaction.advance_answers(self._name, turn.now, turn.now + LATEST_MS)
            self.checked = True
        return False

    def queues(self, turn: Turn, under_way: set[int]) -> list[DeliveryQueue]:
        free = _MAX_QUEUES - len(under_way)
        if not self._ours or free <= 0:
            return []
        rows = turn.transaction.due_answers(self._name, turn.now, _MAX_QUEUES)
        due = [(row,) for row in rows if row.schedule_id not in under_way and not self._put_off(turn, row)]
        told = turn.transaction.digest_answers(self._name, turn.now, _MAX_DIGEST) if 0 not in under_way else []
        found = [AnswerDelivery(some) for some in ([*due, tuple(told)] if told else due)][:free]
        return [DeliveryQueue(self, "answer", one.schedule_id, self._target, (one,), turn.policies) for one in found]

    def _put_off(self, turn: Turn, row: AnswerRow) -> bool:
        """Let an answer wait for the end of quiet hours, or for a digest. One that was begun continues."""
        destination = turn.policies.destinations.get(self._name)
        if destination is None or row.parts is not None:
            return False
        since, kind = turn.now - HOUR_MS, destination_kinds().get(destination.kind)
        sent = turn.transaction.answers_sent_since(self._name, since) + turn.transaction.sent_since(self._name, since)
        limited = kind is None or kind.limited
        waits = waits_until(destination, turn.policies, sent, turn.now, limited=limited)
        if waits is None:
            return False
        reason, until = waits
        if reason == DIGEST:
            until = turn.transaction.next_digest_of(self._name) or until
        digest_at = until if reason == DIGEST else None
        turn.transaction.set_answer(row._replace(reason=reason, next_at=until, digest_at=digest_at))
        return True

    def record(self, turn: Turn, sent: QueueResults) -> None:
        """What has arrived is recorded as soon as it has. Here is when the rest is sent again, if ever."""
        for delivery, result in sent:
            if result.verdict == "arrived":
                continue
            error, name = storable_text(result.error), self.subscription.name
            if result.verdict == "gone" and turn.transaction.set_subscription(name, "paused", error):
                data = {"subscription": name, "by": "matins", "note": error}
                turn.transaction.events.append(NewEvent(turn.now, "subscription.paused", None, None, data))
            for row in _as_they_are(turn.transaction, delivery.rows):
                attempts = row.attempts + 1
                again = None if result.verdict == "refused" else next_delivery_at(name, row.run_id, attempts, turn.now)
                if again is None:
                    _give_up(turn.transaction, row._replace(attempts=attempts, error=error), "discarded", turn.now)
                else:
                    at = max(again, turn.now + result.after_ms)
                    turn.transaction.set_answer(
                        row._replace(state="retrying", reason=None, attempts=attempts, next_at=at, error=error)
                    )

    def next_at(self, turn: Turn) -> int | None:
        return turn.transaction.next_answer(self._name, turn.now) if self._ours else None


_MAX_QUEUES = 4
"""Number of schedules whose answers are sent to one destination at once."""


def _as_they_are(transaction: Transaction, rows: Sequence[AnswerRow]) -> list[AnswerRow]:
    """The rows as they are now, without those that no longer wait, or wait for another copy."""
    found: list[AnswerRow] = []
    for row in rows:
        now = next((one for one in transaction.answers_of(row.run_id) if one[:3] == row[:3]), None)
        if now is not None and now.copy == row.copy and now.next_at is not None:
            found.append(now)
    return found


def _give_up(transaction: Transaction, row: AnswerRow, state: Any, now: int) -> None:
    if transaction.set_answer(row._replace(state=state, next_at=None, reason=None)):
        data = {"destination": row.destination, "number": row.number, "state": state, "error": row.error}
        transaction.events.append(NewEvent(now, "answer.undelivered", row.schedule_id, row.run_id, data))


class Channel(NamedTuple):
    """Where an answer goes: how it is rendered and sent there."""

    title: str
    keyed: bool
    parts: Callable[[Answer], list[Part]]
    send: Callable[[Part, str], Receipt]


def channel_of(address: Address) -> Channel:
    kind = destination_kinds().get(address.destination.kind)
    keyed = kind is not None and kind.keyed
    return Channel(address.destination.kind, keyed, partial(parts_of, address), partial(send_part, address))


class Answers:
    """Sends an answer, part after part. Each step is recorded before the next one."""

    def __init__(self, store: Store, clock: Clock, base_url: Callable[[], str | None] = no_url) -> None:
        self._store = store
        self._clock = clock
        self._base_url = base_url
        self._catalog = Catalog(cache=False)

    def __call__(self, queue: DeliveryQueue, delivery: AnswerDelivery) -> DeliveryResult:
        with self._store.reading() as transaction:
            rows = _as_they_are(transaction, delivery.rows)
            if not rows:
                return DeliveryResult()  # a person had it sent again, or discarded it
            answer = self._digest(transaction, rows) if len(rows) > 1 else self._answer(transaction, rows[0])
            channel = self._channel(transaction, queue, rows[0])
        if channel is None:
            return DeliveryResult("refused", "the destination was deleted")
        if answer is None:
            return DeliveryResult("refused", "the run was deleted")
        try:
            return self._send(channel, _with_files(answer, rows[0].created_at, self._clock.now_ms()), rows)
        except NotDelivered as error:
            verdict = "gone" if error.gone else "again" if error.retry else "refused"
            return DeliveryResult(verdict, error.reason, after_ms=error.after_ms)

    def _channel(self, transaction: Transaction, queue: DeliveryQueue, row: AnswerRow) -> Channel | None:
        if not row.destination.startswith(f"{THREAD}:"):
            found = queue.policies.destinations.get(row.destination)
            return None if found is None else channel_of(address_of(found, queue.policies, self._clock.now_ms()))
        run = transaction.run(row.run_id)
        compiled = None if run is None else self._catalog.find(transaction, (run.schedule_id, run.rev, run.step))
        if not isinstance(compiled, CompiledSchedule):
            return None
        where = chat_place(transaction, queue.policies, row.run_id, compiled.definition)
        service: ThreadChannel = queue.target
        return Channel(service.title, service.keyed, partial(service.parts, where), partial(service.post, where))

    # -- sending

    def _send(self, channel: Channel, answer: Answer, rows: Sequence[AnswerRow]) -> DeliveryResult:
        """Send the parts that are left. Raises NotDelivered when one does not arrive, and is sent again later."""
        first = rows[0]
        parts = channel.parts(answer)
        for number in range(first.parts_sent, len(parts)):
            repeats = first.sending == number
            if repeats and first.again and not channel.keyed:
                rows = self._save(rows, parts_sent=number + 1, sending=None, again=0, lost=first.lost + 1)
            else:
                again = repeats and not channel.keyed
                rows = self._save(rows, parts=len(parts), sending=number, again=int(again))
                part = channel.parts(answer._replace(again=True))[number] if again else parts[number]
                rows = self._send_part(channel, part._replace(first=first.receipt), rows)
            if not rows:
                return DeliveryResult()  # a person discarded it, or sends it again
            first = rows[0]
        self._conclude(rows)
        return DeliveryResult()

    def _send_part(self, channel: Channel, part: Part, rows: Sequence[AnswerRow]) -> Sequence[AnswerRow]:
        row = rows[0]
        number = row.sending or 0
        kept = row.number if row.digest_at is None else -1
        key = part_key(self._store.store_id, row.run_id, kept, number, row.copy)
        try:
            receipt = channel.send(part, key)
        except NotDelivered as error:
            if not error.sent:
                self._save(rows, sending=None, again=0)
            elif row.again:  # lost again: the parts behind it are sent all the same
                text = storable_text(error.reason)
                return self._save(rows, parts_sent=number + 1, sending=None, again=0, lost=row.lost + 1, error=text)
            raise
        told = receipt.problem if receipt.problem is not None or not row.lost else row.error
        sent = {"parts_sent": number + 1, "sending": None, "again": 0, "receipt": row.receipt or receipt.id}
        return self._save(rows, **sent, error=storable_text(told))

    def _save(self, rows: Sequence[AnswerRow], **changed: Any) -> list[AnswerRow]:
        """The rows with these changes, which are durable. None of those that no longer wait."""
        with self._store.transaction(self._clock.now_ms()) as transaction:
            made = [row._replace(**changed) for row in rows]
            return [row for row in made if transaction.set_answer(row)]

    def _conclude(self, rows: Sequence[AnswerRow]) -> None:
        now = self._clock.now_ms()
        with self._store.transaction(now) as transaction:
            for row in rows:
                if row.lost:
                    _give_up(transaction, row, "unconfirmed", now)
                    continue
                arrived = row._replace(state="delivered", reason=None, next_at=None, sent_at=now)
                if transaction.set_answer(arrived):
                    data = {"destination": row.destination, "number": row.number}
                    transaction.events.append(NewEvent(now, "answer.delivered", row.schedule_id, row.run_id, data))

    # -- what is sent

    def _answer(self, transaction: Transaction, row: AnswerRow) -> Answer | None:
        found = transaction.run(row.run_id)
        if found is None:
            return None
        run = run_record(found)
        base, cost = self._base_url(), _cost(transaction, run)
        took = None if run.ended_at is None or run.started_at is None else span_text(run.ended_at - run.started_at)
        compiled = self._catalog.find(transaction, (run.schedule_id, run.rev, run.step))
        zone = compiled.definition.trigger.timezone if isinstance(compiled, CompiledSchedule) else "UTC"
        agent = compiled.agent if isinstance(compiled, CompiledSchedule) else ""
        failed = run.state in FAILED
        text = answer_text(run.outcome) if row.text is None else row.text
        if failed and row.number == FINAL:
            text = "\n\n".join(filter(None, [run_summary(run, zone).joined, text]))
        return Answer(
            title=row.title or f"{'✗' if failed else '✓' if row.number == FINAL else '·'} {run.schedule}",
            text=text,
            foot=" · ".join(filter(None, [f"run {run.id}", took, cost])),
            link=None if base is None else f"{base.rstrip('/')}/runs/{run.id}",
            files=_files(row, run),
            notes=_left_out(row, run),
            facts={
                "run_id": str(run.id),
                "number": row.number,
                "schedule": run.schedule,
                "agent": agent,
                "state": run.state.label,
                "cost": cost,
                "slot": None if run.slot is None else instant_text(run.slot),
                "ended_at": None if run.ended_at is None else instant_text(run.ended_at),
                "timezone": zone,
            },
        )

    def _digest(self, transaction: Transaction, rows: Sequence[AnswerRow]) -> Answer:
        """The answers above the limit of an hour, as one message with links."""
        found = [answer for row in rows if (answer := self._answer(transaction, row)) is not None]
        lines = [
            f"- {answer.title} ({answer.foot})" if answer.link is None else f"- [{answer.title}]({answer.link})"
            for answer in found
        ]
        base = self._base_url()
        return Answer(
            title=counted(len(rows), "answer"),
            text="\n".join(lines),
            foot="above the limit of an hour",
            link=None if base is None else f"{base.rstrip('/')}/runs",
            facts={"runs": [answer.facts["run_id"] for answer in found]},
        )


def _cost(transaction: Transaction, run: RunRecord) -> str | None:
    spent = transaction.spent_by([run.id])
    return format_money(spent[0].money) if spent and spent[0].money else None


def _files(row: AnswerRow, run: RunRecord) -> tuple[AnswerFile, ...]:
    """The files of a message, or those that the run attached to its answer."""
    if row.files is not None:
        return tuple(AnswerFile(**file) for file in orjson.loads(row.files))
    try:
        listed = [[file[name] for name in AnswerFile._fields] for file in _attached(row, run, "files")]
        return tuple(msgspec.convert(listed, list[AnswerFile]))
    except (msgspec.ValidationError, LookupError, TypeError):  # a job returned something of its own under this name
        return ()


def _left_out(row: AnswerRow, run: RunRecord) -> tuple[str, ...]:
    reasons = _attached(row, run, "left_out")
    listed = cast("list[Any]", reasons) if isinstance(reasons, list) else []
    return tuple(f"Not attached: {reason}." for reason in listed[:_MAX_LEFT_OUT])


def _attached(row: AnswerRow, run: RunRecord, what: str) -> Any:
    found: Any = run.outcome if row.number == FINAL else None
    return mapping_of(mapping_of(found).get("result")).get(what) or []


def _with_files(answer: Answer, since: int, now: int) -> Answer:
    """The answer with the files that are on this machine. For others it waits an hour, then goes without them."""
    missing = [file.name for file in answer.files if not Path(file.path).exists()]
    if not missing:
        return answer
    if now < since + HOUR_MS:
        raise NotDelivered(f"files of the answer are not on this machine: {', '.join(missing)}")
    notes = (*answer.notes, f"Not sent, because they are on another machine: {', '.join(missing)}.")
    files = tuple(file for file in answer.files if file.name not in missing)
    return answer._replace(files=files, notes=notes)
