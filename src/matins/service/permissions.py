"""Who may do what. Every use case declares the right that it needs; what is not granted is denied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matins.api.use_case import UseCase
from matins.engine.gates.paused import BY_BUDGET, BY_FAILURES
from matins.engine.schedules import SETTINGS
from matins.errors import NotAllowed
from matins.model.access import Principal, Right, Role
from matins.model.schedule import ScheduleRecord

GRANTS: Mapping[Role, frozenset[Right]] = {
    "owner": frozenset(["read", "run", "change", "approve", "operate", "govern"]),
    "operator": frozenset(["read", "run", "change", "approve", "operate"]),
    "viewer": frozenset(["read"]),
    "agent": frozenset(["read", "run", "change"]),
}
"""An agent may change and run only what it made itself; what it adds is a proposal."""
_PLAIN_VERBS = frozenset(
    ["add", "set", "edit", "get", "list", "delete", "pause", "resume", "run", "cancel", "resolve", "approve", "deny",
     "create", "revoke"]
)  # fmt: skip
"""What can be said with its noun: "cancel runs"."""


def rights_of(principal: Principal) -> frozenset[Right]:
    """Those of its role, or fewer where its token has fewer; never more."""
    granted = GRANTS.get(principal.role, frozenset())
    kept = principal.rights
    return granted if kept is None else frozenset(right for right in granted if right in kept)


def governs(principal: Principal) -> bool:
    return "govern" in rights_of(principal)


def check_right(principal: Principal, use_case: UseCase) -> None:
    if use_case.right not in rights_of(principal):
        plain = use_case.verb in _PLAIN_VERBS and use_case.noun.endswith("s")
        what = f"{use_case.verb} {use_case.noun.replace('_', ' ')}" if plain else f"call {use_case.name}"
        check_granted(principal, use_case.right, what)


def check_granted(principal: Principal, right: Right, what: str) -> None:
    """Raise unless the principal has this right. `what`: what it is needed for, as in "create agents"."""
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
    """Raise unless the principal may change this schedule: agents change what they made."""
    if principal.role != "agent":
        return
    if schedule.creator_role != "agent" or schedule.created_by != principal.name:
        raise NotAllowed(
            f'"{schedule.name}" was not made by {principal.name}.',
            value=schedule.name,
            field="name",
            hint="Agents change and run only what they made. Ask the owner.",
        )


def check_not_stopped(principal: Principal, schedule: ScheduleRecord) -> None:
    """Raise where an agent would start again what people, failures or a budget stopped."""
    stopped = schedule.state in ("paused", "broken") and schedule.paused_by != principal.name
    if principal.role == "agent" and stopped:
        by = {BY_FAILURES: "its failures", BY_BUDGET: "its budget"}.get(schedule.paused_by or "", schedule.paused_by)
        message = f'"{schedule.name}" was paused by {by}.'
        raise NotAllowed(message, value=schedule.paused_by, field="name", hint="Ask the owner.")


def check_owner_only(principal: Principal, settings: Mapping[str, Any], *, editing: bool) -> None:
    """Raise where somebody else than the owner sets who is asked, what may be spent, or which commands run. Agents
    propose it."""
    if principal.role == "agent" or governs(principal):
        return
    for name, value in settings.items():
        # In an edit None means the default again, and so no approval, no limit, no check.
        if name in SETTINGS and SETTINGS[name].setting.owner_only and (editing or value is not None):
            hint = "Omit it, or ask the owner."
            raise NotAllowed(f'Only the owner can set "{name}".', value=principal.role, field=name, hint=hint)
