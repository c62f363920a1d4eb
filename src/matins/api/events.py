"""Use cases on events, their subscribers, and the audit, declared."""

# pyright: reportReturnType=false
from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import TYPE_CHECKING

from matins.api.use_case import USE_CASES, Noun, use_case

if TYPE_CHECKING:
    from matins.api.arguments import EventTypes, Id, Limit
    from matins.api.results import Audit, Delivery, Event
    from matins.model.subscription import DeliveryState


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
