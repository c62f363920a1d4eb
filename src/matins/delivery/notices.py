"""Brings messages about incidents to their destinations, and pings to the URLs of schedules."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import orjson

from matins.delivery.decisions import MAX_PING_ATTEMPTS, Action
from matins.delivery.destinations import Address, NotDelivered, destination_kinds
from matins.delivery.incidents import DIGEST, subject_of
from matins.delivery.subscribers import DeliveryQueue, DeliveryResult, EventDelivery
from matins.delivery.texts import NoticeText, digest_of, last_lines, message_of
from matins.engine.events import PING_EVENTS, Ping
from matins.engine.policies import Policies
from matins.errors import MatinsError
from matins.model.clock import Clock
from matins.model.destination import Destination
from matins.model.event import destination_of
from matins.model.words import joined
from matins.net.outbound import AddressRefused, HttpClient, Unreachable
from matins.store import Store

_PING_TIMEOUT_S = 10
_MAX_PING_BYTES = 10_000
_ACTIONS: dict[str, Action] = {
    "incident.opened": "opened", "incident.reminded": "reminded", "incident.resolved": "resolved",
}  # fmt: skip
Tail = Callable[[int], str]
"""The end of the output of a run; empty when there is none on this machine."""


def no_output(run_id: int) -> str:
    return ""


def no_url() -> str | None:
    return None


class Notices:
    """Sends the messages of one destination at a time. What the message says is read when it is sent."""

    def __init__(
        self, store: Store, clock: Clock, tail: Tail = no_output, base_url: Callable[[], str | None] = no_url
    ) -> None:
        self._store = store
        self._clock = clock
        self._tail = tail
        self._base_url = base_url

    def __call__(self, queue: DeliveryQueue, delivery: EventDelivery) -> DeliveryResult:
        name = destination_of(str(queue.subscriber.key))
        destination = queue.policies.destinations.get(name or "")
        message = self._message(delivery)
        if destination is None or message is None:
            return DeliveryResult()  # the destination or the incident was deleted
        keyed = message._replace(key=self._key(delivery, destination))
        return deliver(address_of(destination, queue.policies, self._clock.now_ms()), keyed)

    def _key(self, delivery: EventDelivery, destination: Destination) -> str:
        return uuid.uuid5(uuid.NAMESPACE_OID, f"{self._store.store_id}:{delivery.event.id}:{destination.name}").hex

    def _message(self, delivery: EventDelivery) -> NoticeText | None:
        event = delivery.event
        data: dict[str, Any] = orjson.loads(event.data or b"{}")
        if event.type == DIGEST:
            return digest_of(data["titles"], event.at)
        with self._store.reading() as transaction:
            incident = transaction.incident(int(data["incident"]))
            subject = None if incident is None else subject_of(transaction, incident)
        if incident is None or subject is None:
            return None
        # The message says what was so when it was decided, however late it arrives.
        told = incident._replace(
            times=data["count"],
            summary=data["summary"],
            quote=data.get("quote"),
            error=data.get("error"),
            run_id=event.run_id,
        )
        output = "" if event.run_id is None else self._tail(event.run_id)
        return message_of(_ACTIONS[event.type], told, subject, event.at, output=output, base_url=self._base_url())


def address_of(destination: Destination, policies: Policies, now: int) -> Address:
    return Address(destination, policies.smtp, now, policies.people.get(destination.person or ""))


def deliver(address: Address, message: NoticeText) -> DeliveryResult:
    """Send a message to a destination. Whatever happens there changes nothing here."""
    kind = destination_kinds().get(address.destination.kind)
    if kind is None:
        return DeliveryResult("refused", f"there is no kind of destination {address.destination.kind}")
    try:
        kind.send(address, message)
    except NotDelivered as error:
        verdict = "gone" if error.gone else "again" if error.retry else "refused"
        return DeliveryResult(verdict, error.reason, after_ms=error.after_ms)
    except AddressRefused as error:
        return DeliveryResult("refused", error.message)
    except MatinsError as error:
        return DeliveryResult("again", error.message)
    return DeliveryResult()


def trial_message(destination: Destination) -> NoticeText:
    """What `matins notify test` sends."""
    text = f'This is a test of the destination "{destination.name}". Incidents of your schedules arrive here.'
    return NoticeText(
        "✓ Matins can reach you", text, commands=("matins incidents",), level="good", facts={"action": "test"}
    )


class Pings:
    """Calls the URL of a schedule when its runs start and end, in the way of Healthchecks."""

    def __init__(self, store: Store, tail: Tail = no_output) -> None:
        self._store = store
        self._tail = tail

    def __call__(self, queue: DeliveryQueue, delivery: EventDelivery) -> DeliveryResult:
        compiled, run = delivery.compiled, delivery.run
        if compiled is None or run is None or run.backfill is not None or compiled.definition.ping is None:
            return DeliveryResult()  # the run was pruned, or its schedule has no URL any more
        what = PING_EVENTS[delivery.event.type]
        if compiled.definition.ping_style == "plain" and what != "success":
            return DeliveryResult()
        url = ping_url(compiled.definition.ping, what, self._store.store_id, run.id, compiled.definition.ping_style)
        body = self._body(delivery, run.id) if what == "fail" else b""  # what an agent answers stays here
        return self._call(url, body, last=delivery.attempts + 1 >= MAX_PING_ATTEMPTS)

    def _body(self, delivery: EventDelivery, run_id: int) -> bytes:
        data: dict[str, Any] = orjson.loads(delivery.event.data or b"{}")
        summary = joined(data.get("summary", ""), data.get("quote"))
        return f"{summary}\n{last_lines(self._tail(run_id))}".strip().encode()[:_MAX_PING_BYTES]

    def _call(self, url: str, body: bytes, *, last: bool) -> DeliveryResult:
        client = HttpClient([urlsplit(url).netloc], timeout_s=_PING_TIMEOUT_S)
        try:
            status = client.send("POST", url, body=body, headers={"content-type": "text/plain"}).status
        except AddressRefused as error:
            return DeliveryResult("refused", error.message)
        except Unreachable as error:
            return DeliveryResult("refused" if last else "again", error.message)
        if 200 <= status < 300:
            return DeliveryResult()
        return DeliveryResult("refused" if last else "again", f"the server answered {status}")


def ping_url(url: str, what: Ping, store_id: str, run_id: int, style: str) -> str:
    """`URL/start`, `URL` or `URL/fail`, with an id that belongs to the run."""
    if style == "plain":
        return url
    path, _, query = url.partition("?")
    end = {"start": "/start", "fail": "/fail", "success": ""}[what]
    rid = f"rid={uuid.uuid5(uuid.NAMESPACE_OID, f'{store_id}:{run_id}')}"
    return f"{path.rstrip('/')}{end}?{f'{query}&' if query else ''}{rid}"
