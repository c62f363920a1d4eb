"""What a run has used of its session (`SessionMeter`): some tools report totals of the session, some only at their end.

`SpendingWatch`: one thread reads the output of all runs with a limit, and ends a run that reaches it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from matins.engine.money import estimate, format_money, format_tokens, parse_money, parse_tokens, price_of
from matins.errors import OverBudget, StoreUnavailable
from matins.executors.processes.supervisor import Supervisor
from matins.executors.runners.outcomes import find_limit
from matins.executors.runners.protocol import (
    AnyRunner,
    KeepsLedger,
    Metered,
    Reader,
    RunnerRequest,
    RunnerResult,
    SessionLedger,
    SessionUsage,
    SlowLedger,
)
from matins.model.run import Outcome, ThreadAssignment, Usage
from matins.runtime.attempt import Attempt, Mark
from matins.runtime.run_context import RunContexts
from matins.runtime.spending import SpendingLimit


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
        """The usage of the run so far: the tool's own record may be some seconds old."""
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
    runner: AnyRunner, call: RunnerRequest, assignment: ThreadAssignment | None, started_at: int | None = None
) -> SessionMeter:
    """The meter of a call; of one that has begun already, with its start."""
    ledger = runner.ledger(call) if isinstance(runner, KeepsLedger) else None
    session = call.session or call.new_session
    if call.session is None:
        return SessionMeter(session, SessionUsage(), ledger, runner.provider)  # a new session counts from zero
    used = ledger.usage(call.session, started_at) if ledger else None
    if used is None and assignment is not None:  # by our own records: a person may have used it too
        fresh, out, cached, micro_dollars = assignment.thread.usage
        used = SessionUsage((fresh, out, cached), micro_dollars / 1_000_000)
    return SessionMeter(session, used or SessionUsage(), ledger, runner.provider)


class UsageMeter:
    def __init__(self, loader: RunContexts) -> None:
        self._loader = loader
        self._before: dict[Mark, Usage] = {}
        self.used: dict[Mark, Usage] = {}

    def add(
        self,
        attempt: Attempt,
        money: str | None,
        tokens: int,
        model: str | None,
        input_tokens: int,
        output_tokens: int,
        cached: int,
    ) -> None:
        """Add reported usage. Raises OverBudget at the limit of the run."""
        counts = {"tokens": tokens, "input": input_tokens, "output": output_tokens, "cached": cached}
        tokens, input_tokens, output_tokens, cached = (parse_tokens(count, name) for name, count in counts.items())
        spent, estimated = 0, False
        if money is not None:
            spent = parse_money(money, self._loader.policies(attempt).rates, "money")
        elif model is not None:
            price = price_of(model, self._loader.policies(attempt).prices)
            spent, estimated = (estimate(price, input_tokens, output_tokens, cached), True) if price else (0, True)
        before = self.used.get(attempt.mark, Usage())
        now = Usage(
            before.money + spent,
            before.tokens + (tokens or input_tokens + output_tokens + cached),
            before.estimated or estimated,
        )
        self.used[attempt.mark] = now
        self._stop_at_cap(attempt, now)

    def _stop_at_cap(self, attempt: Attempt, now: Usage) -> None:
        """Raise OverBudget at the limit. It applies to the run, so earlier attempts count."""
        definition = attempt.compiled.definition
        if definition.max_cost is None and definition.max_tokens is None:
            return
        if attempt.mark not in self._before:
            self._before[attempt.mark] = Usage() if attempt.epoch == 1 else self._loader.spent_before(attempt)
        before = self._before[attempt.mark]
        total = Usage(before.money + now.money, before.tokens + now.tokens)
        if total.exceeds(definition.max_cost, definition.max_tokens):
            spent_so_far = f"{format_money(total.money)} and {format_tokens(total.tokens)} tokens"
            raise OverBudget(
                f"The run has spent {spent_so_far}: more than its limit.", hint="Raise the limit, or do less."
            )

    def read(self, attempt: Attempt, outcome: Outcome) -> Outcome:
        """The outcome with its usage."""
        self._before.pop(attempt.mark, None)
        used = self.used.pop(attempt.mark, None)
        return outcome if used is None else replace(outcome, usage=used)


log = logging.getLogger("matins")
_CHUNK = 1 << 20
_MAX_LINE_BYTES = 8 * 1024 * 1024


class SpendingWatch:
    """Ends runs that exceed their limit. The thread lives while a run is watched, and checks four times a second."""

    def __init__(
        self,
        supervisor: Callable[[], Supervisor],
        bounds: Callable[[Attempt], Sequence[SpendingLimit]],
        *,
        every_s: float = 0.25,
    ) -> None:
        self._supervisor = supervisor
        self._bounds = bounds
        self._every_s = every_s
        self._watches: dict[Mark, _Watch] = {}
        self._reasons: dict[Mark, str] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def watch(self, attempt: Attempt, reader: Reader, usage: Callable[[RunnerResult], Usage]) -> None:
        """Watch an attempt from its first line, also of another engine. Attempts without limits are ignored.

        `usage` converts the reported tokens and cost to the usage of this run.
        """
        if not isinstance(reader, Metered) or not self._bounds(attempt):
            return
        with self._changed:
            self._watches[attempt.mark] = _Watch(attempt, reader, usage)
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="matins-meter", daemon=True)
                self._thread.start()

    def unwatch(self, mark: Mark) -> str | None:
        """Stop watching. Returns why the watch ended the run, if it did."""
        with self._changed:
            self._watches.pop(mark, None)
            self._changed.notify()
            return self._reasons.pop(mark, None)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._watches.clear()
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while self._wait():
            for mark, watch in list(self._watches.items()):
                try:
                    self._check(mark, watch)
                except StoreUnavailable as error:
                    watch.check_again()
                    log.warning("the spending of run %s is not checked now: %s", mark[0], error)
                except Exception:  # one failing run must not affect others
                    log.exception("the spending of run %s cannot be read", mark[0])

    def _wait(self) -> bool:
        with self._changed:
            if self._changed.wait_for(lambda: not self._watches, self._every_s):
                self._thread = None
                return False
            return True

    def _check(self, mark: Mark, watch: _Watch) -> None:
        usage = watch.read(self._supervisor())
        if usage is None or (reason := self._exceeded(watch, usage)) is None:
            return
        with self._changed:
            if self._watches.pop(mark, None) is None:
                return  # the run has ended meanwhile
            self._reasons[mark] = reason
        self._supervisor().end(*mark, "budget")

    def _exceeded(self, watch: _Watch, usage: Usage) -> str | None:
        """Why the run must end. The limits are read again: other runs spend too."""
        return next((reason for bound in self._bounds(watch.attempt) if (reason := bound.passed(usage))), None)


class _Watch:
    """The reading position of one run."""

    def __init__(self, attempt: Attempt, reader: Metered, usage: Callable[[RunnerResult], Usage]) -> None:
        self.attempt = attempt
        self._usage = usage
        self._reader = reader
        self._offset = 0
        self._rest = b""
        self._skipping = False
        """Skip to the end of a line that is too long, or whose start was missed."""
        self._executed = False
        self._last_usage: Usage | None = None

    def read(self, supervisor: Supervisor) -> Usage | None:
        """The usage so far, if it changed. The final event is no reason to end a run: its cost is already spent."""
        data, at, _ = supervisor.files.read_after(*self.attempt.mark, self._offset, _CHUNK)
        for line in self._lines(data, missed=at > self._offset) if data else ():
            self._reader.feed(line)
        self._offset = at + len(data) if data else self._offset
        result = self._reader.so_far()
        ended, self._executed = result.executed and not self._executed, result.executed
        before, self._last_usage = self._last_usage, self._usage(result)
        return None if ended or self._last_usage == before else self._last_usage

    def check_again(self) -> None:
        """Let the next reading count as a change: this one could not be compared with the limits."""
        self._last_usage = None

    def _lines(self, data: bytes, *, missed: bool) -> list[bytes]:
        if missed:
            self._rest, self._skipping = b"", True
        *lines, rest = (self._rest + data).split(b"\n")
        if self._skipping and lines:
            del lines[0]
            self._skipping = False
        self._skipping = self._skipping or len(rest) > _MAX_LINE_BYTES
        self._rest = b"" if self._skipping else rest
        return lines
