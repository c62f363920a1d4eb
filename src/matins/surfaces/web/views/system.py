"""`/settings`, `/inbound`, and `/more` for phones."""

from __future__ import annotations

from typing import Any

from matins.surfaces.web.visit import Page, Visit

_PAGE = 50


def settings(visit: Visit) -> Page:
    """What governs, and who is signed in."""
    api = visit.api
    values: dict[str, Any] = {
        "whoami": api.system.whoami(),
        "findings": api.system.doctor(),
        "quiet_hours": api.quiet_hours.list(),
        "budgets": api.budgets.list(),
        "hooks": api.hooks.list(),
        "webhooks": api.webhooks.list(),
        "people": api.people.list() if visit.can("people.list") else [],
        "destinations": api.destinations.list() if visit.can("destinations.list") else [],
        "throttles": api.throttles.list(),
        "sessions": api.sessions.list() if visit.can("sessions.list") else None,
        "tokens": api.tokens.list() if visit.can("tokens.list") else None,
    }
    return Page("settings.html", "Settings", values, ("policys", "sessions", "tokens", "throttles"))


def inbound(visit: Visit) -> Page:
    """Calls from outside: deliveries, chat messages, ends of other runs."""
    values = {
        "endpoints": visit.api.inbound.list(),
        "calls": visit.api.calls.list(before=visit.query.get("before"), limit=_PAGE),
        "size": _PAGE,
    }
    return Page("inbound.html", "Inbound", values, ("calls", "runs"))


def call(visit: Visit) -> Page:
    """One call: what came, and what it started."""
    found = visit.api.calls.get(visit.params["call_id"])
    return Page("call.html", f"Call {found.id}", {"call": found}, ("calls", "runs"))


def more(visit: Visit) -> Page:
    return Page("more.html", "More", {}, ())
