"""Calls: what starts runs from outside, and what a schedule listens to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

CallSource = Literal["webhook", "chat", "schedule"]
CallOutcome = Literal["accepted", "ignored"]
PipelineOutcome = Literal["success", "failure", "end"]
ANY_CHANNEL = "*"


class OnWebhook(NamedTuple):
    """Deliveries to an inbound endpoint."""

    webhook: str
    filter: Mapping[str, Any] | None = None
    debounce_ms: int = 0
    """How long a run waits for further deliveries, which it then stands for."""
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
