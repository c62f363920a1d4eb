"""One kind of outcome for all tools: executed and succeeded are separate facts. Delivered is a third, which is known
only when something has left this machine: `RunFacts.delivered`."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import Any

from matins.engine.policies import Policies
from matins.engine.prices import estimate, price_of
from matins.engine.reasons import AND_ENDED, LAST_PROBLEM, TIMEOUTS
from matins.errors import MatinsError
from matins.executors.processes.launch import ProcessOutcome
from matins.executors.runners.protocol import Call, RunnerResult
from matins.executors.runners.tool_events import without_escapes
from matins.model.job import Errand
from matins.model.run import AgentTurn, Outcome, ProviderLimit, Usage
from matins.model.thread import ThreadAssignment

_MAX_TEXT_LENGTH = 32_000
_MAX_END_LENGTH = 8_000
_ENDED = {
    "supervisor": "the run stopped its supervisor,",
    "timeout": TIMEOUTS[0],
    "idle_timeout": TIMEOUTS[1],
    "memory": "the run exceeded its memory limit",
    "processes": "the run exceeded its process limit",
    "cpu": "the run exceeded its CPU limit",
    "file_size": "the run exceeded its limit for the size of a file",
    "budget": "the run exceeded its spending limit",
}


def outcome_of(
    call: Call,
    result: RunnerResult,
    process: ProcessOutcome,
    assignment: ThreadAssignment | None,
    policies: Policies,
    now: int,
) -> Outcome:
    """The outcome of a run, from the result of the tool and the outcome of the process."""
    result = replace(result, session=result.session or call.session or call.new_session)
    usage = usage_of(call, result, policies)
    succeeded = result.succeeded and process.kind == "finished" and process.ended_by in (None, "exit_timeout")
    error = None if succeeded else _failure_text(result, process)
    if succeeded and result.all_denied:
        succeeded, error = False, f"all tool calls were denied: {'; '.join(result.denials[:3])}"
    return Outcome(
        succeeded,
        result=outcome_document(result, process, assignment, usage),
        error=error,
        timed_out=process.ended_by in ("timeout", "idle_timeout"),
        cancelled=process.ended_by == "cancelled",
        usage=usage,
        limit=None if succeeded else _limit(result, process, now),
        over_budget=result.stopped_by == "money" or process.ended_by == "budget",
        turn=AgentTurn(call.prompt, kept_text(result), result.session, _session_usage(result, assignment)),
        denials=result.denials,
        lost=process.kind in ("unknown", "orphaned"),
    )


def with_report(result: RunnerResult, reported: tuple[str, str | None] | None) -> RunnerResult:
    """The result with the outcome that the agent reported by a call. The last line of its last message is a later word,
    and counts instead. No report makes a success of a failure."""
    if reported is None or result.declared is not None:
        return result
    outcome, reason = reported
    if outcome == "failed" and result.succeeded:
        error = reason or "the agent reported a failure"
        return replace(result, succeeded=False, error=error, declared="failed", reason=reason)
    declared = outcome if outcome in ("failed", "nothing") else None
    return replace(result, declared=declared, reason=reason)


def unreadable(error: Exception, process: ProcessOutcome) -> Outcome:
    """The outcome of a run that is over and cannot be read: cancelled if that was requested, otherwise lost."""
    text = error.message if isinstance(error, MatinsError) else f"{type(error).__name__}: {error}"
    ended = "the run is over" if process.exit_code is None else f"the run ended with exit code {process.exit_code}"
    was_cancelled = process.ended_by == "cancelled"
    return Outcome(
        False,
        error=f"{ended}, but its output cannot be read: {text}",
        cancelled=was_cancelled,
        lost=not was_cancelled,
    )


def usage_of(call: Call, result: RunnerResult, policies: Policies) -> Usage:
    """The reported cost; otherwise the cost of the tokens by the price table."""
    tokens = result.tokens_in + result.tokens_out + result.tokens_cached
    if result.cost_usd is not None and result.cost_reported:
        return Usage(round(result.cost_usd * 1_000_000), tokens, invalid=result.cost_invalid)
    model = call.model or result.model
    price = price_of(model, policies.prices) if model else None
    money = estimate(price, result.tokens_in, result.tokens_out, result.tokens_cached) if price else 0
    return Usage(money, tokens, estimated=True, invalid=result.cost_invalid)


def outcome_document(
    result: RunnerResult, process: ProcessOutcome, assignment: ThreadAssignment | None, usage: Usage
) -> dict[str, Any]:
    """The outcome as it is stored with the run."""
    return {
        "executed": result.executed,
        "succeeded": result.succeeded,
        "declared": result.declared,
        "reason": result.reason,
        "session": result.session,
        "thread": None if assignment is None else str(assignment.thread.id),
        "turns": result.turns,
        "tokens": {"in": result.tokens_in, "out": result.tokens_out, "cached": result.tokens_cached},
        "money": {
            "micro_dollars": usage.money,
            "estimated": usage.estimated,
            **({"problem": "the tool reported a cost that cannot be right"} if usage.invalid else {}),
        },
        "text": kept_text(result),
        "text_length": result.text_length,
        "structured": result.structured,
        "denials": list(result.denials),
        "transcript": process.stdout_path or None,
        "exit_code": process.exit_code,
        "ended_by": process.ended_by,
        "truncated": process.truncated,
        "leftovers": process.leftovers,
        "isolated": process.isolated,
    }


def kept_text(result: RunnerResult) -> str:
    """The text without terminal control sequences. Of a long one the beginning and the end, and what lies between."""
    text = without_escapes(result.text)
    if len(text) <= _MAX_TEXT_LENGTH:
        return text
    begin, end = text[: _MAX_TEXT_LENGTH - _MAX_END_LENGTH], text[-_MAX_END_LENGTH:]
    left_out = max(len(text), result.text_length) - _MAX_TEXT_LENGTH
    return f"{begin}\n[… {left_out:,} characters are left out here; the transcript has them …]\n{end}"


def _failure_text(result: RunnerResult, process: ProcessOutcome) -> str:
    if process.error:
        return f"the process was not started: {process.error}"
    if process.ended_by in _ENDED:
        complaint = f"{LAST_PROBLEM}{without_escapes(result.complaint)}" if result.complaint else ""
        return f"{_ENDED[process.ended_by]}{AND_ENDED}{complaint}"
    if result.declared == "failed":
        return f"the agent reported a failure: {result.reason or 'no reason given'}"
    if result.error:
        return without_escapes(result.error)[:2_000]
    if process.signal is not None:
        return f"the process was ended by {signal.Signals(process.signal).name}"
    if not result.executed:
        return f"the process ended with exit code {process.exit_code}, without its final event"
    return f"the process ended with exit code {process.exit_code}"


def _limit(result: RunnerResult, process: ProcessOutcome, now: int) -> ProviderLimit | None:
    limit = result.limit
    if limit is None:
        return None
    return ProviderLimit(limit.provider, limit.until(process.ended_at or now), limit.reason, limit.outage)


def _session_usage(result: RunnerResult, assignment: ThreadAssignment | None) -> tuple[int, int, int, int]:
    """The usage of the session before this run, plus that of this run."""
    before = assignment.thread.usage if assignment and assignment.thread.session else (0, 0, 0, 0)
    cost = round((result.cost_usd or 0) * 1_000_000)
    now = (result.tokens_in, result.tokens_out, result.tokens_cached, cost)
    return before[0] + now[0], before[1] + now[1], before[2] + now[2], before[3] + now[3]


def finished(errand: Errand | None, outcome: Outcome) -> Outcome:
    """The outcome with what the job did after its agent. If that fails, the run fails: it is part of the job."""
    if errand is None or not outcome.succeeded:
        return outcome
    try:
        done = errand.finish(outcome.turn.text if outcome.turn else "")
    except MatinsError as error:
        hint = f" ({error.hint})" if error.hint else ""
        return replace(outcome, succeeded=False, error=f"the agent succeeded, but then: {error.message}{hint}")
    return replace(outcome, result={**outcome.result, "job": done})
