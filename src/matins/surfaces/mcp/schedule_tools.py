"""The tools of schedules: list, get, create, update, delete."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from matins.errors import Conflict, InvalidInput, NotAllowed, NotFound
from matins.surfaces.mcp.answers import fit
from matins.surfaces.mcp.cursors import as_cursor, cursor_of
from matins.surfaces.mcp.instants import instant_of
from matins.surfaces.mcp.principal_calls import Document, PrincipalCalls, brief, count, quote_of, run_brief, whole
from matins.surfaces.mcp.quotes import quoted
from matins.surfaces.mcp.tool import WrongArguments

_PAGE = 200
_MAX_ERRORS = 5
_ZONE = re.compile(r"[A-Za-z]/[A-Z]|\b(?:UTC|GMT)\b|TZ")
"""A time that says its zone itself."""


def list_schedules(calls: PrincipalCalls, given: Document) -> Document:
    limit = given.get("limit", 20)
    matching = list(islice(_matching(calls, given), limit + 1))
    found = matching[:limit]
    answer = fit(
        {"summary": count(len(found), "schedule") + ".", "schedules": [brief(item) for item in found]}, "schedules"
    )
    kept = len(answer["schedules"])
    if kept < len(matching):
        answer["next_cursor"] = as_cursor(found[kept - 1]["id"])
    return answer


def _matching(calls: PrincipalCalls, given: Document) -> Iterator[Document]:
    wanted, after = {"agent": given.get("agent"), "state": given.get("state")}, cursor_of(given)
    while page := calls.call("schedules.list", after=after, limit=_PAGE, **wanted):
        yield from (item for item in page if _matches(calls, item, given))
        after = page[-1]["id"]


def _matches(calls: PrincipalCalls, item: Document, given: Document) -> bool:
    query = given.get("query", "").lower()
    text = f"{item['agent']}/{item['name']} {item['trigger_text']} {item['prompt'] or ''}".lower()
    made = (item["creator_role"], item["created_by"]) == (calls.principal.role, calls.principal.name)
    mine = made or item["agent"] == calls.principal.name
    return query in text and (mine or not given.get("mine"))


def get_schedule(calls: PrincipalCalls, given: Document) -> Document:
    item = calls.call("schedules.get", name=given["name"])
    name = f"{item['agent']}/{item['name']}" if item["agent"] else item["name"]
    coming = calls.call("schedules.preview", name=name)
    runs = calls.call("runs.list", schedule=name, limit=5)
    summary = f"{item['name']}: {item['trigger_text']} ({item['timezone']}), {item['state']}. {coming['standing']}"
    answer: Document = {
        "summary": summary,
        **quote_of(coming),
        "schedule": whole(item),
        "next": [_slot(slot) for slot in coming["slots"]],
        "last": [run_brief(run, item["timezone"]) for run in runs],
        "cost_per_day": coming["cost_per_day"],
    }
    approval = calls.approval_of(item)
    return {**answer, "approval": approval} if approval else answer


def _slot(slot: Document) -> Document:
    return {"at": slot["local"], "verdict": slot["verdict"], "reason": slot["sentence"], **quote_of(slot)}


def _wanted(calls: PrincipalCalls, given: Document) -> Document:
    """The arguments of `add`."""
    plain = ("when", "prompt", "name", "agent", "timezone", "target", "ends_at", "max_cost")
    settings = _settings(given)
    wanted = {name: given[name] for name in plain if name in given}
    if "timezone" not in wanted and "timezone" not in settings and not _ZONE.search(str(given["when"])):
        wanted["timezone"] = calls.zone
    if "agent" not in wanted and calls.principal.role == "agent":
        wanted["agent"] = calls.principal.name
    return {**settings, **wanted}


_NO_SETTINGS = frozenset(["create_agent", "new_agent", "replace", "context", "count", "if_rev", "name", "dry_run"])
"""Arguments of use cases, or of the tool, that are no settings of a schedule."""


def _settings(given: Document) -> Document:
    """The further settings. Raises InvalidInput for those that would be ignored, or are none."""
    settings: Document = given.get("settings", {})
    for name in settings:
        if name in _NO_SETTINGS:
            hint = "Give it beside settings." if name in ("name", "dry_run", "if_rev") else "Omit it."
            raise InvalidInput(f'"{name}" is no setting of a schedule.', field="settings", hint=hint)
        if name in given:
            message = f'"{name}" is given twice: beside settings, and in them.'
            raise InvalidInput(message, field="settings", hint="Give it once.")
    return settings


def create_schedule(calls: PrincipalCalls, given: Document) -> Document:
    wanted = _wanted(calls, given)
    plan = _planned(calls, wanted)
    if isinstance(plan, Conflict) and given.get("dry_run"):
        raise plan
    if not isinstance(plan, Conflict) and given.get("dry_run"):
        forecast = plan["forecast"]
        asks = " A person would have to approve it." if plan["needs_approval"] else ""
        when = f"{forecast['trigger_text']} ({forecast['timezone']})"
        summary = f"Dry run, nothing was written: {forecast['schedule']}, {when}.{asks}"
        return {
            "summary": summary,
            "created": False,
            "needs_approval": plan["needs_approval"],
            "next": [_slot(slot) for slot in forecast["slots"]],
            "cost_per_day": forecast["cost_per_day"],
            **({"notes": plan["notes"]} if plan["notes"] else {}),
        }
    try:
        item, created = _all_errors(calls, "schedules.add", wanted), True
    except Conflict as conflict:
        if conflict.field != "name" or "name" not in wanted:
            raise
        item, created = _same(calls, wanted, conflict), False
    return _made(calls, item, created=created)


def _planned(calls: PrincipalCalls, wanted: Document) -> Document | Conflict:
    """What adding the schedule would do, or the conflict with one of the same name. Raises InvalidInput for settings
    without effect, because a model may not read a note about them."""
    try:
        plan = _all_errors(calls, "schedules.preview_new", wanted)
    except Conflict as conflict:
        return conflict
    idle = [note for note in plan["notes"] if " has no effect: " in note]
    if idle:
        raise InvalidInput(" ".join(idle), field="settings", hint="Omit it, or set what it needs.")
    return plan


def _same(calls: PrincipalCalls, wanted: Document, conflict: Conflict) -> Document:
    """The schedule that has the name, if it is what is wanted. Otherwise a conflict that names the tool."""
    rest = {name: value for name, value in wanted.items() if name not in ("name", "agent")}
    named = {"name": wanted["name"], **({"agent": wanted["agent"]} if wanted.get("agent") else {})}
    try:
        changes = calls.send("schedules.preview_edit", {**named, **rest})["settings"]
    except NotAllowed:  # it is not the agent's own
        raise conflict from None
    differing = [change["setting"] for change in changes if change["setting"] in rest]
    if differing:
        hint = f"To change {', '.join(differing)}, call update_schedule."
        raise Conflict(conflict.message, value=wanted["name"], field="name", hint=hint) from None
    return calls.send("schedules.get", named)


def _made(calls: PrincipalCalls, item: Document, *, created: bool) -> Document:
    name = f"{item['agent']}/{item['name']}" if item["agent"] else item["name"]
    coming, approval = calls.call("schedules.preview", name=name, count=3), calls.approval_of(item)
    verb = "Created" if created else "There is already"
    summary = f"{verb} {item['name']}: {item['trigger_text']} ({item['timezone']})."
    if approval is not None:
        summary += f" It waits for a person and does not run before. Give the person this link: {approval['url']}"
    answer: Document = {"summary": summary, "created": created, "schedule": brief(item)}
    answer |= {"next": [_slot(slot) for slot in coming["slots"]], "cost_per_day": coming["cost_per_day"]}
    answer |= {"notes": item["notes"]} if item["notes"] else {}
    return {**answer, "approval": approval} if approval else answer


def _all_errors(calls: PrincipalCalls, use_case: str, wanted: Document) -> Document:
    """The result. If several settings are wrong, one error names all of them."""
    try:
        return calls.send(use_case, wanted)
    except InvalidInput as first:
        errors, rest = [first], dict(wanted)
        while len(errors) < _MAX_ERRORS and errors[-1].field in rest:
            del rest[str(errors[-1].field)]
            error = _error_of(calls, {**({"when": "1h"} if "when" not in rest else {}), **rest})
            if error is None or error.field not in rest:
                break
            errors.append(error)
        raise (first if len(errors) == 1 else WrongArguments(errors)) from None


def _error_of(calls: PrincipalCalls, wanted: Document) -> InvalidInput | None:
    try:
        calls.send("schedules.preview_new", wanted)
    except InvalidInput as error:
        return error
    return None


def update_schedule(calls: PrincipalCalls, given: Document) -> Document:
    given, name = dict(given), given["name"]
    if given.get("agent"):
        name = given["name"] = f"{given['agent']}/{name.rpartition('/')[2]}"
    edits = {**_settings(given), **{key: given[key] for key in ("when", "prompt", "timezone") if key in given}}
    before = calls.call("schedules.get", name=name)
    if not edits and "paused" not in given:
        hint = "Give when, prompt, timezone, paused or settings."
        raise InvalidInput("There is nothing to change.", field="name", hint=hint)
    plan = calls.send("schedules.preview_edit", {"name": name, **edits}) if edits else None
    changed: list[Document] = plan["settings"] if plan else []
    changes = [_change(one) for one in changed]
    if given.get("dry_run"):
        coming = plan["after"] if plan else calls.call("schedules.preview", name=name)
        summary = f"Dry run, nothing was written: {count(len(changes), 'setting')} of {before['name']} would change."
        return {"summary": summary, "changes": changes, "next": [_slot(slot) for slot in coming["slots"]]}
    if edits:
        known = {"if_rev": given["if_rev"]} if "if_rev" in given else {}
        calls.send("schedules.edit", {"name": name, **known, **edits})
    if "paused" in given:
        changes.append(_set_paused(calls, given, before))
    item = calls.call("schedules.get", name=name)
    return {**_made(calls, item, created=False), "summary": _updated(item, changes), "changes": changes}


def _change(change: Document) -> Document:
    before, after = (quoted(f"the setting {when}", change[when]) for when in ("before", "after"))
    return {"setting": change["setting"], "before": before, "after": after}


def _set_paused(calls: PrincipalCalls, given: Document, before: Document) -> Document:
    """Pause or resume the schedule. Returns the change."""
    if given["paused"]:
        until = instant_of(calls, given, "until", future=True)
        calls.call("schedules.pause", name=given["name"], until=until, note=given.get("note"))
    else:
        until = None
        calls.call("schedules.resume", name=given["name"])
    change = {"setting": "paused", "before": before["state"] == "paused", "after": given["paused"]}
    return change if until is None else {**change, "until": until.isoformat(timespec="seconds")}


def _updated(item: Document, changes: list[Document]) -> str:
    names = ", ".join(change["setting"] for change in changes) or "nothing"
    waits = " The change waits for a person." if item["state"] == "pending" else ""
    until = next((f" until {change['until']}" for change in changes if "until" in change), "")
    when = f"{item['trigger_text']} ({item['timezone']})"
    return f"Changed {names} of {item['name']}: {when}, {item['state']}{until}.{waits}"


def delete_schedule(calls: PrincipalCalls, given: Document) -> Document:
    try:
        item = calls.call("schedules.get", name=given["name"])
    except NotFound as error:  # a second call does no harm
        return {"summary": " ".join(filter(None, (error.message, error.hint))), "removed": False}
    if given.get("dry_run"):
        return {"summary": f"Dry run: {item['name']} would be deleted. Its history is kept.", "removed": False}
    removed = bool(calls.call("schedules.delete", name=given["name"]))
    return {"summary": f"Deleted {item['name']}. Its history is kept.", "removed": removed}
