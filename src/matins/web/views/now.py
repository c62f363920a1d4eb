"""The views of Now, approvals, incidents and the palette.

`/`: what runs, what waits for a person, what comes next, and what did not run as planned.

`/ui/palette`: what a typed text may mean: a view, an action, a record.

`/approvals`: exactly what would run, who asked, and the digest that an answer is bound to.

`/incidents`: troubles that people hear of once, however often they happen.
"""

from __future__ import annotations

from typing import NamedTuple

from matins.api.results import Approval, Found
from matins.web.drawings import picture
from matins.web.templates import because, overview
from matins.web.views.system import used
from matins.web.visit import Page, Visit

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


class Entry(NamedTuple):
    group: str
    icon: str
    text: str
    address: str
    note: str = ""
    """A key, or the state of a record."""


_GO = [
    Entry("Go to", "now", "Now", "/", "G N"),
    Entry("Go to", "schedules", "Schedules", "/schedules", "G S"),
    Entry("Go to", "play", "Runs", "/runs", "G R"),
    Entry("Go to", "inbox", "Approvals", "/approvals", "G A"),
    Entry("Go to", "graph", "Missions", "/missions", "G M"),
    Entry("Go to", "pulse", "Events", "/events", "G E"),
    Entry("Go to", "agent", "Agents", "/agents"),
    Entry("Go to", "stuck", "Incidents", "/incidents"),
    Entry("Go to", "spend", "Spend", "/spend"),
    Entry("Go to", "undo", "Catch-up", "/catch-up"),
    Entry("Go to", "settings", "Settings", "/settings"),
    Entry("Actions", "plus", "New schedule…", "/schedules/new", "C"),
    Entry("Go to", "succeeded", "Getting started", "/welcome"),
]
_FOUND = {"schedule": ("Schedules", "schedules"), "run": ("Runs", "play"), "agent": ("Agents", "agent"),
    "approval": ("Requests", "waiting"), "incident": ("Incidents", "failed")}  # fmt: skip


def palette(visit: Visit) -> Page:
    text = visit.query.get("q", "").strip()
    found = [_entry(visit, each) for each in visit.api.search(text, limit=_SHOWN)] if text else []
    whys = [
        Entry("Why?", "unknown", f"Why did {entry.text} run, or not?", f"{entry.address}#why")
        for entry in found
        if entry.group == "Schedules"
    ]
    views = [
        entry._replace(address=visit.address(entry.address)) for entry in _GO if text.lower() in entry.text.lower()
    ]
    groups: dict[str, list[Entry]] = {}
    for entry in [*found, *whys[:1], *views]:
        groups.setdefault(entry.group, []).append(entry)
    return Page("_palette.html", "Search", {"groups": list(groups.items())})


def _entry(visit: Visit, found: Found) -> Entry:
    group, icon = _FOUND[found.kind]
    if found.kind == "schedule":
        name = f"{found.agent}/{found.title}" if found.agent else found.title
        return Entry(group, icon, name, visit.address("/schedules", found.agent, found.title), found.detail)
    return Entry(group, icon, found.title, visit.address(f"/{found.kind}s", found.id), found.excerpt or found.detail)


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
    values = {
        "cards": [
            (approval, {name: value for name, value in approval.request.items() if name not in _SHOWN_APART})
            for approval in found
        ],
        "decided": decided[:_DECIDED],
    }
    return Page("approvals.html", "Approvals", values, ("approvals",))


_PAGE = 50


def incidents(visit: Visit) -> Page:
    every = visit.query.get("all") == "1"
    found = visit.api.incidents.list(all=every, before=visit.query.get("before"), limit=_PAGE)
    return Page("incidents.html", "Incidents", {"incidents": found, "every": every, "size": _PAGE}, ("incidents",))
