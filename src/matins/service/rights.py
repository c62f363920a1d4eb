"""Who may do what. Every use case names the right that it needs; what is not granted is denied."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import signature
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

from matins.engine.agent_rules import PROPOSED
from matins.engine.schedules import FIELDS
from matins.errors import NotAllowed
from matins.model.principal import Principal, Role
from matins.model.schedule import Schedule
from matins.runtime.pausing import BY_BUDGET, BY_FAILURES
from matins.service.values import check_storable

Right = Literal["read", "run", "change", "approve", "operate", "govern"]
GRANTS: Mapping[Role, frozenset[Right]] = {
    "owner": frozenset(["read", "run", "change", "approve", "operate", "govern"]),
    "operator": frozenset(["read", "run", "change", "approve", "operate"]),
    "viewer": frozenset(["read"]),
    "agent": frozenset(["read", "run", "change"]),
}
"""An agent may change and run only what it made itself; what it adds is a proposal."""
P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


def needs(
    right: Right,
) -> Callable[[Callable[Concatenate[S, Principal, P], R]], Callable[Concatenate[S, Principal, P], R]]:
    """Marks a use case with the right that it needs, and refuses those who do not have it."""

    def mark(use_case: Callable[Concatenate[S, Principal, P], R]) -> Callable[Concatenate[S, Principal, P], R]:
        names = tuple(signature(use_case).parameters)[2:]

        @wraps(use_case)
        def checked(self: S, principal: Principal, *arguments: P.args, **options: P.kwargs) -> R:
            check(principal, right, use_case.__name__)
            check_storable({**dict(zip(names, arguments, strict=False)), **options})
            return use_case(self, principal, *arguments, **options)

        checked.right = right  # type: ignore[attr-defined]
        return checked

    return mark


def rights_of(principal: Principal) -> frozenset[Right]:
    """Those of its role, or fewer where its key says so; never more."""
    granted = GRANTS.get(principal.role, frozenset())
    kept = principal.rights
    return granted if kept is None else frozenset(right for right in granted if right in kept)


def check(principal: Principal, right: Right, what: str) -> None:
    if right not in rights_of(principal):
        able = [role for role, rights in GRANTS.items() if right in rights]
        raise NotAllowed(
            f"{principal.name} ({principal.role}) may not do this: {what}",
            value=principal.role,
            field="principal",
            allowed=", ".join(able),
            hint=f"it needs the right to {right}: ask {able[0] if len(able) == 1 else ' or '.join(able)}",
        )


def check_own(principal: Principal, schedule: Schedule) -> None:
    """An agent has a hand only in what it made."""
    if principal.role != "agent":
        return
    if schedule.creator_role != "agent" or schedule.created_by != principal.name:
        raise NotAllowed(
            f'"{schedule.name}" was not made by {principal.name}',
            value=schedule.name,
            field="name",
            hint="agents change and run only what they made; ask the owner",
        )


def check_hand(principal: Principal, schedule: Schedule) -> None:
    """And what people, failures or a budget stopped, an agent does not start again, by whatever way."""
    check_own(principal, schedule)
    stopped = schedule.state in ("paused", "broken") and schedule.paused_by != principal.name
    if principal.role == "agent" and stopped:
        by = {BY_FAILURES: "its failures", BY_BUDGET: "its budget"}.get(schedule.paused_by or "", schedule.paused_by)
        raise NotAllowed(
            f'"{schedule.name}" was paused by {by}', value=schedule.paused_by, field="name", hint="ask the owner"
        )


def check_words(principal: Principal, words: Mapping[str, Any], *, changing: bool) -> None:
    """What decides who is asked, what may be spent and which commands run, only the owner sets. Agents propose it."""
    if principal.role == "agent" or "govern" in rights_of(principal):
        return
    for word, value in words.items():
        # In a change None means the usual again, and so no approval, no cap, no check.
        if FIELDS.get(word, word) in PROPOSED and (changing or value is not None):
            raise NotAllowed(
                f'Only the owner sets "{word}"', value=principal.role, field=word, hint="leave it out, or ask the owner"
            )


def use_cases(service: type[Any]) -> dict[str, Right]:
    """Every use case of a service by name, with the right that it needs."""
    found: dict[str, Right] = {}
    for name in dir(service):
        right = getattr(getattr(service, name), "right", None)
        if right is not None:
            found[name] = right
    return found
