"""Limits: the maximum number of concurrent runs."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from matins.engine.validation import nearest
from matins.errors import InvalidInput
from matins.model.settings import Int, Setting
from matins.records.kind import Column, Document, RecordContext, RecordKind
from matins.records.storage import LimitStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from matins.store.transaction import Transaction

_AGENT = "agent:"


@dataclass(frozen=True, slots=True)
class Limit:
    scope: str
    size: Annotated[int, Setting(Int(1, 10_000), "Maximum number of concurrent runs.", 4, required=True)]


def scope_of(agent: str) -> str:
    return _AGENT + agent


def _check_scope(limit: Limit, context: RecordContext) -> Limit:
    from matins.runtime.catalog import GLOBAL

    if limit.scope == GLOBAL or (limit.scope.startswith(_AGENT) and len(limit.scope) > len(_AGENT)):
        return limit
    hint = 'Use "global", or "agent:NAME".'
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
    file_help="Maximum number of concurrent runs: global, or agent:NAME.",
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
