"""The views of Now, approvals, incidents and the palette.

`/`: what waits for a decision, what is broken by cause, lanes of what ran and will run, budgets, what comes next.

`/ui/palette`: what a typed text may mean: a view, an action, a record.

`/approvals`: exactly what would run, who asked, and the digest that an answer is bound to.

`/incidents`: troubles, one entry each, however often they happen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from matins.api.results import Approval, Cause, Found, LabelCount, Lanes
from matins.errors import InvalidInput, MatinsError, NotFound
from matins.surfaces.http.problem_json import HttpError
from matins.web.drawings import lane_chart
from matins.web.views.system import used
from matins.web.visit import Page, Visit

_SHOWN, _COMING = 8, 6
_RANGES = {"1h": (1, "1 h"), "6h": (6, "6 h"), "24h": (24, "24 h"), "7d": (168, "7 days"), "31d": (744, "31 days")}
"""Hours before now. A third of it, at most a day, is shown ahead."""
_MOST_SEGMENTS = 6
_CAUSES = 6


def now(visit: Visit) -> Page:
    api = visit.api
    if not api.upcoming(limit=1) and not api.runs.list(limit=1) and not api.list(limit=1):
        return welcome(visit)
    select, wrong = _select(visit)
    values: dict[str, Any] = {"select": select, "wrong": wrong}
    for name, made in PARTS.items():
        values |= made(visit) if name != "summary" else {}
    values |= {"segments": _segments(values["chart_of"]), "failures": _failures(values["causes"])}
    return Page("now.html", "Now", values, ())


def part(visit: Visit) -> Page:
    """One part of Now, as it is at the moment."""
    name = visit.params["name"]
    if name not in PARTS:
        raise HttpError(404, "no_such_path", "There is no such part.", hint="Reload the page.")
    return Page(f"parts/{name}.html", name, {"select": _select(visit)[0], **PARTS[name](visit)}, ())


def _select(visit: Visit) -> tuple[str | None, MatinsError | None]:
    """The selector of the address; the error of one that cannot be read, which selects everything."""
    text = visit.query.get("select", "").strip() or None
    if text is None:
        return None, None
    try:
        visit.api.counts(select=text)
    except InvalidInput as error:
        return None, error
    return text, None


def _decide(visit: Visit) -> dict[str, Any]:
    api, count = visit.api, visit.stats
    held = [item for item in visit.attention if item.kind == "held"]
    return {"approvals": api.approvals.list(limit=3), "held": held, "stats": count}


def _troubles(visit: Visit) -> dict[str, Any]:
    api, (select, _) = visit.api, _select(visit)
    causes = api.incidents.causes(select=select)
    kinds = ("approval", "held", "incident", "no_engine")
    others = [item for item in visit.attention if item.kind not in kinds]
    every = visit.query.get("every_cause")
    shown = causes if every else causes[:_CAUSES]
    room = 0 if select or every else max(0, _CAUSES - len(causes))
    return {
        "causes": causes,
        "every_cause": every,
        "shown_causes": shown,
        "others": others[:room],
        "others_count": len(others),
    }


def _lanes(visit: Visit) -> dict[str, Any]:
    query, (select, _) = visit.query, _select(visit)
    chosen = query.get("range", "")
    chosen = chosen if chosen in _RANGES else "6h"
    by = query.get("by", "agent")
    hours = _RANGES[chosen][0]
    start: Any = visit.now - timedelta(hours=hours)
    end: Any = visit.now + min(timedelta(hours=hours) / 3, timedelta(days=1))
    if query.get("since") and query.get("until"):
        start, end, chosen = query["since"], query["until"], ""
    limit = 100 if query.get("all") else _SHOWN
    try:
        found = visit.api.lanes(select=select, by=by, start=start, end=end, limit=limit)
    except InvalidInput:  # an address by hand
        found = visit.api.lanes(limit=limit)
    names = list(_RANGES)
    at = names.index(chosen) if chosen else None
    return {
        "chart_of": found,
        "chart": lane_chart(found, visit),
        "ranges": {name: word for name, (_, word) in _RANGES.items()},
        "range": chosen,
        "closer": names[at - 1] if at else None,
        "farther": names[at + 1] if at is not None and at + 1 < len(names) else None,
        "label_keys": sorted({label.key for label in found.labels}),
    }


def _running(visit: Visit) -> dict[str, Any]:
    api, (select, _) = visit.api, _select(visit)
    running = [each for each in api.runs.live() if each.run.state == "running"]
    if select:
        ids = {run.id for run in api.runs.list(select=select, state="running", limit=1000)}
        running = [each for each in running if each.run.id in ids]
    stuck = {item.run_id: item for item in visit.attention if item.kind == "stuck"}
    return {"running": running[:_SHOWN], "running_total": len(running), "stuck": stuck, "stats": visit.stats}


def _notices(visit: Visit) -> dict[str, Any]:
    return {"pauses": visit.api.pauses(), "stats": visit.stats}


def _summary(visit: Visit) -> dict[str, Any]:
    values = {**_decide(visit), **_troubles(visit), **_running(visit)}
    return {**values, "failures": _failures(values["causes"])}


def _failures(causes: list[Cause]) -> int:
    return sum(cause.count for cause in causes if not cause.acknowledged)


def _budgets(visit: Visit) -> dict[str, Any]:
    found = [(budget, used(budget)) for budget in visit.api.budgets.list()]
    found.sort(key=lambda each: -each[1].part)
    return {"budgets": found[:6], "budgets_total": len(found), "stats": visit.stats}


def _coming(visit: Visit) -> dict[str, Any]:
    select, _ = _select(visit)
    found = visit.api.list(select=select, sort="next", limit=_COMING)
    return {
        "upcoming": [each for each in found if each.due_at or each.next_run_at],
        "throttled": {each.provider: each for each in visit.stats.throttles},
    }


PARTS: Mapping[str, Callable[[Visit], dict[str, Any]]] = {
    "summary": _summary,
    "notices": _notices,
    "decide": _decide,
    "causes": _troubles,
    "lanes": _lanes,
    "running": _running,
    "budgets": _budgets,
    "next": _coming,
}
"""What Now is made of; each part is fetched again when what it shows has changed."""


def _segments(found: Lanes) -> tuple[str, list[LabelCount]] | None:
    """The label that divides the schedules into the fewest groups."""
    groups: dict[str, list[LabelCount]] = {}
    for label in found.labels:
        groups.setdefault(label.key, []).append(label)
    few = [(key, labels) for key, labels in groups.items() if 1 < len(labels) <= _MOST_SEGMENTS]
    return min(few, key=lambda each: len(each[1]), default=None)


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
    Entry("Go to", "undo", "Backfills", "/backfills"),
    Entry("Go to", "settings", "Settings", "/settings"),
    Entry("Actions", "plus", "New schedule…", "/schedules/new", "C"),
    Entry("Actions", "agent", "New agent…", "/records/agents/new"),
    Entry("Actions", "spend", "New budget…", "/records/budgets/new"),
    Entry("Actions", "undo", "Backfill past slots…", "/backfills/new"),
    Entry("Actions", "retry", "Failed runs of the last day…", "/runs?state=failed&range=24h"),
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
"""States of requests that have been decided. An approval that has started its run is used."""


def approvals(visit: Visit) -> Page:
    return _page(visit, visit.api.approvals.list(limit=50))


def ask(visit: Visit) -> Page:
    """What an approval is about, with its buttons, for a dialog."""
    approval = visit.api.approvals.get(visit.params["approval_id"])
    return Page("_approval.html", "Approve", {"approval": approval, "exactly": _exactly(approval)})


def ask_run(visit: Visit) -> Page:
    """The page of the request that a run waits for."""
    run_id = visit.params["run_id"]
    found = next((each for each in visit.api.approvals.list(limit=1000) if each.run_id == run_id), None)
    if found is None:
        raise NotFound(f"Run {run_id} waits for no approval.", value=run_id, field="run_id", hint="Reload the page.")
    return Page("_approval.html", "Approve", {"approval": found, "exactly": _exactly(found)})


def _exactly(approval: Approval) -> dict[str, Any]:
    return {name: value for name, value in approval.request.items() if name not in _SHOWN_APART}


def show(visit: Visit) -> Page:
    return _page(visit, [visit.api.approvals.get(visit.params["approval_id"])])


def _page(visit: Visit, found: list[Approval]) -> Page:
    api = visit.api
    decided = [each for state in _STATES for each in api.approvals.list(state=state, newest=True, limit=_DECIDED)]
    decided.sort(key=lambda approval: approval.decided_at or approval.requested_at, reverse=True)
    values = {
        "cards": [(approval, _exactly(approval)) for approval in found],
        "decided": decided[:_DECIDED],
    }
    return Page("approvals.html", "Approvals", values, ("approvals",))


_PAGE = 50


def incidents(visit: Visit) -> Page:
    """What is open by cause, then each one; or all that there were."""
    every = visit.query.get("all") == "1"
    found = visit.api.incidents.list(all=every, before=visit.query.get("before"), limit=_PAGE)
    values: dict[str, Any] = {"incidents": found, "every": every, "size": _PAGE}
    if not every and "before" not in visit.query:
        causes = visit.api.incidents.causes()
        values |= {"causes": causes, "shown_causes": causes, "every_cause": "1", "others": [], "others_count": 0}
    return Page("incidents.html", "Incidents", values, ("incidents",))


def incident(visit: Visit) -> Page:
    """One of them, as a search finds it."""
    found = visit.api.incidents.get(visit.params["incident_id"])
    values = {"incidents": [found], "every": True, "size": _PAGE}
    return Page("incidents.html", "Incident", values, ("incidents",))
