"""`/`: what runs, what waits for a person, what comes next, and what did not run as planned."""

from __future__ import annotations

from matins.surfaces.web.budgets import used
from matins.surfaces.web.sentences import because, overview
from matins.surfaces.web.timeline import picture
from matins.surfaces.web.visit import Page, Visit

_UNPLANNED = (
    "failed",
    "skipped",
    "missed",
    "held",
    "denied",
    "expired",
    "interrupted",
    "unknown",
    "over_budget",
    "blocked",
)
_SHOWN = 8
_LOOKED_AT = 100


def now(visit: Visit) -> Page:
    api = visit.api
    upcoming = api.upcoming(limit=_SHOWN)
    recent = api.runs.list(limit=_LOOKED_AT)
    if not upcoming and not recent and not api.list(limit=1):
        return welcome(visit)
    unplanned = [run for run in recent if run.state in _UNPLANNED or run.status == "awaiting_approval"]
    status = api.system.status()
    values = {
        "picture": picture(api.timeline(), visit),
        "running": [each for each in api.runs.live() if each.run.state == "running"][:_SHOWN],
        "status": status,
        "overview": overview(status),
        "pauses": api.pauses(),
        "budgets": [(budget, used(budget)) for budget in api.budgets.list()],
        "upcoming": upcoming,
        "unplanned": [(run, because(run, visit.zone_name)) for run in unplanned[:_SHOWN]],
    }
    return Page("now.html", "Now", values)


def welcome(visit: Visit) -> Page:
    """Shown where nothing is scheduled: commands to begin with, and health."""
    return Page("welcome.html", "Welcome", {"findings": visit.api.system.doctor()})
