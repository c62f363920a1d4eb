"""Destinations: which notices and answers they get, and answers on their way. Annotations are settings.

Which events people get messages about. This module loads quickly: every command imports it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, get_args

from matins.model.settings import Choice, Int, Name, Names, Secret, Setting, Text, Url

IncidentKind = Literal[
    "failed",
    "held",
    "missed",
    "paused",
    "broken",
    "budget",
    "limit",
    "login",
    "approval",
    "undelivered",
    "engine",
    "spending",
    "late",
    "slow",
]
KINDS: tuple[IncidentKind, ...] = get_args(IncidentKind)
NOTICES: tuple[str, ...] = (*KINDS, "recovered")
"""What messages can be about: the kinds of incidents, and the end of one."""
NOBODY = "none"
"""The name that means no destination."""
THREAD = "thread"
"""The name that means the place in chat of a run's thread."""
ANSWER = "answer"
"""What `urgent` calls the answers of runs."""
DeliverIf = Literal["always", "text", "changed", "news"]
DELIVER_ON = ("succeeded", "failed")


CHAT_CHANNELS = "matins.chat_channels"


class ChatChannels(NamedTuple):
    """How a chat service writes the ids of its channels: answers of runs in such a channel belong there."""

    service: str
    pattern: re.Pattern[str]


Tls = Literal["starttls", "tls", "none"]


# fmt: off
@dataclass(frozen=True, slots=True)
class Destination:
    name: str
    kind: Annotated[str,
        Setting(Name(),
                "Kind of destination: telegram, slack, discord, email, ntfy, desktop, file, webhook or apprise.",
                "ntfy", required=True)]
    url: Annotated[str | None,
        Setting(Url(private=True), "URL of the incoming webhook or the server, or where it is: env:NAME, file:/path.",
                "https://ntfy.example.com")] = None
    to: Annotated[tuple[str, ...],
        Setting(Names(empty=True),
                "Recipients: e-mail addresses, the topic, the channel, the chat, the folder, or the account.",
                ["ada@example.com"])] = ()
    token: Annotated[str | None,
        Setting(Secret(), "Where the access token or the signing secret is: env:NAME or file:/path.",
                "env:NTFY_TOKEN")] = None
    person: Annotated[str | None,
        Setting(Name("people"), "Person whose destination it is: the person's quiet hours and e-mail address apply.",
                "ada")] = None
    urgent: Annotated[tuple[str, ...],
        Setting(Names(empty=True, values=(*KINDS, ANSWER)),
                "Kinds of incidents that are sent in the person's quiet hours too; answer: those of runs.",
                ["budget", "approval", "answer"])] = ("budget", "approval")
    label: Annotated[str | None,
        Setting(Name(), "Label of the schedules that its messages are about, as key=value; default: all schedules.",
                "team=ops")] = None
    max_per_hour: Annotated[int,
        Setting(Int(1, 1_000), "Number of messages an hour; further ones become a digest on the hour.", 10)] = 20
    keep: Annotated[int,
        Setting(Int(1, 100_000), "Number of files that a destination of kind file keeps.", 1_000)] = 100


@dataclass(frozen=True, slots=True)
class Notify:
    """Which destinations get which messages, unless a schedule has its own."""

    to: Annotated[tuple[str, ...],
        Setting(Names(empty=True, of="destinations"), "Destinations that get messages; default: all.", ["ops"])] = ()
    on: Annotated[tuple[str, ...],
        Setting(Names(empty=True, values=NOTICES), "What messages are sent for; default: everything.",
                ["failed", "held", "recovered"])] = NOTICES


@dataclass(frozen=True, slots=True)
class Deliver:
    """Which answers of runs are delivered, unless a schedule or its agent says otherwise."""

    to: Annotated[tuple[str, ...],
        Setting(Names(empty=True, of="destinations"), "Destinations that get the answers of runs; default: none.",
                ["phone"])] = ()
    on: Annotated[tuple[str, ...],
        Setting(Names(empty=True, values=DELIVER_ON), "Outcomes of runs whose answers are delivered.",
                ["succeeded", "failed"])] = ("succeeded",)
    condition: Annotated[DeliverIf,
        Setting(Choice(get_args(DeliverIf)),
                "Which answers are delivered: all, those with text, other ones than before, or news.", "news",
                "if")] = "text"


@dataclass(frozen=True, slots=True)
class Smtp:
    """The server that sends e-mail."""

    host: Annotated[str | None, Setting(Text(), "Host of the server.", "mail.example.com", required=True)] = None
    port: Annotated[int, Setting(Int(1, 65_535), "Port of the server.", 465)] = 587
    user: Annotated[str | None, Setting(Text(), "User name.", "matins")] = None
    password: Annotated[str | None,
        Setting(Secret(), "Where the password is: env:NAME or file:/path.", "env:SMTP_PASSWORD")] = None
    sender: Annotated[str | None,
        Setting(Text(), "Address that messages come from.", "matins@example.com")] = None
    tls: Annotated[Tls,
        Setting(Choice(get_args(Tls)), "How the connection is encrypted; none is for this machine only.",
                "tls")] = "starttls"
# fmt: on


AnswerState = Literal["queued", "retrying", "delivered", "withheld", "unconfirmed", "discarded"]
PENDING: tuple[AnswerState, ...] = ("queued", "retrying")
FINAL = 0
"""The number of the answer of a run's end. Messages that an agent sends during its run count from 1."""


class AnswerRow(NamedTuple):
    """An answer of a run for one destination. The text of the end is in the outcome of the run."""

    run_id: int
    number: int
    destination: str
    """The name of a destination, or `thread:SERVICE`."""
    schedule_id: int
    state: AnswerState
    reason: str | None
    """Why it is withheld or discarded, or what it waits for."""
    digest: str
    """Equal for equal texts."""
    created_at: int
    next_at: int | None
    """When it is sent, or sent again; None when it is not."""
    title: str | None = None
    """Title of a message during the run."""
    text: str | None = None
    files: str | None = None
    """JSON."""
    attempts: int = 0
    parts: int | None = None
    """The number of messages that it consists of; None before the first attempt."""
    parts_sent: int = 0
    sending: int | None = None
    """The part that was about to leave. If nothing followed, it may have arrived."""
    again: int = 0
    """Whether that part was repeated."""
    lost: int = 0
    """The number of parts that were not confirmed."""
    copy: int = 0
    """How often a person had it sent again."""
    digest_at: int | None = None
    """The hour whose digest contains it, because there were too many."""
    receipt: str | None = None
    """The destination's id of the first message."""
    error: str | None = None
    sent_at: int | None = None
    """When the destination confirmed it."""
