"""Use cases on events, subscriptions, incidents, calls, webhooks and destinations, declared.

Use cases on events, their subscribers, and the audit, declared.

What inbound endpoints can do beside the verbs of every record.
"""

# pyright: reportReturnType=false
from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import TYPE_CHECKING

from matins.api.use_case import USE_CASES, Noun, use_case

if TYPE_CHECKING:
    from matins.api._results import Agent, Webhook
    from matins.api.arguments import EventTypes, Id, Instant, Json, Limit, Select
    from matins.api.results import (
        Audit,
        Call,
        Cause,
        Delivery,
        Event,
        InboundTest,
        Incident,
        NewWebhook,
        PingAddress,
        Run,
        TestedDestination,
    )
    from matins.model.call import CallSource
    from matins.model.event import DeliveryState


class Events(Noun, noun="events"):
    @use_case("read", "GET /v1/events", page=("after", "id"))
    def list(
        self,
        *,
        types: EventTypes | None = None,
        after: Id | None = None,
        limit: Limit = 100,
        schedule: str | None = None,
        agent: str | None = None,
        run_id: Id | None = None,
    ) -> builtins.list[Event]:
        """List events, the oldest first: the next ones after an event, or the newest of all."""

    def follow(
        self,
        *,
        types: EventTypes | None = None,
        after: Id | None = None,
        schedule: str | None = None,
        agent: str | None = None,
        run_id: Id | None = None,
    ) -> Iterator[Event]:
        """Yield events as they happen, without an end: those after an event, or from now on."""
        given = {"types": types, "after": after, "schedule": schedule, "agent": agent, "run_id": run_id}
        return self._transport.follow(
            USE_CASES["events.list"], {name: value for name, value in given.items() if value is not None}
        )


class Subscriptions(Noun, noun="subscriptions"):
    @use_case("govern", "PUT /v1/subscriptions/{name}", status=204)
    def open(self, name: str, *, types: EventTypes | None = None) -> None:
        """Open a named position in the stream of events for a function: from now on, or where it was."""

    @use_case("govern", "DELETE /v1/subscriptions/{name}", status=204)
    def delete(self, name: str) -> bool:
        """Delete the position of a named function; it starts again from now. False when there is none."""

    @use_case("read", "GET /v1/subscriptions/{name}/deliveries", page=("after", "event"))
    def deliveries(
        self, name: str, *, state: DeliveryState = "retrying", after: str | None = None, limit: Limit = 100
    ) -> builtins.list[Delivery]:
        """List events that a subscription has not received, the oldest first: retrying or discarded."""

    @use_case("govern", "POST /v1/subscriptions/{name}/redeliver", status=204)
    def redeliver(self, name: str, event_id: str) -> None:
        """Deliver an event now, whether it was discarded, is retried, or has arrived before."""


class AuditLog(Noun, noun="audit"):
    @use_case("read", "GET /v1/audit")
    def verify(self, *, seal: str | None = None) -> Audit:
        """Verify the event log. `seal`: one that was noted down elsewhere, which must still be there."""

    @use_case("read", "GET /v1/audit/seal")
    def seal(self) -> str | None:
        """Get the newest seal, to be noted down elsewhere; None while there is none."""


class Incidents(Noun, noun="incidents"):
    @use_case("read", "GET /v1/incidents", page=("before", "id"))
    def list(
        self,
        *,
        all: bool = False,  # noqa: A002 - the word of the option
        schedule: str | None = None,
        agent: str | None = None,
        before: Id | None = None,
        limit: Limit = 100,
    ) -> builtins.list[Incident]:
        """List incidents that are not over, the newest first. `all`: those that are over too."""

    @use_case("read", "GET /v1/incidents/{incident_id}")
    def get(self, incident_id: Id) -> Incident:
        """Get an incident."""

    @use_case("operate", "POST /v1/incidents/{incident_id}/acknowledge")
    def acknowledge(self, incident_id: Id) -> Incident:
        """Acknowledge an incident: no more messages are sent until it is over."""

    @use_case("read", "GET /v1/causes")
    def causes(self, *, select: Select | None = None, since: Instant | None = None) -> builtins.list[Cause]:
        """List what is broken, by cause: open incidents of all schedules with the same error as one, the most frequent
        first. `since`: from when on failures are counted by time; default: 24 hours ago."""

    @use_case("operate", "POST /v1/causes/acknowledge")
    def acknowledge_cause(self, kind: str, signature: str) -> builtins.list[Incident]:
        """Acknowledge every open incident of a cause."""


class Calls(Noun, noun="calls"):
    @use_case("operate", "POST /v1/calls", status=201, location="/v1/calls/{id}", max_bytes=9 << 20)
    def fire(
        self,
        source: CallSource,
        name: str,
        key: str,
        *,
        body: Json = None,
        type: str | None = None,  # noqa: A002 - the name that senders use
        text: str | None = None,
        sender: str | None = None,
        signed: str | None = None,
    ) -> Call:
        """Start a run of every schedule that listens to a source, once per key.

        `source` is webhook or chat, `name` the inbound endpoint or the channel. A known key starts nothing: the result
        is the first call, with `duplicate`. So does a known `signed`, a digest of what the sender signed, for 24 hours.
        The gates apply as to a slot.
        """

    @use_case("read", "GET /v1/calls", page=("before", "id"))
    def list(
        self,
        *,
        source: CallSource | None = None,
        name: str | None = None,
        before: Id | None = None,
        limit: Limit = 100,
    ) -> builtins.list[Call]:
        """List calls without their bodies, the newest first."""

    @use_case("read", "GET /v1/calls/{call_id}")
    def get(self, call_id: Id) -> Call:
        """Get a call with its runs, and its body for principals with the "operate" right."""

    @use_case("operate", "POST /v1/calls/{call_id}/replay", status=201, location="/v1/calls/{id}")
    def replay(self, call_id: Id) -> Call:
        """Fire a call again, as a new one: its body is judged by the present settings."""


class Pings(Noun, noun="pings"):
    @use_case("operate", "POST /v1/pings/{name:path}/url", query=("agent",))
    def url(self, name: str, *, agent: str | None = None) -> PingAddress:
        """Get the address at which the work of a schedule with the job `expect_ping` reports. It is a secret."""

    @use_case("operate", "POST /v1/pings/{name:path}/rotate", query=("agent",))
    def rotate(self, name: str, *, agent: str | None = None) -> PingAddress:
        """Give a schedule another address. The former one is unknown from now on."""

    @use_case("operate", "POST /v1/pings/{name:path}", query=("agent",))
    def send(
        self, name: str, *, signal: str = "success", text: str | None = None, agent: str | None = None
    ) -> Run | None:
        """Report on work that happens elsewhere: success, fail, start, or an exit code. `text`: what it wrote.

        It ends the run that waits for it; without one, it is a run of its own. A start prolongs the wait by the
        schedule's `timeout`, or its grace, and starts none.
        """


class InboundCalls:
    @use_case("govern", "POST /v1/inbound/{name}/test", max_bytes=9 << 20)
    def test(
        self,
        name: str,
        *,
        body: Json = None,
        type: str | None = None,  # noqa: A002 - the name that senders use
        dry_run: bool = False,
    ) -> InboundTest:
        """Sign a body as the sender would, deliver it, and show which schedules it concerns, with their prompts.

        `type`: the type of the event, where the sender has it in a header. With `dry_run` nothing is fired.
        """


class AgentsCalls:
    @use_case("govern", "POST /v1/agents/{name}/rename")
    def rename(self, name: str, to: str) -> Agent:
        """Give an agent another name. Its schedules, conversations, limits, budgets, grants and tokens follow."""


class WebhooksCalls:
    @use_case("govern", "POST /v1/webhooks", status=201, secret="secret", location="/v1/webhooks/{name}")
    def add(self, name: str, url: str, *, types: EventTypes | None = None, secret: str | None = None) -> NewWebhook:
        """Add a webhook for events from now on. A name that is taken is refused.

        The result has the signing secret, which is not shown again. `secret`: one of your own, or a reference.
        """

    @use_case("govern", "POST /v1/webhooks/{name}/pause")
    def pause(self, name: str, *, note: str | None = None) -> Webhook:
        """Pause a webhook. Nothing is sent until it is resumed; then it continues where it was."""

    @use_case("govern", "POST /v1/webhooks/{name}/resume")
    def resume(self, name: str) -> Webhook:
        """Resume a paused webhook."""


class DestinationsCalls:
    @use_case("govern", "POST /v1/destinations/{name}/test")
    def test(self, name: str) -> TestedDestination:
        """Send a test message to a destination now, and say whether it arrived."""
