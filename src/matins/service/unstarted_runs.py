"""Why a run that may start has not started: no engine runs, none has what it needs, or a limit is reached."""

from __future__ import annotations

from collections.abc import Sequence

from matins.engine.jobs import JOB_NEED
from matins.engine.policies import Policies
from matins.model.rows import WorkerRow
from matins.model.run import RunRecord, RunState
from matins.model.sentence import Sentence
from matins.runtime.catalog import CompiledSchedule
from matins.runtime.placement import needs_of, needs_sentence, unserved
from matins.runtime.rows import run_record
from matins.service.core import Core
from matins.service.gate_reports import full_limits
from matins.store.transaction import Transaction

LATE_MS = 5_000
"""How long an engine may take to start what is due."""


def why_unstarted(
    core: Core, transaction: Transaction, policies: Policies, run: RunRecord,
    engines: Sequence[WorkerRow], now: int,
) -> Sentence | None:  # fmt: skip
    """What keeps the run, or a step of it, from starting. None if its own record says why it waits, or it may start at
    any moment."""
    if run.state is RunState.RUNNING and run.step == 0:
        return _of_steps(core, transaction, policies, run, engines, now)
    reason = _reason(core, transaction, policies, run, engines, now)
    if reason is None:
        return None
    return Sentence(f"{'Ready' if run.state is RunState.READY else 'Waiting'}: {reason}.")


def _of_steps(
    core: Core, transaction: Transaction, policies: Policies, run: RunRecord,
    engines: Sequence[WorkerRow], now: int,
) -> Sentence | None:  # fmt: skip
    """The same for a run that runs only as far as its steps do: none of them has a worker, and one should have."""
    whole = core.catalog.find(transaction, (run.schedule_id, run.rev, 0))
    if not isinstance(whole, CompiledSchedule) or not whole.steps:
        return None
    steps = [run_record(row) for row in transaction.steps_of(run.id)]
    if any(step.state in (RunState.STARTING, RunState.RUNNING) for step in steps):
        return None
    for step in steps:
        reason = _reason(core, transaction, policies, step, engines, now)
        if reason is not None:
            return Sentence(f"Running, but one of its steps does not start: {reason}", whole.steps[step.step - 1].title)
    return None


def _reason(
    core: Core, transaction: Transaction, policies: Policies, run: RunRecord,
    engines: Sequence[WorkerRow], now: int,
) -> str | None:  # fmt: skip
    if run.state not in (RunState.READY, RunState.WAITING) or run.not_before is None or run.not_before > now:
        return None
    if not engines:
        return "no engine is running"
    if run.state is RunState.WAITING:
        return None
    compiled = core.catalog.find(transaction, (run.schedule_id, run.rev, run.step))
    if not isinstance(compiled, CompiledSchedule):
        return None
    lacking = unserved(needs_of(compiled.definition, compiled.agent, policies), [each.offers for each in engines])
    # The engine of this process is about to offer its jobs.
    missing = frozenset(need for need in lacking or () if need.removeprefix(JOB_NEED) not in core.jobs.registry)
    if missing and not compiled.steps:
        return f"no running engine has {needs_sentence(missing)}"
    limits = full_limits(transaction, compiled)
    if limits:
        return limits
    return "no engine has started it yet" if now - run.not_before > LATE_MS else None
