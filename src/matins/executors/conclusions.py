"""The outcome of an agent's run that is over, or that could not be started."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from matins.engine.when.triggers import to_ms
from matins.errors import InvalidInput, RateLimited
from matins.executors.agent_tools import needs_of
from matins.executors.preparation import Prepared
from matins.executors.processes.launch import ProcessOutcome
from matins.executors.processes.run_files import RunFiles
from matins.executors.registry import NoService
from matins.executors.reports import finished, outcome_of, usage_of
from matins.executors.runners.error_lines import with_stderr_reason
from matins.executors.runners.needs import Needs
from matins.executors.runners.protocol import RunnerResult
from matins.executors.runners.tool_sessions import session_gone
from matins.executors.start_checks import NoAgent
from matins.executors.stored_output import stderr_tail
from matins.executors.work_items import NoWork
from matins.model.agent import Agent
from matins.model.clock import Clock
from matins.model.run import Outcome, ProviderLimit, Usage
from matins.runtime.attempt import Attempt
from matins.runtime.recorder import will_retry

log = logging.getLogger("matins")


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
    outcome = _with_provider(started, _with_login(started, result, replace(outcome, target_gone=gone)))
    if outcome.over_budget and end_reason is not None:
        outcome = replace(outcome, error=end_reason)
    return finished(started.errand, _with_work_item(started, outcome, clock, now))


def _with_login(started: Prepared, result: RunnerResult, outcome: Outcome) -> Outcome:
    """A refused login is one cause for all agents with this tool and login. It is no failure of the agent."""
    needs, agent = needs_of(started.runner), started.context.agent
    refused = result.login_refused and outcome.limit is None and not outcome.succeeded
    if not refused or needs is None or agent is None:
        return outcome
    own = _own_keys(agent, needs)
    others = started.context.policies.agents.values()
    same = {one.name for one in others if one.runner == agent.runner and _own_keys(one, needs) == own}
    reason = outcome.error or "the login is refused"
    limit = ProviderLimit(
        started.runner.provider, None, reason, login=needs.login, affects=tuple(sorted(same | {agent.name}))
    )
    return replace(outcome, limit=limit)


def _own_keys(agent: Agent, needs: Needs) -> set[tuple[str, str]]:
    """The keys in the agent's own settings. Without any, it has the login that all agents of the tool share."""
    return {(name, value) for name, value in agent.environment if name in needs.keys}


def _with_provider(started: Prepared, outcome: Outcome) -> Outcome:
    """Attribute a limit to the provider that the schedule or the agent names."""
    agent = started.context.agent
    provider = started.attempt.compiled.definition.provider or (agent.provider if agent else None)
    if outcome.limit is None or provider is None:
        return outcome
    return replace(outcome, limit=outcome.limit._replace(provider=provider))


def _with_work_item(started: Prepared, outcome: Outcome, clock: Clock, now: int) -> Outcome:
    """The outcome with the work item of the run, to whose source it is reported."""
    held = started.held_item
    if held is None:
        return outcome
    error = held.report(outcome, clock, will_retry=will_retry(started.attempt, outcome, now))
    about = {"item": held.item.id, "source": held.item.source, "untold": error}
    return replace(outcome, result={**outcome.result, "work": about})


def usage_by(started: Prepared) -> Callable[[RunnerResult], Usage]:
    """What a run has used, by what its tool reported so far."""

    def usage(result: RunnerResult) -> Usage:
        return usage_of(started.call, started.meter.so_far(result), started.context.policies)

    return usage
