"""`/events`: the event log, the newest first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matins.engine.events import EVENTS
from matins.surfaces.web.visit import Page, Visit

_EVENTS_A_PAGE = 100
_ICONS = {
    **{state: state for state in ("succeeded", "failed", "skipped", "missed", "planned", "deferred", "denied")},
    "started": "running", "requested": "waiting", "waiting": "deferred", "paused": "pause", "deleted": "denied",
    "cancelled": "denied", "approved": "succeeded", "resumed": "play", "created": "new",
    "updated": "edit", "applied": "succeeded",
}  # fmt: skip
_FILTERS = ("group", "schedule", "run")
_GROUPS = ("run", "schedule", "approval", "throttle", "incident", "policy", "session", "token")


def events(visit: Visit) -> Page:
    found = visit.api.events.list(limit=_EVENTS_A_PAGE, **chosen(visit.query))
    rows = [(event, _icon(event.type)) for event in reversed(found)]
    values = {
        "rows": rows,
        "size": _EVENTS_A_PAGE,
        "groups": _GROUPS,
        "group": _group(visit.query),
        "seal": visit.api.audit.seal(),
        "filters": {name: visit.query[name] for name in _FILTERS if name in visit.query},
    }
    return Page("events.html", "Events", values)


def chosen(query: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of the use case that the filters in the address select."""
    group = _group(query)
    given: dict[str, Any] = {
        "types": [kind for kind in EVENTS if kind.startswith(f"{group}.")],
        "schedule": query.get("schedule"),
        "run_id": query.get("run"),
    }
    return {name: value for name, value in given.items() if value}


def _group(query: Mapping[str, str]) -> str | None:
    return query.get("group") if query.get("group") in _GROUPS else None


def _icon(kind: str) -> str:
    return _ICONS.get(kind.rpartition(".")[2], "planned")
