"""The end of an attempt: its run succeeds, fails, is retried, waits, or is held."""

from __future__ import annotations

from collections.abc import Sequence

from matins.engine.jobs import retries_unknown
from matins.engine.retry import next_attempt_at
from matins.engine.transitions import (
    CANCEL,
    FAIL,
    HOLD,
    INTERRUPT,
    OVERSPEND,
    RETRY,
    SKIP_NO_WORK,
    SUCCEED,
    THROTTLE,
)
from matins.engine.when.durations import DAY_MS
from matins.model.rows import StartedRun
from matins.model.run import DONE, Outcome, ProviderLimit, RunState
from matins.runtime.attempt import Attempt, AttemptEnd
from matins.runtime.catalog import CompiledSchedule
from matins.runtime.run_change import RunChange
from matins.runtime.run_changes import apply, succeed_plainly
from matins.store.transaction import Transaction

_MIN_LIMIT_MS = 60_000
"""The shortest throttle without a reset time. It doubles each time that the provider refuses the run again."""
_MIN_WAIT_MS = 1_000
"""The shortest throttle with a reset time. It doubles as well, up to the shortest one without: a provider that says
"one second" again and again does not start a tool each second."""
_LONGEST_GUESS_MS = 3_600_000
"""The longest throttle without a reset time."""
_MAX_LOGIN_MS = 900_000
"""The longest wait until a login that was refused is tried again: a person may have logged in."""
_MAX_OUTAGES = 3
"""How often an outage of the provider defers a run, before it counts as a failure."""
_MAX_LIMIT_MS = 7 * DAY_MS
"""The longest throttle that a run can set: a week."""


def record(
    transaction: Transaction, ended: Sequence[AttemptEnd], now: int, *, limited: frozenset[str] | None = None
) -> int:
    """Record the outcomes of attempts. Returns how many were refused because another worker had taken over the run.
    `limited` are the scopes that have permits, where they are known."""
    if not ended:
        return 0
    plain, others = _sorted(transaction, ended)
    changes = [
        _change_of(attempt, outcome, now, _deferrals(transaction, attempt) if outcome.limit else 0)
        for attempt, outcome in others
    ]
    taken = succeed_plainly(transaction, plain, now, limited=limited) + apply(
        transaction, changes, now, limited=limited
    )
    return len(ended) - taken


def _sorted(transaction: Transaction, ended: Sequence[AttemptEnd]) -> tuple[list[Attempt], Sequence[AttemptEnd]]:
    """The attempts of which nothing but their success is recorded, which is a short road, and the others. The ends of
    one schedule stay in their order."""
    if transaction.any_reservation():
        return [], ended
    plain = [attempt for attempt, outcome in ended if outcome is DONE and attempt.compiled.ends_plainly]
    if len(plain) == len(ended):
        return plain, ()
    special = {
        attempt.compiled.schedule_id
        for attempt, outcome in ended
        if outcome is not DONE or not attempt.compiled.ends_plainly
    }
    others = [end for end in ended if end.attempt.compiled.schedule_id in special]
    return [attempt for attempt in plain if attempt.compiled.schedule_id not in special], others


def hold(transaction: Transaction, attempts: Sequence[Attempt], now: int) -> None:
    """Hold runs that exceeded their timeout and cannot be stopped. They keep their capacity until they end."""
    changes = [RunChange(*one.mark, one.slot, one.compiled, HOLD, now, reason="timed_out") for one in attempts]
    apply(transaction, changes, now)


def mark_unknown(transaction: Transaction, rows: Sequence[tuple[StartedRun, CompiledSchedule]], now: int) -> None:
    """Handle runs whose worker is dead: their outcome is unknown. Their policy decides whether they are retried."""
    changes: list[RunChange] = []
    for row, compiled in rows:
        if row.cancelling:
            transition = CANCEL
        elif retries_unknown(compiled.definition):
            transition = RETRY
        elif row.state < RunState.HELD:
            transition = HOLD
        else:
            continue  # it waits for a person, whoever was its worker
        not_before = now if transition is RETRY else None
        changes.append(RunChange(row.id, row.epoch, row.slot, compiled, transition, now, not_before, "worker_lost"))
    apply(transaction, changes, now)


def will_retry(attempt: Attempt, outcome: Outcome, now: int) -> bool:
    """Whether a run with this outcome is retried."""
    return _change_of(attempt, outcome, now).transition is RETRY


def _deferrals(transaction: Transaction, attempt: Attempt) -> int:
    """How often the provider has refused this run before: such attempts do not count."""
    return max(0, len(transaction.attempts(attempt.run_id)) - attempt.number)


def _change_of(attempt: Attempt, outcome: Outcome, now: int, deferrals: int = 0) -> RunChange:
    run_id, epoch, number, slot, compiled = *attempt.mark, attempt.number, attempt.slot, attempt.compiled
    usage = outcome.usage
    if outcome.succeeded:
        result = None if outcome.result is None else {"result": outcome.result}
        change = RunChange(
            run_id, epoch, slot, compiled, SUCCEED, now, None, None, result, None, 0, False, usage, None, outcome.turn
        )
        if outcome.denials:
            return change._replace(reason="with_denials", evidence={"denials": outcome.denials})
        return change
    failed = RunChange(run_id, epoch, slot, compiled, FAIL, now, usage=usage, attempt=number)
    return _unsuccessful(failed, number, outcome, deferrals)


def _unsuccessful(change: RunChange, number: int, outcome: Outcome, deferrals: int) -> RunChange:
    report = {} if outcome.result is None else {"result": outcome.result}
    change = change._replace(outcome={"error": outcome.error, **report}, turn=outcome.turn)
    if outcome.lost:
        return _lost(change)
    if outcome.interrupted:
        return change._replace(transition=INTERRUPT, reason="stopped")
    if outcome.no_agent:
        return change._replace(transition=SKIP_NO_WORK, reason="no_agent", evidence={"agent": change.compiled.agent})
    if outcome.no_work:
        evidence = {"work_source": change.compiled.definition.work_source}
        return change._replace(transition=SKIP_NO_WORK, reason="no_work", evidence=evidence)
    if outcome.over_budget:
        definition = change.compiled.definition
        evidence = {"max_cost": definition.max_cost, "max_tokens": definition.max_tokens}
        return change._replace(transition=OVERSPEND, reason="over_budget", evidence=evidence)
    if outcome.cancelled:
        return change._replace(transition=CANCEL, reason="cancelled")
    if outcome.limit is not None and not (outcome.limit.outage and deferrals >= _MAX_OUTAGES):
        return _throttled(change, outcome.limit, deferrals)
    if outcome.target_gone:
        return change._replace(transition=RETRY, not_before=change.at, reason="target_gone")
    again = None if outcome.timed_out else next_attempt_at(change.compiled.definition, change.run_id, number, change.at)
    if again is not None:
        return change._replace(transition=RETRY, not_before=again, reason="failed_attempt")
    return change._replace(reason="timed_out" if outcome.timed_out else "failed")


def _lost(change: RunChange) -> RunChange:
    if retries_unknown(change.compiled.definition):
        return change._replace(transition=RETRY, not_before=change.at, reason="unknown")
    return change._replace(transition=HOLD, reason="unknown")


def _throttled(change: RunChange, limit: ProviderLimit, deferrals: int) -> RunChange:
    """A rate limit is not a failure. The run waits until the limit resets, with all runs of that provider."""
    if limit.resets_at is None:
        longest = _LONGEST_GUESS_MS if limit.login is None else _MAX_LOGIN_MS
        wait = min(_MIN_LIMIT_MS << min(deferrals, 10), longest)
    elif limit.resets_at <= change.at:  # what it says is over, and it refused nevertheless
        wait = _MIN_LIMIT_MS
    else:
        wait = min(_MIN_WAIT_MS << min(deferrals, 10), _MIN_LIMIT_MS)
    until = min(max(limit.resets_at or 0, change.at + wait), change.at + _MAX_LIMIT_MS)
    evidence = {"provider": limit.provider, "until": until, "why": limit.reason}
    if limit.login is not None:
        evidence["login"] = limit.login
    limit = limit._replace(resets_at=until)
    return change._replace(transition=THROTTLE, reason="throttled", not_before=until, evidence=evidence, limit=limit)
