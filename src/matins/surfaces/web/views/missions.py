"""`/missions`: schedules with steps, as a graph and as a table."""

from __future__ import annotations

from matins.surfaces.web.graph import graph
from matins.surfaces.web.sentences import because
from matins.surfaces.web.visit import Page, Visit

_PAGE = 50
_GOING = ("succeeded", "running", "ready", "waiting", "queued")


def missions(visit: Visit) -> Page:
    found = visit.api.missions.list(after=visit.query.get("after"), limit=_PAGE)
    return Page("missions.html", "Missions", {"missions": found, "size": _PAGE}, ("missions", "runs", "schedules"))


def show_mission(visit: Visit) -> Page:
    mission = visit.api.missions.get(visit.params["name"])
    steps = mission.last_run.steps if mission.last_run is not None else []
    stopped = {step.title for step in steps if step.state not in _GOING}
    rows = [
        (step, because(step, visit.zone_name, next(filter(stopped.__contains__, step.after), None))) for step in steps
    ]
    values = {"mission": mission, "graph": graph(mission), "rows": rows}
    return Page("mission.html", mission.name, values, (f"schedule-{mission.id}",))
