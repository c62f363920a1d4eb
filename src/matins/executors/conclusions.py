"""The outcome of an agent's run, over (`conclude`) or not started (`not_started`).

All tools have the same kind of outcome: executed and succeeded are separate facts. Whether something was delivered is
`RunFacts.delivered`.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from matins.engine.money import estimate, price_of
from matins.engine.policies import Policies
from matins.engine.reasons import AND_ENDED, LAST_PROBLEM, TIMEOUTS
from matins.engine.when.triggers import to_ms
from matins.errors import InvalidInput, MatinsError, RateLimited
from matins.executors.agent_checks import NoAgent, needs_of
from matins.executors.endpoint_requests import without_secrets
from matins.executors.preparation import Prepared
from matins.executors.processes.launch import ProcessOutcome
from matins.executors.processes.recovery import RunFiles
from matins.executors.registry import NoService
from matins.executors.runners.outcomes import with_stderr_reason
from matins.executors.runners.protocol import Needs, Reader, ReadsErrors, RunnerRequest, RunnerResult
from matins.executors.runners.session_files import session_gone
from matins.executors.runners.tool_events import without_escapes
from matins.executors.secrets import MissingHere
from matins.executors.work_items import NoWork
from matins.model.agent import Agent
from matins.model.clock import Clock
from matins.model.job import Errand
from matins.model.run import AgentTurn, Outcome, ProviderLimit, ThreadAssignment, Usage
from matins.runtime.attempt import Attempt, Mark
from matins.runtime.recorder import will_retry
from matins.runtime.run_context import Elsewhere

_CHUNK = 1 << 20


def read_result(files: RunFiles, started: Prepared, process: ProcessOutcome) -> RunnerResult:
    """The result of a run that is over."""
    reader = started.reader()
    _feed_output(reader, files, started.attempt.mark, process)
    if isinstance(reader, ReadsErrors):
        for line in stderr_tail(files, started).splitlines():
            reader.feed_error(line)
    result = started.meter.explained(started.meter.of_run(reader.close(process.exit_code)))
    return without_secrets(result, started.call.secrets)


def _feed_output(reader: Reader, files: RunFiles, mark: Mark, process: ProcessOutcome) -> None:
    """Feed the reader the stored output: the head, and the tail too where the output was truncated."""
    rest, offset = b"", 0
    while chunk := files.read(*mark, offset, _CHUNK):
        offset += len(chunk)
        rest = _feed(reader, rest + chunk)
    if process.truncated:  # the final event is at the end
        tail = files.tail(*mark)
        missing = process.stdout_bytes - offset - len(tail)
        rest = _feed(reader, rest + tail[-missing:] if missing <= 0 else tail.partition(b"\n")[2])
    if rest:
        reader.feed(rest)


def stderr_tail(files: RunFiles, started: Prepared) -> bytes:
    """The end of the stderr of the process, if there is one."""
    return b"" if started.command is None else files.tail(*started.attempt.mark, stream=".err")


def _feed(reader: Reader, data: bytes) -> bytes:
    """Feed complete lines and return the rest of the last one."""
    *lines, rest = data.split(b"\n")
    for line in lines:
        reader.feed(line)
    return rest


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
    "lease": "the store did not answer for too long, so that the run may have started elsewhere",
}


def outcome_of(
    call: RunnerRequest,
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
        lost=process.kind in ("unknown", "orphaned") or process.ended_by == "lease",
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


def usage_of(call: RunnerRequest, result: RunnerResult, policies: Policies) -> Usage:
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
    """The text without terminal control sequences: of a long one, the beginning, the end, and a line about the rest."""
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


log = logging.getLogger("matins")


def nowhere(error: MissingHere, elsewhere: Elsewhere) -> MissingHere:
    """The error of a run that this node cannot start, after all others turned it away."""
    if not elsewhere.tried:
        return error
    reasons = {**elsewhere.tried, elsewhere.node: error.message}
    each = "; ".join(f"{node}: {reason.removesuffix('.')}" for node, reason in sorted(reasons.items()))
    return MissingHere(f"No node can run it. {each}.", value=error.value, field=error.field, hint=error.hint)


def not_started(attempt: Attempt, error: Exception) -> Outcome:
    """The outcome of a run that could not be started, by the error of its preparation."""
    match error:
        case NoAgent():
            log.warning("run %s is skipped: %s", attempt.run_id, error)
            return Outcome(False, no_agent=True)
        case NoService():
            return Outcome(False, error=error.message)
        case NoWork():
            return Outcome(False, no_work=True)
        case RateLimited():
            resets_at = None if error.resets_at is None else to_ms(error.resets_at)
            limit = ProviderLimit(error.provider, resets_at, error.reason)
            return Outcome(False, error=error.message, limit=limit)
        case InvalidInput():
            hint = f" ({error.hint})" if error.hint else ""
            gone = error.field == "session"
            return Outcome(False, error=f"the run was not started: {error.message}{hint}", target_gone=gone)
        case _:
            log.error("run %s could not be started", attempt.run_id, exc_info=error)
            return Outcome(False, error=f"the run was not started: {type(error).__name__}: {error}")


def conclude(
    started: Prepared, process: ProcessOutcome, result: RunnerResult, files: RunFiles, clock: Clock,
    end_reason: str | None,
) -> Outcome:  # fmt: skip
    """The outcome of a run that is over, also for its work item. `end_reason`: why its spending limit ended it."""
    stderr = b"" if result.succeeded else stderr_tail(files, started)
    gone = session_gone(started.call, result, started.session_unknown, stderr)
    if started.ends_by_itself:
        result = with_stderr_reason(result, stderr)
    elif result.succeeded and process.ended_by not in (None, "supervisor"):  # the limit came after the final event
        process = process._replace(ended_by="exit_timeout")
    now, context = clock.now_ms(), started.context
    outcome = outcome_of(started.call, result, process, context.assignment, context.policies, now)
    outcome = _with_login(started, result, replace(outcome, target_gone=gone))
    agent = context.agent
    provider = started.attempt.compiled.definition.provider or (agent.provider if agent else None)
    if outcome.limit is not None and provider is not None:  # of the provider that the schedule or the agent names
        outcome = replace(outcome, limit=outcome.limit._replace(provider=provider))
    if outcome.over_budget and end_reason is not None:
        outcome = replace(outcome, error=end_reason)
    if started.attempt.compiled.definition.attach:  # before the errand removes its folder
        outcome = _with_files(started, outcome, files)
    return finished(started.errand, _with_work_item(started, outcome, clock, now))


def _with_files(started: Prepared, outcome: Outcome, files: RunFiles) -> Outcome:
    """The outcome with the files that belong to the answer."""
    from matins.executors.attachments import attach, copies_folder

    patterns, attempt, call = started.attempt.compiled.definition.attach, started.attempt, started.call
    copies = copies_folder(files.folder, *attempt.mark)
    hidden = () if started.context.agent is None else started.context.agent.hidden
    found = attach(patterns, call.workdir, call.owner, attempt.started_at, call.secrets, copies, hidden)
    return replace(outcome, result={**outcome.result, **found._asdict()})


def _with_login(started: Prepared, result: RunnerResult, outcome: Outcome) -> Outcome:
    """A refused login is one cause for all agents with this tool and login. It is no failure of the agent."""
    needs, agent = needs_of(started.runner), started.context.agent
    refused = result.login_refused and outcome.limit is None and not outcome.succeeded
    if not refused or needs is None or agent is None:
        return outcome
    reason = outcome.error or "the login is refused"
    affects = same_login(agent, needs, started.context.policies)
    return replace(
        outcome, limit=ProviderLimit(started.runner.provider, None, reason, login=needs.login, affects=affects)
    )


def same_login(agent: Agent, needs: Needs, policies: Policies) -> tuple[str, ...]:
    """The names of the agents that have the same tool and login, with that of this one."""
    own = _own_keys(agent, needs)
    same = {one.name for one in policies.agents.values() if one.runner == agent.runner and _own_keys(one, needs) == own}
    return tuple(sorted(same | {agent.name}))


def _own_keys(agent: Agent, needs: Needs) -> set[tuple[str, str]]:
    """The keys in the agent's own settings. Without any, it has the login that all agents of the tool share."""
    return {(name, value) for name, value in agent.environment if name in needs.keys}


def _with_work_item(started: Prepared, outcome: Outcome, clock: Clock, now: int) -> Outcome:
    """The outcome with the work item of the run, to whose source it is reported."""
    held = started.held_item
    return (
        outcome
        if held is None
        else held.concluded(outcome, clock, will_retry=will_retry(started.attempt, outcome, now))
    )


def usage_by(started: Prepared) -> Callable[[RunnerResult], Usage]:
    """What a run has used, by what its tool reported so far."""

    def usage(result: RunnerResult) -> Usage:
        return usage_of(started.call, started.meter.so_far(result), started.context.policies)

    return usage
