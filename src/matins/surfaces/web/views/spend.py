"""`/spend` and `/catch-up`: what was spent, and what a start now would do."""

from __future__ import annotations

from datetime import datetime

from matins.errors import InvalidInput
from matins.surfaces.web.budgets import used
from matins.surfaces.web.visit import Page, Visit


def spend(visit: Visit) -> Page:
    api = visit.api
    values = {"spend": api.system.spend(), "budgets": [(budget, used(budget)) for budget in api.budgets.list()]}
    return Page("spend.html", "Spend", values, ("runs", "policys"))


def catch_up(visit: Visit) -> Page:
    """What a start would do after an absence, and the last absences."""
    api, since, error = visit.api, visit.query.get("since", "").strip(), None
    try:
        found = api.preview_catch_up_all(since=_instant(since, visit) or None)
    except InvalidInput as refused:
        found, error = api.preview_catch_up_all(), refused
    values = {"catch_up": found, "absences": api.system.absences(), "since": since, "error": error}
    return Page("catch_up.html", "Catch-up", values, ())


def _instant(text: str, visit: Visit) -> str:
    """The instant of a field without a zone, which is in the viewer's; anything else as it is."""
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        return text
    return (given if given.tzinfo else given.replace(tzinfo=visit.zone)).isoformat()
