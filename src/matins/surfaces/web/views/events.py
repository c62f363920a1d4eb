"""`/events`: the event log, the newest first."""

from __future__ import annotations

from typing import Any

from matins.surfaces.web.visit import Page, Visit

_PAGE = 100
_ICONS = {
    "succeeded": "ok", "failed": "fail", "skipped": "skip", "missed": "miss", "started": "run", "planned": "plan",
    "requested": "wait", "waiting": "defer", "deferred": "defer", "paused": "pause", "deleted": "deny",
    "denied": "deny", "cancelled": "deny", "approved": "ok", "resumed": "play", "created": "new",
    "updated": "edit", "applied": "ok",
}  # fmt: skip
_GROUPS = ("run", "schedule", "approval", "throttle", "incident", "policy", "session", "token")


def index(visit: Visit) -> Page:
    query = visit.query
    group = query.get("group") if query.get("group") in _GROUPS else None
    given: dict[str, Any] = {
        "types": [f"{group}.*"] if group else None,
        "schedule": query.get("schedule") or None,
        "run_id": query.get("run") or None,
    }
    found = visit.api.events.list(limit=_PAGE, **{name: value for name, value in given.items() if value})
    rows = [(event, _icon(event.type)) for event in reversed(found)]
    values = {"rows": rows, "groups": _GROUPS, "group": group, "seal": visit.api.audit.seal()}
    return Page("events.html", "Events", values)


def _icon(kind: str) -> str:
    return _ICONS.get(kind.rpartition(".")[2], "plan")
