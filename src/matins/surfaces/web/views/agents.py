"""`/agents`: what agents there are, and what one of them does."""

from __future__ import annotations

from matins.surfaces.web.sentences import because
from matins.surfaces.web.visit import Page, Visit

_SHOWN = 50


def index(visit: Visit) -> Page:
    api = visit.api
    running = api.runs.list(state="running", limit=500)
    values = {"agents": api.agents.list(), "running": len(running), "limits": api.limits.list()}
    return Page("agents.html", "Agents", values, ("agents", "policys", "runs"))


def show(visit: Visit) -> Page:
    api, name = visit.api, visit.params["name"]
    agent = api.agents.get(name)
    runs = api.runs.list(agent=name, limit=20)
    values = {
        "agent": agent,
        "schedules": api.list(agent=name, limit=_SHOWN),
        "runs": [(run, because(run, visit.zone_name)) for run in runs],
    }
    return Page("agent.html", name, values, ("agents", "policys", "runs"))
