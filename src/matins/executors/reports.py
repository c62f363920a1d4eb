"""One kind of outcome, whatever the tool: executed, succeeded and delivered are three things."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import Any

from matins.engine.policies import Policies
from matins.engine.prices import estimate, price_of
from matins.errors import MatinsError
from matins.executors.processes.values import Fate
from matins.executors.runners.base import Call, Told
from matins.executors.runners.events import without_escapes
from matins.model.run import Conversation, Outcome, ProviderLimit, Usage
from matins.model.thread import Landing

_LONGEST_TEXT = 32_000
_ENDED = {
    "wall": "it ran longer than it may",
    "idle": "it said nothing for longer than it may",
    "memory": "it took more memory than it may",
    "processes": "it started more processes than it may",
    "budget": "it spent more than it may",
}


def outcome_of(call: Call, told: Told, fate: Fate, landing: Landing | None, policies: Policies, now: int) -> Outcome:
    """What a run came to, from what its tool said and what became of its process."""
    told = replace(told, session=told.session or call.session or call.new_session)
    usage = usage_of(call, told, policies)
    succeeded = told.succeeded and fate.kind == "finished" and fate.ended_by in (None, "after_final")
    error = None if succeeded else _why(told, fate)
    limit = None
    if told.limit is not None and not succeeded:
        limit = ProviderLimit(told.limit.provider, told.limit.until(fate.ended_at or now), told.limit.reason)
    return Outcome(
        succeeded,
        result=report(told, fate, landing, usage),
        error=error,
        timed_out=fate.ended_by in ("wall", "idle"),
        cancelled=fate.ended_by == "asked",
        usage=usage,
        limit=limit,
        over_budget=told.stopped_by == "money" or fate.ended_by == "budget",
        told=Conversation(call.prompt, shown(told.text), told.session, _session_tokens(told, landing)),
        lost=fate.kind in ("unknown", "orphaned"),
    )


def unreadable(why: Exception, fate: Fate) -> Outcome:
    """Of a run that is over, and nobody can tell how it went; that it was asked to end is known all the same."""
    said = why.message if isinstance(why, MatinsError) else f"{type(why).__name__}: {why}"
    ended = "It is over" if fate.exit_code is None else f"It ended with exit code {fate.exit_code}"
    asked = fate.ended_by == "asked"
    return Outcome(False, error=f"{ended}, but what it said cannot be read: {said}", cancelled=asked, lost=not asked)


def usage_of(call: Call, told: Told, policies: Policies) -> Usage:
    """The money that the tool told, else what the tokens come to by the price table."""
    tokens = told.tokens_in + told.tokens_out + told.tokens_cached
    if told.cost_usd is not None and told.cost_reported:
        return Usage(round(told.cost_usd * 1_000_000), tokens)
    model = call.model or told.model
    price = price_of(model, policies.prices) if model else None
    money = estimate(price, told.tokens_in, told.tokens_out, told.tokens_cached) if price else 0
    return Usage(money, tokens, estimated=True)


def report(told: Told, fate: Fate, landing: Landing | None, usage: Usage) -> dict[str, Any]:
    """As it is kept with the run."""
    return {
        "executed": told.executed,
        "succeeded": told.succeeded,
        "delivered": landing is not None and bool(told.text),
        "declared": told.declared,
        "reason": told.reason,
        "session": told.session,
        "thread": None if landing is None else str(landing.thread.id),
        "turns": told.turns,
        "tokens": {"in": told.tokens_in, "out": told.tokens_out, "cached": told.tokens_cached},
        "money": {"micro_dollars": usage.money, "estimated": usage.estimated},
        "text": shown(told.text),
        "structured": told.structured,
        "denials": list(told.denials),
        "transcript": fate.stdout_path or None,
        "exit_code": fate.exit_code,
        "ended_by": fate.ended_by,
        "truncated": fate.truncated,
        "leftovers": fate.leftovers,
    }


def shown(text: str) -> str:
    """Bounded, and without what would steer a terminal."""
    return without_escapes(text)[:_LONGEST_TEXT]


def _why(told: Told, fate: Fate) -> str:
    if fate.error:
        return f"It was not started: {fate.error}"
    if fate.ended_by in _ENDED:
        return f"{_ENDED[fate.ended_by].capitalize()}, and was ended"
    if told.declared == "failed":
        return f"It said that it failed: {told.reason or 'no reason given'}"
    if told.error:
        return shown(told.error)[:2_000]
    if fate.signal is not None:
        return f"It was ended by {signal.Signals(fate.signal).name}"
    if not told.executed:
        return f"It ended with exit code {fate.exit_code}, without its final event"
    return f"It ended with exit code {fate.exit_code}"


def _session_tokens(told: Told, landing: Landing | None) -> tuple[int, int, int] | None:
    """What the session had before, and what this run added."""
    before = landing.thread.tokens if landing and landing.thread.session else (0, 0, 0)
    now = (told.tokens_in, told.tokens_out, told.tokens_cached)
    return before[0] + now[0], before[1] + now[1], before[2] + now[2]
