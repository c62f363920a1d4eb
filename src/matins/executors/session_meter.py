"""What a run uses of its session: tools that report totals of a session, and tools that report only at their end."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from matins.executors.runners.protocol import (
    AnyRunner,
    Call,
    KeepsLedger,
    RunnerResult,
    SessionLedger,
    SessionUsage,
    SlowLedger,
)
from matins.executors.runners.provider_limits import find_limit
from matins.model.thread import ThreadAssignment


class SessionMeter(NamedTuple):
    session: str | None = None
    """The session of the call; a new one may get its id later."""
    before: SessionUsage = SessionUsage()
    """The usage of the session before this run."""
    ledger: SessionLedger | None = None
    provider: str = ""

    def of_run(self, result: RunnerResult) -> RunnerResult:
        """The result with the usage of this run alone. Before the final event, the tool's own record counts."""
        return self._with_recorded(result, live=False)

    def so_far(self, result: RunnerResult) -> RunnerResult:
        """The same while the run goes on: the tool's own record may be some seconds old."""
        return self._with_recorded(result, live=True)

    def _with_recorded(self, result: RunnerResult, *, live: bool) -> RunnerResult:
        mine = result.of_run(self.before)
        recorded = None if result.executed else self._recorded(result.session or self.session, live=live)
        if recorded is None:
            return mine
        fresh, out, cached = recorded
        return replace(mine, tokens_in=fresh, tokens_out=out, tokens_cached=cached)

    def explained(self, result: RunnerResult) -> RunnerResult:
        """The result of a tool that was ended without a word, with the problem that it recorded."""
        session = result.session or self.session
        if result.executed or result.complaint or self.ledger is None or session is None:
            return result
        problem = self.ledger.problem(session)
        if problem is None:
            return result
        limit = result.limit or find_limit(self.provider, problem)
        return replace(result, error=f"{result.error}: {problem}", complaint=problem, limit=limit)

    def _recorded(self, session: str | None, *, live: bool) -> tuple[int, int, int] | None:
        if self.ledger is None or session is None:
            return None
        if live and isinstance(self.ledger, SlowLedger):
            total = self.ledger.recent(session)
        else:
            total = self.ledger.usage(session)
        tokens = (0, 0, 0) if total is None else total.minus(self.before).tokens
        return tokens if any(tokens) else None


def session_meter(
    runner: AnyRunner, call: Call, assignment: ThreadAssignment | None, started_at: int | None = None
) -> SessionMeter:
    """The meter of a call; of one that has begun already, with its start."""
    ledger = runner.ledger(call) if isinstance(runner, KeepsLedger) else None
    session = call.session or call.new_session
    if call.session is None:
        return SessionMeter(session, SessionUsage(), ledger, runner.provider)  # a new session counts from zero
    recorded = ledger.usage(call.session, started_at) if ledger else None
    return SessionMeter(session, recorded or _of_thread(assignment), ledger, runner.provider)


def _of_thread(assignment: ThreadAssignment | None) -> SessionUsage:
    """The usage of the session by our own records: a person may have used it too."""
    if assignment is None:
        return SessionUsage()
    fresh, out, cached, micro_dollars = assignment.thread.usage
    return SessionUsage((fresh, out, cached), micro_dollars / 1_000_000)
