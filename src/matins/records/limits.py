"""Limits and throttles.

Limits: of all runs, of an agent's, or of those of the schedules with a label.

Throttles: providers whose rate limit is reached, and when the limit resets.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from matins.engine.validation import nearest
from matins.errors import InvalidInput
from matins.model.access import name_of
from matins.model.settings import Instant, Int, Names, Setting, Text
from matins.records.kind import Column, Document, LimitStorage, RecordContext, RecordKind, ThrottleStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from matins.store.transaction import Transaction


_AGENT = "agent:"
_LABELLED = re.compile(r"label\.[^=]+=.+")


@dataclass(frozen=True, slots=True)
class Limit:
    scope: str
    size: Annotated[int, Setting(Int(1, 10_000), "Maximum number of concurrent runs.", 4, required=True)]


def scope_of(agent: str) -> str:
    return _AGENT + agent


def _check_scope(limit: Limit, context: RecordContext) -> Limit:
    from matins.runtime.catalog import GLOBAL

    of_agent = limit.scope.startswith(_AGENT) and len(limit.scope) > len(_AGENT)
    if limit.scope == GLOBAL or of_agent or _LABELLED.fullmatch(limit.scope):
        return limit
    hint = 'Use "global", "agent:NAME", or "label.team=ops".'
    raise InvalidInput(f'"{limit.scope}" is not the scope of a limit.', value=limit.scope, field="scope", hint=hint)


def _without_effect(limit: Limit, known: "Callable[[str], Collection[str]]") -> list[str]:
    agent = limit.scope.removeprefix(_AGENT)
    if agent == limit.scope or agent in (agents := known("agents")):
        return []
    hint = nearest(agent, sorted(agents)) if agents else f"Create it: matins agents set {agent} --runner claude"
    return [f'The limit has no effect: there is no agent "{agent}". {hint}']


def _in_use(transaction: "Transaction", now: int) -> "Callable[[Limit], Document]":
    in_use = {row.scope: row.in_use for row in transaction.limits()}
    return lambda limit: {"in_use": in_use.get(limit.scope, 0)}


LIMITS = RecordKind(
    kind="limit",
    noun="limits",
    one="limit",
    key="scope",
    value=Limit,
    help="Manage concurrency limits.",
    file_help="Maximum number of concurrent runs: global, agent:NAME, or label.KEY=VALUE.",
    storage=LimitStorage(),
    alone="size",
    complete=_check_scope,
    state=_in_use,
    state_types={"in_use": "int", "notes": "list[str] = []"},
    notes=_without_effect,
    columns=(
        Column("SCOPE", "scope"),
        Column("SIZE", "size", right=True),
        Column("IN USE", "in_use", right=True),
    ),
    example="matins limits set global 4",
)


@dataclass(frozen=True, slots=True)
class RateLimit:
    provider: str
    resets_at: Annotated[
        int, Setting(Instant(), "When the provider serves again.", "2099-12-31T18:00:00Z", required=True)
    ]
    affects: Annotated[
        tuple[str, ...], Setting(Names(empty=True), "Agents that it affects; default: all.", ["scout"])
    ] = ()
    reason: Annotated[str, Setting(Text(500, lines=True), "Reason for the throttle.", "rate limited")] = "set by hand"


def _check(limit: RateLimit, context: RecordContext) -> RateLimit:
    if limit.resets_at <= context.now:
        message = '"resets_at" must be in the future.'
        raise InvalidInput(message, value=limit.resets_at, field="resets_at", hint="For example: 2099-12-31T18:00Z.")
    return limit


def _state(transaction: "Transaction", now: int) -> "Callable[[RateLimit], Document]":
    from matins.engine.when.triggers import to_datetime

    held = {throttle.provider: throttle for throttle in transaction.throttles()}
    return lambda limit: {
        "activated_at": to_datetime(held[limit.provider].activated_at), "by": name_of(held[limit.provider].by)
    }  # fmt: skip


def _holds(limit: RateLimit, now: int) -> bool:
    return limit.resets_at > now


def _affects(document: Document) -> str:
    return ", ".join(document["affects"]) or "all"


THROTTLES = RecordKind(
    kind="throttle",
    noun="throttles",
    one="throttle",
    key="provider",
    value=RateLimit,
    help="Manage provider rate limits.",
    storage=ThrottleStorage(),
    right="operate",
    in_file=False,
    complete=_check,
    wakes="throttled",
    holds=_holds,
    state=_state,
    state_types={"activated_at": "datetime", "by": "str"},
    columns=(
        Column("PROVIDER", "provider"),
        Column("UNTIL", "resets_at", instant=True),
        Column("AGENTS", _affects),
        Column("REASON", "reason"),
        Column("BY", "by"),
    ),
    example="matins throttles set anthropic --resets-at 2h",
)
