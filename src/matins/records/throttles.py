"""Throttles: providers whose rate limit is reached, and when the limit resets."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from matins.errors import InvalidInput
from matins.model.access import name_of
from matins.model.settings import Instant, Names, Setting, Text
from matins.records.kind import Column, Document, RecordContext, RecordKind
from matins.records.storage import ThrottleStorage

if TYPE_CHECKING:
    from collections.abc import Callable

    from matins.store.transaction import Transaction


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
