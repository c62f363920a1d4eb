"""What a kind of destination is: the settings that it needs, and how it sends a message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple
from urllib.parse import urlsplit

from matins.delivery.texts import NoticeText
from matins.executors.secrets import resolve
from matins.model.access import Person
from matins.model.destination import Destination, Smtp
from matins.net.outbound import HttpClient, Response
from matins.plugins import installed

DESTINATIONS = "matins.destinations"
TIMEOUT_S = 15


class NotDelivered(Exception):  # noqa: N818 - it names what happened
    """A message did not arrive. `gone`: the destination no longer exists. `retry`: another attempt may help."""

    def __init__(self, reason: str, *, gone: bool = False, retry: bool = True, after_ms: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.gone = gone
        self.retry = retry
        self.after_ms = after_ms
        """How long the destination wants to be left alone."""


class Address(NamedTuple):
    """Where a message goes: the settings of the destination with their secrets, and what all share."""

    destination: Destination
    smtp: Smtp
    now: int
    person: Person | None = None

    @property
    def to(self) -> tuple[str, ...]:
        """The recipients; without any, the address of the destination's person."""
        named = tuple(resolve(name, "to") for name in self.destination.to)
        mail = None if self.person is None else self.person.email
        return named or (() if mail is None else (mail,))

    @property
    def url(self) -> str:
        return resolve(self.destination.url or "", "url")

    @property
    def token(self) -> str | None:
        return None if self.destination.token is None else resolve(self.destination.token, "token")


@dataclass(frozen=True)
class DestinationKind:
    name: str
    help: str
    send: Callable[[Address, NoticeText], None]
    """Sends the message. Raises NotDelivered when it does not arrive."""
    needs: tuple[str, ...] = ()
    """Settings of the destination without which it cannot send."""
    check: Callable[[Destination], None] = lambda destination: None
    """Raises InvalidInput for settings that this kind cannot use."""
    url_kind: str = "http"
    """What `url` is: the address of an HTTP server, or something that the kind reads itself."""


@cache
def destination_kinds() -> dict[str, DestinationKind]:
    """Kinds of destinations by name."""
    return {kind.name: kind for kind in installed(DESTINATIONS).values()}


def post(url: str, body: bytes, headers: dict[str, str], *, method: str = "POST") -> Response:
    """Send a request to the host that the owner named. Raises NotDelivered unless it answers 2xx."""
    answer = HttpClient([urlsplit(url).netloc], timeout_s=TIMEOUT_S).send(method, url, body=body, headers=headers)
    if 200 <= answer.status < 300:
        return answer
    if answer.status == 429:
        raise NotDelivered("the destination answered 429", after_ms=_retry_after(answer.headers.get("retry-after")))
    if answer.status in (404, 410):
        raise NotDelivered(f"the destination answered {answer.status}: it is gone", gone=True)
    refused = 400 <= answer.status < 500 and answer.status not in (401, 403, 408, 425)
    raise NotDelivered(f"the destination answered {answer.status}", retry=not refused)


def _retry_after(header: str | None) -> int:
    try:
        return min(3_600_000, max(0, round(float(header or "0") * 1000)))
    except ValueError:  # a date: the usual delay is as good
        return 0


def text_of(message: NoticeText, *, code: tuple[str, str] = ("", "")) -> str:
    """The message without its title, in plain text; `code` surrounds the output."""
    parts = [message.text]
    if message.output:
        parts.append(f"{code[0]}{message.output}{code[1]}")
    parts += ["\n".join(message.commands), message.link or ""]
    return "\n\n".join(part for part in parts if part)
