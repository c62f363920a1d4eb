"""Use cases on incidents, declared."""

# pyright: reportReturnType=false
from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

from matins.api.use_case import Noun, use_case

if TYPE_CHECKING:
    from matins.api.arguments import Id, Limit
    from matins.api.results import Incident


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
