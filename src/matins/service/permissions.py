"""Permissions: every use case declares the right that it needs. Rights that are not granted are denied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from matins.api.use_case import UseCase
from matins.engine.gates.state import BY_BUDGET, BY_FAILURES
from matins.engine.schedules import SETTINGS, STEP_SETTINGS
from matins.errors import NotAllowed, SignInAgain
from matins.model.access import Grant, Principal, Right, Role, name_of
from matins.model.schedule import ScheduleDefinition, ScheduleRecord
from matins.model.settings import Command, Table

GRANTS: Mapping[Role, frozenset[Right]] = {
    "owner": frozenset(["read", "run", "change", "approve", "operate", "govern"]),
    "operator": frozenset(["read", "run", "change", "approve", "operate"]),
    "viewer": frozenset(["read"]),
    "agent": frozenset(["read", "run", "change"]),
}
"""An agent changes and runs only schedules that it created. A schedule that it adds is a proposal."""
FRESH_MS = 3_600_000
_PLAIN_VERBS = frozenset(
    ["add", "set", "edit", "get", "list", "delete", "pause", "resume", "run", "cancel", "resolve", "approve", "deny",
     "create", "revoke"]
)  # fmt: skip
"""Verbs that form a phrase with their noun: "cancel runs"."""


def rights_of(principal: Principal) -> frozenset[Right]:
    """The rights of the role, restricted by the token."""
    granted = GRANTS.get(principal.role, frozenset())
    kept = principal.rights
    return granted if kept is None else frozenset(right for right in granted if right in kept)


def governs(principal: Principal) -> bool:
    return "govern" in rights_of(principal)


def check_right(principal: Principal, use_case: UseCase) -> None:
    own = use_case.own and principal.person is not None and principal.token is None
    if not own and use_case.right not in rights_of(principal):
        plain = use_case.verb in _PLAIN_VERBS and use_case.noun.endswith("s")
        what = f"{use_case.verb} {use_case.noun.replace('_', ' ')}" if plain else f"call {use_case.name}"
        check_granted(principal, use_case.right, what)


def check_fresh(principal: Principal, now: int) -> None:
    """Raise if the browser of a session signed in too long ago for what gives rights away, or cannot be undone."""
    if principal.signed_in_at is not None and now - principal.signed_in_at > FRESH_MS:
        message = "This needs a sign-in within the last hour."
        raise SignInAgain(message, field="principal", hint="Sign in again, at /login, then repeat it.")


def check_granted(principal: Principal, right: Right, what: str) -> None:
    """Raise unless the principal has this right. `what` is the action, as in "create agents"."""
    if right not in rights_of(principal):
        roles = ", ".join(role for role, rights in GRANTS.items() if right in rights)
        raise NotAllowed(
            f'The role "{principal.role}" cannot {what}.',
            value=principal.role,
            field="principal",
            allowed=roles,
            hint=f'This needs the "{right}" right ({roles}).',
        )


def check_own(principal: Principal, schedule: ScheduleRecord) -> None:
    """Raise unless the principal may change this schedule. Agents change only schedules that they created."""
    if principal.role != "agent":
        return
    if schedule.creator_role != "agent" or schedule.created_by != principal.who:
        raise NotAllowed(
            f'"{schedule.name}" was not made by {principal.name}.',
            value=schedule.name,
            field="name",
            hint="Agents change and run only what they made. Ask the owner.",
        )


def covers(grants: Iterable[Grant], agent: str, definition: ScheduleDefinition) -> bool:
    """Whether grants are for a schedule with these settings: for its agent, and for those of its steps."""
    labels = (definition.labels or {}).items()
    agents = {agent, *(step.agent for step in definition.steps if step.agent)}
    return all(
        any((not one.agents or each in one.agents) and (one.labels or {}).items() <= labels for one in grants)
        for each in agents
    )


def check_reach(principal: Principal, agent: str, definition: ScheduleDefinition) -> None:
    """Raise if the principal acts by grants that are not for a schedule with these settings. Whatever is read, written
    or started for it is checked, so no way of changing a schedule moves it in or out."""
    if principal.granted and not covers(principal.granted, agent, definition):
        steps = {step.agent for step in definition.steps if step.agent} - {agent}
        shown = ", ".join(
            [agent or "no agent", *sorted(steps), *(f"{k}={v}" for k, v in (definition.labels or {}).items())]
        )
        message = f"The grants of {principal.name} do not cover this schedule: {shown}."
        hint = f"Ask the owner: matins people grant {principal.person}"
        raise NotAllowed(message, value=principal.name, field="principal", hint=hint)


def check_not_stopped(principal: Principal, schedule: ScheduleRecord) -> None:
    """Raise if an agent would resume a schedule that a person, failures or a budget paused."""
    stopped = schedule.state in ("paused", "broken") and schedule.paused_by != principal.who
    if principal.role == "agent" and stopped:
        by = {BY_FAILURES: "its failures", BY_BUDGET: "its budget"}.get(
            schedule.paused_by or "", name_of(schedule.paused_by or "")
        )
        message = f'"{schedule.name}" was paused by {by}.'
        raise NotAllowed(message, value=by, field="name", hint="Ask the owner.")


def proposed_settings(principal: Principal, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The commands of a new schedule that an operator proposes: the owner decides about them."""
    if principal.role != "operator":
        return ()
    return tuple(
        name
        for name, value in settings.items()
        if value is not None and name in SETTINGS and isinstance(SETTINGS[name].kind, Command)
    )


def check_owner_only(principal: Principal, settings: Mapping[str, Any], *, editing: bool) -> None:
    """Raise if a principal other than the owner sets approvals, spending limits or commands. Agents propose them, and
    operators propose the commands of new schedules."""
    if principal.role == "agent":
        chosen = [name for name in ("model", "effort") if settings.get(name) is not None]
        if chosen:
            message = f'Agents do not choose "{chosen[0]}": it decides what their runs cost.'
            raise NotAllowed(message, value=principal.role, field=chosen[0], hint="Omit it, or ask the owner.")
        return
    if governs(principal):
        return
    steps = settings.get("steps")
    listed = cast("list[Any]", steps) if isinstance(steps, (list, tuple)) else []
    for number, step in enumerate(listed, 1):
        if isinstance(step, Mapping):
            _check_owner_only(principal, cast("Mapping[str, Any]", step), STEP_SETTINGS, f"steps[{number}].")
    proposed = () if editing else proposed_settings(principal, settings)
    others = {name: value for name, value in settings.items() if name not in proposed}
    _check_owner_only(principal, others, SETTINGS, editing=editing)


def _check_owner_only(
    principal: Principal, settings: Mapping[str, Any], table: Table, place: str = "", *, editing: bool = False
) -> None:
    for name, value in settings.items():
        # In an edit None resets the setting: no approval, no limit, no check.
        if name in table and table[name].setting.owner_only and (editing or value is not None):
            hint, field = "Omit it, or ask the owner.", place + name
            raise NotAllowed(f'Only the owner can set "{field}".', value=principal.role, field=field, hint=hint)
