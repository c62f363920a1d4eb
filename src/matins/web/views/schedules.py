"""`/schedules`: the list, one schedule with its Why?, and the form for a new one or an edit."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, get_args

from matins.api.results import Explanation, Run
from matins.engine.inputs import declared_in
from matins.errors import InvalidInput, MatinsError
from matins.model.overview import ScheduleSort, ScheduleTab
from matins.model.schedule import Input, ScheduleDefinition, TriggerSettings
from matins.model.settings import settings_of
from matins.model.words import joined
from matins.surfaces.text_values import from_text
from matins.web.drawings import bar_of, heat, slot_bar
from matins.web.templates import because, beside, usage
from matins.web.visit import Page, Visit

_PAGE = 50
_TABS = {
    "all": "All",
    "active": "Active",
    "attention": "Needs attention",
    "paused": "Paused",
    "agents": "Made by agents",
}
_EXAMPLES = ("every weekday at 9am", "30 2 * * *", "every 10 minutes", "in 2 hours", "first monday of the month at 9")
_COUNT = 5
_FIELDS = ("prompt", "timezone", "quiet_hours", "overlap", "catch_up", "approval", "max_cost", "timeout", "retries")
_SETTINGS = settings_of(ScheduleDefinition, TriggerSettings)
_HISTORY = 30


def index(visit: Visit) -> Page:
    query, api = visit.query, visit.api
    select = query.get("q", "").strip() or None
    tab: ScheduleTab = _one_of(ScheduleTab, query.get("tab"), "all")
    sort: ScheduleSort = _one_of(ScheduleSort, query.get("sort"), "next")
    after = query.get("after") if sort == "created" else None
    wrong: MatinsError | None = None
    try:
        found = api.list(tab=tab, select=select, sort=sort, bars=_HISTORY, after=after, limit=_PAGE)
    except InvalidInput as error:  # what a person is still writing
        found, select, wrong = [], None, error
    rows = [(schedule, bar_of(schedule.bars, visit.zone, visit.now)) for schedule in found]
    values = {
        "rows": rows,
        "wrong": wrong,
        "counts": api.counts(select=select),
        "size": _PAGE,
        "tabs": _TABS,
        "tab": tab,
        "sort": sort,
    }
    return Page("schedules.html", "Schedules", values, ("schedules", "runs", "approvals"))


def _one_of(choices: Any, given: str | None, default: Any) -> Any:
    return given if given in get_args(choices) else default


def show(visit: Visit) -> Page:
    name, api = visit.params["name"], visit.api
    schedule = api.get(name)
    at = visit.query.get("at")
    runs = api.runs.list(schedule=schedule.name, agent=schedule.agent, limit=_HISTORY)
    values: dict[str, Any] = {
        "schedule": schedule,
        "why": api.why(schedule.name, agent=schedule.agent, at=at or None),
        "asked": at,
        "usual": api.usual(schedule.name, agent=schedule.agent),
        "forecast": api.preview(schedule.name, agent=schedule.agent, count=_COUNT),
        "past_slots": slot_bar(runs, visit.zone, visit.now, schedule.timezone),
        "ran": sum(run.started_at is not None for run in runs),
        "history": [(run, because(run, schedule.timezone), usage(run)) for run in runs],
        "slots": _slots(runs),
        "heat": heat(api.calendar(schedule.name, agent=schedule.agent)),
        "inputs": [_field(one) for one in declared_in(schedule.settings)],
    }
    slots = values["forecast"].slots
    # An interval that is measured from the last run has only its next one.
    values["coming"] = slots[:1] if schedule.trigger.get("anchor") == "completion" else slots
    values["answer"] = _said(values["why"])
    may_send = values["forecast"].unsent is not None and visit.can("deliver.edit")
    first = next(iter(api.destinations.list()), None) if may_send else None
    values["send_to"] = first and {"name": first.name, "body": json.dumps({"to": [first.name]})}
    return Page("schedule.html", schedule.name, values, (f"schedule-{schedule.id}",))


def _field(one: Input) -> dict[str, Any]:
    """A declared input, with its default as the form shows it."""
    options = ("true", "false") if one.type == "bool" else one.values
    shown = json.dumps(one.default, ensure_ascii=False) if one.type in ("json", "bool") else str(one.default)
    return {**one._asdict(), "options": options, "shown": "" if one.default is None else shown}


def _slots(runs: list[Run]) -> list[datetime]:
    """The slots that the Why? panel offers."""
    return [run.slot for run in runs if run.slot is not None][:20]


def _said(why: Explanation) -> str:
    """The answer. The heading says the slot of a record, and its state."""
    if why.run is None or why.run.run.slot is None:
        return joined(why.summary, why.quote)
    return beside(why.run.run.state, joined(why.summary.partition(": ")[2], why.quote))


def new(visit: Visit) -> Page:
    settings: dict[str, Any] = {"timezone": visit.zone_name}  # "at 9" is nine o'clock where the person is
    values = {**_form(visit), "schedule": None, "settings": settings, "examples": _EXAMPLES}
    return Page("schedule_form.html", "New schedule", values, ())


def edit(visit: Visit) -> Page:
    schedule = visit.api.get(visit.params["name"])
    values = {**_form(visit), "schedule": schedule, "settings": schedule.settings, "examples": _EXAMPLES}
    return Page("schedule_form.html", f"Edit {schedule.name}", values, ())


def _form(visit: Visit) -> dict[str, Any]:
    api = visit.api
    return {"agents": api.agents.list(), "quiet_hours": api.quiet_hours.list(), "jobs": api.system.jobs()}


def reads(visit: Visit) -> Page:
    """What the form means: the text, the next fires with their verdicts, and what would be refused."""
    query = visit.query
    text = query.get("when", "").strip()
    values: dict[str, Any] = {"text": text, "preview": None, "error": None, "forecast": None, "refused": None}
    if text:
        try:
            values["preview"] = visit.api.next_times(text, timezone=query.get("timezone") or None, count=_COUNT)
        except MatinsError as error:
            values["error"] = error
        else:
            values |= _forecast(visit, text)
    return Page("_reads.html", "Preview", values)


def _forecast(visit: Visit, text: str) -> dict[str, Any]:
    """What the schedule would do; or what `add` or `edit` would refuse."""
    given: dict[str, Any] = {name: value for name in _FIELDS if (value := visit.query.get(name))}
    given |= {name: from_text(_SETTINGS[name], value) for name, value in given.items() if name in _SETTINGS}
    try:
        if name := visit.query.get("edited"):
            return {"forecast": visit.api.preview_edit(name, when=text, **given).after}
        given.setdefault("prompt", "…")
        agent = visit.query.get("agent", "")
        return {"forecast": visit.api.preview_new(when=text, agent=agent, **given).forecast}
    except MatinsError as error:
        return {"refused": error}
