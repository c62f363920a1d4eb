"""`/backfills`: runs for past slots, a new one with its preview, how far one is; and what was missed in absences."""

from __future__ import annotations

from typing import Any

from matins.errors import InvalidInput, MatinsError
from matins.web.views.runs import instant
from matins.web.visit import Page, Visit

_PAGE = 50
_MAX_RUNS = 1_000


def index(visit: Visit) -> Page:
    api, since, error = visit.api, visit.query.get("since", "").strip(), None
    try:
        missed = api.preview_catch_up_all(since=instant(since, visit) or None)
    except InvalidInput as refused:
        missed, error = api.preview_catch_up_all(), refused
    values = {
        "backfills": api.backfills.list(before=visit.query.get("before"), limit=_PAGE),
        "size": _PAGE,
        "catch_up": missed,
        "absences": api.system.absences(),
        "since": since,
        "error": error,
    }
    return Page("backfills.html", "Backfills", values, ("backfills",))


def new(visit: Visit) -> Page:
    """What a backfill would run; nothing starts."""
    given = {name: visit.query.get(name, "") for name in ("schedule", "start", "end", "newest_first")}
    given["which"] = visit.query.get("which", "missing")
    asked: dict[str, Any] = {
        "start": given["start"],
        "end": given["end"],
        "which": given["which"],
        "newest_first": bool(given["newest_first"]),
    }
    preview = error = None
    if given["schedule"] and given["start"] and given["end"]:
        try:
            preview = visit.api.backfills.preview(given["schedule"], **asked)
        except MatinsError as refused:
            error = refused
    body = {**asked, "expect": preview.runs} if preview else {}
    values = {"query": given, "preview": preview, "error": error, "body": body}
    return Page("backfill_new.html", "Backfill", values, ())


def show(visit: Visit) -> Page:
    backfill = visit.api.backfills.get(visit.params["backfill_id"])
    runs = visit.api.runs.list(
        schedule=backfill.schedule, agent=backfill.agent, since=backfill.created_at, limit=_MAX_RUNS
    )
    rows = [run for run in reversed(runs) if run.backfill == backfill.id]
    values = {"backfill": backfill, "rows": rows}
    return Page("backfill.html", f"Backfill {backfill.id}", values, ("backfills", f"schedule-{backfill.schedule_id}"))
