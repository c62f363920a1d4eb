"""Calls from outside, incidents, events and their deliveries."""

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from matins.api.results.content import Content
from matins.api.results.runs import RunStateName
from matins.model.call import CallOutcome, CallSource
from matins.model.incident import IncidentState
from matins.model.notice import IncidentKind
from matins.model.subscription import DeliveryState, SubscriptionState


class CallRun(Struct, frozen=True):
    """A run that a call started or joined, or its record when a gate stopped it."""

    id: str
    schedule: str
    state: RunStateName
    reason: str | None


class Call(Struct, frozen=True):
    """A call from outside: a delivery, a chat message, or the end of another schedule's run."""

    id: str
    source: CallSource
    name: str
    key: Content[str]
    type: Content[str | None]
    sender: Content[str | None]
    hops: int
    """The number of schedules that the chain of calls has passed."""
    at: datetime
    outcome: CallOutcome
    reason: Content[str | None]
    """Why the call started nothing."""
    duplicate: bool
    """Whether the key was known: the result is the first call."""
    runs: list[CallRun]
    text: Content[str | None]
    body: Content[Any]
    """None in lists, and when the body is no longer kept."""


class Incident(Struct, frozen=True):
    """A trouble that people hear of once, however often it happens."""

    id: str
    state: IncidentState
    kind: IncidentKind
    schedule_id: str | None
    """None for an incident of no schedule, or of several."""
    schedule: str | None
    agent: str | None
    run_id: str | None
    """The newest run."""
    summary: str
    quote: Content[str | None]
    """What a tool, a check or a person wrote about it."""
    error: Content[str | None]
    count: int
    """How often it happened."""
    messages: int
    """How many messages were told about it."""
    opened_at: datetime
    last_at: datetime
    reminds_at: datetime | None
    acknowledged_at: datetime | None
    acknowledged_by: str | None
    resolved_at: datetime | None
    resolution: str | None
    """How it ended: recovered, paused, resumed, ended, changed, deleted, decided, quiet."""


class TestedDestination(Struct, frozen=True):
    """Whether a test message arrived at a destination."""

    destination: str
    kind: str
    delivered: bool
    error: Content[str | None]


class TestedSchedule(Struct, frozen=True):
    """What a delivery means for a schedule that listens to it."""

    schedule: str
    matches: bool
    reason: Content[str | None]
    """Why the delivery does not concern the schedule."""
    prompt: Content[str | None]
    """The prompt with the delivery's values."""


class InboundTest(Struct, frozen=True):
    """A delivery that Matins signed itself."""

    name: str
    verified: bool
    key: Content[str]
    type: Content[str | None]
    outcome: Literal["accepted", "ignored", "duplicate", "dry_run"]
    reason: Content[str | None]
    schedules: list[TestedSchedule]
    runs: list[CallRun]


class Event(Struct, frozen=True):
    id: str
    at: datetime
    type: str
    schedule_id: str | None
    schedule: str | None
    """Its name."""
    agent: str | None
    run_id: str | None
    data: Content[dict[str, Any]]


class Delivery(Struct, frozen=True):
    """An event that a subscription has not received yet."""

    event: str
    schedule_id: str | None
    attempts: int
    next_at: datetime | None
    last_error: Content[str | None]
    state: DeliveryState


class Audit(Struct, frozen=True):
    """Whether every event is as it was written."""

    events: int
    chains: int
    seal: str | None
    """The newest one; None while there is none."""
    problems: list[str]
    """The first bad row of each chain, and what is wrong with the seals."""


class NewWebhook(Struct, frozen=True):
    name: str
    url: str
    types: list[str]
    secret: str
    """Shown here and never again."""
    state: SubscriptionState
    created_at: datetime
    created_by: str
