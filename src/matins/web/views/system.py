"""The views of agents, missions, spend, events and settings.

`/agents`: what agents there are, and what one of them does.

`/missions`: schedules with steps, as a graph and as a table.

`/spend`: what was spent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from matins.api._results import Budget
from matins.engine.events import EVENTS
from matins.engine.money import parse_money
from matins.engine.selectors import selector_text
from matins.web.drawings import graph
from matins.web.templates import because
from matins.web.visit import Page, Visit

_PAGE = 50


def settings(visit: Visit) -> Page:
    """What governs, and who is signed in."""
    api = visit.api
    values: dict[str, Any] = {
        "whoami": api.system.whoami(),
        "findings": api.system.doctor(),
        "calendars": api.calendars.list(),
        "nodes": api.nodes.list(),
        "quiet_hours": api.quiet_hours.list(),
        "budgets": api.budgets.list(),
        "hooks": api.hooks.list(),
        "webhooks": api.webhooks.list(),
        "people": api.people.list() if visit.can("people.list") else [],
        "destinations": api.destinations.list() if visit.can("destinations.list") else [],
        "throttles": api.throttles.list(),
        "sessions": api.sessions.list() if visit.can("people.set") else None,
        "tokens": api.tokens.list() if visit.can("people.set") else None,
    }
    return Page("settings.html", "Settings", values, ("nodes", "policys", "sessions", "tokens", "throttles"))


def me(visit: Visit) -> Page:
    """The person who is signed in: browsers, tokens, zone."""
    api = visit.api
    whoami = api.system.whoami()
    person = None if whoami.person is None else api.people.get(whoami.person)
    governs = "govern" in whoami.rights
    values: dict[str, Any] = {
        "whoami": whoami,
        "grants": [] if person is None else person.grants,
        "zone": None if person is None else person.timezone,
        "sessions": api.sessions.list(own=True) if person is not None or governs else [],
        "tokens": api.tokens.list(own=True) if person is not None or governs else [],
    }
    return Page("me.html", whoami.name, values, ("policys", "sessions", "tokens"))


def inbound(visit: Visit) -> Page:
    """Calls from outside: deliveries, chat messages, ends of other runs."""
    values = {
        "endpoints": visit.api.inbound.list(),
        "calls": visit.api.calls.list(before=visit.query.get("before"), limit=_PAGE),
        "size": _PAGE,
    }
    return Page("inbound.html", "Inbound", values, ("calls", "runs"))


def call(visit: Visit) -> Page:
    """One call: what came, and what it started."""
    found = visit.api.calls.get(visit.params["call_id"])
    return Page("call.html", f"Call {found.id}", {"call": found}, ("calls", "runs"))


def more(visit: Visit) -> Page:
    return Page("more.html", "More", {}, ())


_EVENTS_A_PAGE = 100
_ICONS = {
    **{state: state for state in ("succeeded", "failed", "skipped", "missed", "planned", "deferred", "denied")},
    "started": "running", "requested": "waiting", "waiting": "deferred", "paused": "pause", "deleted": "denied",
    "cancelled": "denied", "approved": "succeeded", "resumed": "play", "created": "plus",
    "updated": "edit", "applied": "succeeded",
}  # fmt: skip
_FILTERS = ("group", "schedule", "run")
_GROUPS = {
    "run": "Runs",
    "schedule": "Schedules",
    "approval": "Approvals",
    "throttle": "Throttles",
    "incident": "Incidents",
    "policy": "Records",
    "session": "Sessions",
    "token": "Tokens",
}


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
        "schedules": api.list(select=selector_text(agent=name), limit=_SHOWN),
        "runs": [(run, because(run, visit.zone_name)) for run in runs],
    }
    return Page("agent.html", name, values, ("agents", "policys", "runs"))


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


class Used(NamedTuple):
    spent: str
    limit: str
    part: float
    """The part, in percent."""
    reserved: float


def used(budget: Budget) -> Used:
    """The usage of the fullest of its periods; of tokens where the budget limits no money."""
    usage = max(budget.usage, key=lambda each: (each.money, each.tokens), default=None)
    if budget.max_cost is not None:
        limit = parse_money(budget.max_cost, {}, "max_cost")
        spent = parse_money(usage.money, {}, "money") if usage else 0
        reserved = parse_money(usage.money_reserved, {}, "money") if usage else 0
        return Used(
            usage.money if usage else "$0.00", budget.max_cost, _percent(spent, limit), _percent(reserved, limit)
        )
    limit, spent = int(budget.max_tokens or 0), usage.tokens if usage else 0
    reserved = usage.tokens_reserved if usage else 0
    return Used(f"{spent:,}", f"{limit:,} tokens", _percent(spent, limit), _percent(reserved, limit))


def _percent(part: int, whole: int) -> float:
    return round(min(part / whole, 1.0) * 100, 1) if whole else 0.0


def spend(visit: Visit) -> Page:
    api = visit.api
    values = {"spend": api.system.spend(), "budgets": [(budget, used(budget)) for budget in api.budgets.list()]}
    return Page("spend.html", "Spend", values, ("runs", "policys"))
