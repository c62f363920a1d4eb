"""`/incidents`: troubles that people hear of once, however often they happen."""

from __future__ import annotations

from matins.surfaces.web.visit import Page, Visit

_PAGE = 50


def incidents(visit: Visit) -> Page:
    every = visit.query.get("all") == "1"
    found = visit.api.incidents.list(all=every, before=visit.query.get("before"), limit=_PAGE)
    return Page("incidents.html", "Incidents", {"incidents": found, "every": every, "size": _PAGE}, ("incidents",))
