"""What a kind of destination is: the settings that it needs, and how it sends notices and answers.

An answer is rendered in parts (`parts_of`), and each part is sent under a key (`send_part`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import orjson

from matins.delivery.texts import NoticeText, clean_text
from matins.engine.when.durations import HOUR_MS
from matins.errors import InvalidInput, MatinsError
from matins.executors.secrets import resolve
from matins.model.access import Person
from matins.model.destination import Destination, Smtp
from matins.net.outbound import AddressRefused, HttpClient, Response, Unreachable
from matins.plugins import installed

DESTINATIONS = "matins.destinations"
TIMEOUT_S, _UPLOAD_TIMEOUT_S = 15, 120
_MAX_REPLY_BYTES = 512 * 1024
"""Slack repeats the message in its answer, in more characters than it was sent with."""
_LARGE = 100_000
"""A body of so many bytes is a file, and has more time."""
_JOINERS = "\u200c\u200d"
"""Parts of emoji, and of words in Persian and in Indian scripts."""


class NotDelivered(Exception):  # noqa: N818 - it names what happened
    """A message did not arrive. `gone`: the destination no longer exists. `retry`: another attempt may help. `sent`: it
    may have arrived all the same, because only the confirmation is missing."""

    def __init__(
        self, reason: str, *, gone: bool = False, retry: bool = True, after_ms: int = 0, sent: bool = False
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.gone = gone
        self.retry = retry
        self.after_ms = min(after_ms, HOUR_MS)
        """How long the destination wants to be left alone; at most an hour counts."""
        self.sent = sent


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


class AnswerFile(NamedTuple):
    """A file that belongs to an answer, copied into the folder of the run."""

    name: str
    path: str
    size: int
    digest: str
    """SHA-256, in hexadecimal."""
    media_type: str


class Answer(NamedTuple):
    """The answer of a run, as every kind gets it."""

    title: str
    """`✓ morning`."""
    text: str
    """Markdown, as the agent wrote it."""
    foot: str
    """`run 841 · 2 min 12 s · $0.14`."""
    link: str | None
    """The page of the run."""
    files: tuple[AnswerFile, ...] = ()
    facts: Mapping[str, Any] = {}
    """For programs: run_id, number (0 for the answer, 1 and more for messages before it), schedule, agent, state, cost,
    slot, ended_at, timezone."""
    notes: tuple[str, ...] = ()
    """What else must be said: which files are left out, and why."""
    again: bool = False
    """Whether a copy may have arrived before; kinds without keys say so."""


class Part(NamedTuple):
    """One message of an answer."""

    body: Any
    """What the kind's `answer` takes; its `parts` made it."""
    first: str | None = None
    """The receipt's id of the first part, set for the others when they are sent: kinds with threads reply to it."""


class Receipt(NamedTuple):
    """What the destination confirmed."""

    id: str | None
    """Id of the message, of the e-mail, path of the file …; None where there is none."""
    problem: str | None = None
    """What the destination confirmed less than it was asked for."""


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
    parts: Callable[[Address, Answer], list[Part]] | None = None
    """Renders an answer, without I/O. Without it, `send` gets the answer as plain text."""
    answer: Callable[[Address, Part, str], Receipt] | None = None
    """Sends a part under a key: letters, digits and "-". Raises NotDelivered."""
    keyed: bool = False
    """Whether a part that is sent twice under one key is recognised, by the channel or by its receiver."""
    ready: Callable[[Address], None] = lambda address: None
    """Raises InvalidInput while something is missing that no setting of the destination has."""
    limited: bool = True
    """Whether `max_per_hour` applies: people read it."""


@cache
def destination_kinds() -> dict[str, DestinationKind]:
    """Kinds of destinations by name."""
    return {kind.name: kind for kind in installed(DESTINATIONS).values()}


def problem_of(address: Address) -> MatinsError | None:
    """Why nothing can be sent to a destination, as far as its settings show."""
    kind = destination_kinds().get(address.destination.kind)
    if kind is None:
        hint = "Install what adds it, or delete the destination."
        return InvalidInput(f'There is no kind of destination "{address.destination.kind}".', hint=hint)
    try:
        _ = address.to, address.url, address.token  # secrets that cannot be read
        kind.ready(address)
    except MatinsError as error:
        return error
    return None


def part_key(store_id: str, run_id: int, number: int, part: int, copy: int = 0) -> str:
    """The key of a part: the same at each attempt, and another one when a person has it sent again."""
    return f"{store_id}-{run_id}-{number}-{part}" + (f"-{copy}" if copy else "")


def parts_of(address: Address, answer: Answer) -> list[Part]:
    """The messages that the destination gets for an answer. Raises NotDelivered when its kind is not installed."""
    kind, shown = _kind_of(address), _cleaned(answer)
    return [Part(_plain(address, shown))] if kind.parts is None else kind.parts(address, shown)


def send_part(address: Address, part: Part, key: str) -> Receipt:
    """Send a part. Every error of the destination or its settings is a NotDelivered."""
    kind = _kind_of(address)
    try:
        if kind.answer is not None:
            return kind.answer(address, part, key)
        kind.send(address, part.body)
    except AddressRefused as error:
        raise NotDelivered(error.message, retry=False) from error
    except Unreachable as error:
        raise NotDelivered(error.message, sent=error.sent) from error
    except MatinsError as error:
        raise NotDelivered(error.message) from error
    return Receipt(None)


def _kind_of(address: Address) -> DestinationKind:
    kind = destination_kinds().get(address.destination.kind)
    if kind is None:
        raise NotDelivered(f"there is no kind of destination {address.destination.kind}", retry=False)
    return kind


def _cleaned(answer: Answer) -> Answer:
    """The answer without control characters, and without those that hide or turn text."""
    return answer._replace(
        title=clean_text(answer.title),
        text=clean_text(answer.text, keep=f"\n\t{_JOINERS}"),
        foot=clean_text(answer.foot),
        notes=tuple(clean_text(note) for note in answer.notes),
        files=tuple(file._replace(name=clean_text(file.name)) for file in answer.files),
    )


def sent_again(address: Address) -> str:
    return f"Sent again: {address.destination.kind.capitalize()} did not confirm the first copy."


def _plain(address: Address, answer: Answer) -> NoticeText:
    lines = [sent_again(address)] if answer.again else []
    names = [f"File: {file.name}" for file in answer.files]
    text = "\n\n".join(part for part in (*lines, answer.text, "\n".join([*names, *answer.notes]), answer.foot) if part)
    level = "bad" if answer.facts.get("state") == "failed" else "good"
    return NoticeText(answer.title, text, link=answer.link, level=level, facts=answer.facts)


def post(url: str, body: bytes, headers: dict[str, str], *, method: str = "POST") -> Response:
    """Send a request to the host that the owner named. Raises NotDelivered unless it answers 2xx."""
    answer = exchange(url, body, headers, method=method)
    if 200 <= answer.status < 300:
        return answer
    if answer.status in (404, 410):
        raise NotDelivered(f"the destination answered {answer.status}: it is gone", gone=True)
    refused = 400 <= answer.status < 500 and answer.status not in (401, 403, 408, 425, 429)
    reason = f"the destination answered {answer.status}"
    raise NotDelivered(reason, retry=not refused, after_ms=retry_after_ms(answer))


def exchange(
    url: str, body: bytes, headers: dict[str, str], *, method: str = "POST", allowed: str | None = None
) -> Response:
    """Send a request to the host that the owner named, in `url` or in `allowed`, and return what it answers."""
    timeout_s = TIMEOUT_S if len(body) < _LARGE else _UPLOAD_TIMEOUT_S
    client = HttpClient([urlsplit(allowed or url).netloc], timeout_s=timeout_s)
    return client.send(method, url, body=body, headers=headers, limit=_MAX_REPLY_BYTES)


def reply_of(answer: Response) -> dict[str, Any]:
    """The JSON object that a destination answered. Without one, the message may have arrived or not."""
    try:
        found: Any = orjson.loads(answer.body)
    except orjson.JSONDecodeError:  # a proxy on the way
        found = None
    if not isinstance(found, dict):
        reason = f"the destination answered {answer.status}, and not what it answers for a message"
        raise NotDelivered(reason, sent=200 <= answer.status < 300)
    return cast("dict[str, Any]", found)


def retry_after_ms(answer: Response) -> int:
    """How long a server that is busy wants to be left alone, at most an hour."""
    header = answer.headers.get("retry-after", "") if answer.status in (429, 503) else ""
    return min(HOUR_MS, int(header[:9]) * 1000) if header.isdecimal() else 0  # for a date the usual delay is as good


def text_of(message: NoticeText, *, code: tuple[str, str] = ("", "")) -> str:
    """The message without its title, in plain text; `code` surrounds the output."""
    parts = [message.text]
    if message.output:
        parts.append(f"{code[0]}{message.output}{code[1]}")
    parts += ["\n".join(message.commands), message.link or ""]
    return "\n\n".join(part for part in parts if part)
