"""`/agents`: what agents there are, and what one of them does."""

from __future__ import annotations

from collections import Counter

from matins.surfaces.web.sentences import because
from matins.surfaces.web.visit import Page, Visit

_SHOWN = 50


def agents(visit: Visit) -> Page:
    api = visit.api
    running = Counter(each.agent for each in api.runs.live() if each.run.state == "running")
    spent = {share.name: share.cost for share in api.system.spend().agents}
    found = {finding.what: finding for finding in api.system.doctor()}
    rows = [
        (agent, running[agent.name], spent.get(agent.name, ""), found.get(f"agent {agent.name}"))
        for agent in api.agents.list()
    ]
    values = {"rows": rows, "running": running.total(), "limits": api.limits.list()}
    return Page("agents.html", "Agents", values, ("agents", "policys", "runs"))


def show_agent(visit: Visit) -> Page:
    api, name = visit.api, visit.params["name"]
    agent = api.agents.get(name)
    runs = api.runs.list(agent=name, limit=20)
    values = {
        "agent": agent,
        "rules": next((rules for rules in api.agent_rules.list() if rules.agent == name), None),
        "schedules": api.list(agent=name, limit=_SHOWN),
        "runs": [(run, because(run, visit.zone_name)) for run in runs],
    }
    return Page("agent.html", name, values, ("agents", "policys", "runs"))
