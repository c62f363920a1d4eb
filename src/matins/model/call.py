"""Calls from outside and the endpoints that take them.

Calls: what starts runs from outside, and what a schedule listens to.

Inbound endpoints: where other systems deliver their webhooks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, get_args

from matins.model.settings import Choice, Int, Names, Secret, Setting, Text

CallSource = Literal["webhook", "chat", "schedule"]
CallOutcome = Literal["accepted", "ignored"]
PipelineOutcome = Literal["success", "failure", "end"]
ANY_CHANNEL = "*"


class OnWebhook(NamedTuple):
    """Deliveries to an inbound endpoint."""

    webhook: str
    filter: Mapping[str, Any] | None = None
    debounce_ms: int = 0
    """How long a run waits for further deliveries, which then join it."""
    by: str | None = None
    """The path in the body whose value says which deliveries belong together."""


class OnChat(NamedTuple):
    """Messages in a channel."""

    chat: str
    match: str = "mention"
    """mention, any, or the first words of the message."""
    senders: tuple[str, ...] = ()
    """People whose messages count; empty for everybody who is known."""


class OnSchedule(NamedTuple):
    """Outcomes of another schedule."""

    schedule: str
    outcome: PipelineOutcome = "success"


CallTrigger = OnWebhook | OnChat | OnSchedule


class Call(NamedTuple):
    """A call as it arrives."""

    source: CallSource
    name: str
    """The inbound endpoint, the channel, or the schedule as agent/name."""
    key: str
    """Deliveries with the same key are one call."""
    body: Any = None
    type: str | None = None
    text: str | None = None
    sender: str | None = None
    hops: int = 0
    """The number of schedules that the chain of calls has passed."""
    signed: str | None = None
    """The digest of what the sender signed, if that does not include the key. For a day, the same digest is the same
    call, even under another key."""


class CallRow(NamedTuple):
    """A call in the store."""

    id: int
    source: str
    name: str
    key: str
    type: str | None
    sender: str | None
    hops: int
    at: int
    outcome: str
    reason: str | None
    text: str | None
    body: str | None
    """JSON; None when the body is no longer kept."""


class CalledRun(NamedTuple):
    """A run that a call started."""

    call_id: int
    id: int
    schedule: str
    state: int
    reason: str | None


class Listener(NamedTuple):
    """A schedule that listens to calls."""

    source: str
    name: str
    agent: str
    """The agent of the schedule whose outcome counts; empty for other sources."""
    schedule_id: int


InboundKind = Literal["standard", "github", "stripe", "slack", "gitlab", "hmac", "bearer"]
Encoding = Literal["hex", "base64"]
Algorithm = Literal["sha256", "sha512"]
MAX_BODY_BYTES = 8 << 20


# fmt: off
@dataclass(frozen=True, slots=True)
class InboundEndpoint:
    name: str
    kind: Annotated[InboundKind,
        Setting(Choice(get_args(InboundKind)), "How the sender signs its deliveries.", "github", required=True)]
    secret: Annotated[str,
        Setting(Secret(), "Where the secret is: env:NAME or file:/path.", "env:GH_SECRET", required=True)]
    previous_secret: Annotated[str | None,
        Setting(Secret(), "Where the former secret is, which is accepted too while it is replaced.",
                "env:OLD_SECRET")] = None
    events: Annotated[tuple[str, ...],
        Setting(Names(empty=True), "Types of events that count; default: all.", ["pull_request"])] = ()
    max_bytes: Annotated[int,
        Setting(Int(1_024, MAX_BODY_BYTES), "Largest body that is read.", 262_144)] = 1 << 20
    max_per_minute: Annotated[int,
        Setting(Int(1, 10_000), "Number of deliveries a minute that are accepted.", 600)] = 60
    header: Annotated[str | None,
        Setting(Text(100), "Header with the signature (hmac).", "X-Signature")] = None
    prefix: Annotated[str | None,
        Setting(Text(50), "Text before the signature in its header (hmac).", "sha256=")] = None
    encoding: Annotated[Encoding,
        Setting(Choice(get_args(Encoding)), "Encoding of the signature (hmac).", "base64")] = "hex"
    algorithm: Annotated[Algorithm,
        Setting(Choice(get_args(Algorithm)), "Algorithm of the signature (hmac).", "sha512")] = "sha256"
    signed: Annotated[str,
        Setting(Text(100), "What is signed, with {body}, {timestamp} and {id} (hmac).",
                "{timestamp}.{body}")] = "{body}"
    timestamp: Annotated[str | None,
        Setting(Text(100), "Header with the time of the signature in seconds (hmac).", "X-Timestamp")] = None
    id: Annotated[str | None,
        Setting(Text(100), "Header with the id of the delivery (hmac, bearer); default: a digest of the body.",
                "X-Delivery-Id")] = None
# fmt: on
