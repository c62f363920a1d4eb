"""`/approvals`: exactly what would run, who asked, and the digest that an answer is bound to."""

from __future__ import annotations

from typing import Any

from matins.api.results import Approval
from matins.surfaces.web.visit import Page, Visit

_SHOWN_APART = frozenset(
    {"schedule", "agent", "prompt", "involved", "unusual", "outside", "isolation", "wakes", "slot", "payload"}
)
_DECIDED = 10
_STATES = ("approved", "used", "denied", "expired")
"""Of requests that have been decided. An approval that has started its run is used."""


def approvals(visit: Visit) -> Page:
    return _page(visit, visit.api.approvals.list(limit=50))


def show(visit: Visit) -> Page:
    return _page(visit, [visit.api.approvals.get(visit.params["approval_id"])])


def _page(visit: Visit, found: list[Approval]) -> Page:
    api = visit.api
    decided = [each for state in _STATES for each in api.approvals.list(state=state, newest=True, limit=_DECIDED)]
    decided.sort(key=lambda approval: approval.decided_at or approval.requested_at, reverse=True)
    values = {"cards": [(approval, _exactly(approval)) for approval in found], "decided": decided[:_DECIDED]}
    return Page("approvals.html", "Approvals", values, ("approvals",))


def _exactly(approval: Approval) -> dict[str, Any]:
    """The settings of the request, apart from those with a place of their own on the card."""
    return {name: value for name, value in approval.request.items() if name not in _SHOWN_APART}
