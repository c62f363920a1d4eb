"""Tools for your tests: a clock that you move, and an engine that runs inline.

clock = ManualClock("2026-03-27T08:00:00Z")
sandbox = Sandbox(clock=clock)

@sandbox.job("report")
def report(run): ...

sandbox.add("morning", when="0 9 * * *", job="report")
sandbox.run_until("2026-03-29T12:00:00Z")
sandbox.assert_ran("morning", times=3)

To test your own runner: check the contract of runners, with the faults that tools have shown.

check_runner(Cobbler(), [Path("cobbler.jsonl").read_bytes()])
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from matins.api.results import Run
from matins.coding_tools.conformance import check_runner
from matins.engine.when.triggers import to_datetime, to_ms
from matins.executors.check_executor import CheckExecutor, call_logged
from matins.executors.python import PythonExecutor, run_job
from matins.executors.registry import runners
from matins.library import Matins
from matins.runtime.attempt import Attempt, AttemptEnd, Mark
from matins.runtime.checks import Check, CheckedRun

__all__ = ["InlineChecks", "InlineExecutor", "ManualClock", "Sandbox", "check_runner", "instant", "iso"]


class ManualClock:
    """A clock that moves only when moved. Wall and boot time move together, unless `step` moves the wall clock."""

    def __init__(self, now: str | datetime | int = "2026-01-01T00:00:00Z", zone: str = "UTC") -> None:
        self._now = instant(now)
        self._boot = 1_000_000
        self._zone = zone

    def now_ms(self) -> int:
        return self._now

    def now_us(self) -> int:
        return self._now * 1_000

    def boot_ms(self) -> int:
        return self._boot

    def boot_us(self) -> int:
        return self._boot * 1_000

    def local_zone(self) -> str:
        return self._zone

    def advance(self, milliseconds: int) -> None:
        self._now += milliseconds
        self._boot += milliseconds

    def advance_to(self, when: str | datetime | int) -> None:
        self.advance(max(0, instant(when) - self._now))

    def step(self, milliseconds: int) -> None:
        """Change the wall clock, as an operator or NTP does; no time passes."""
        self._now += milliseconds


def instant(when: str | datetime | int) -> int:
    """UTC milliseconds of an ISO text, an aware datetime, or milliseconds."""
    if isinstance(when, int):
        return when
    return to_ms(datetime.fromisoformat(when) if isinstance(when, str) else when)


class InlineExecutor(PythonExecutor):
    """Runs sync jobs in the calling thread, one after the other."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.before: Callable[[Attempt], None] = lambda attempt: None
        self._done: list[AttemptEnd] = []
        self._submitted: set[Mark] = set()

    def start(self) -> None:
        """Do nothing: there are no threads."""

    def stop(self) -> None:
        """Do nothing: there are no threads."""

    def submit(self, batch: list[Attempt]) -> None:
        self._submitted |= {attempt.mark for attempt in batch}
        for attempt in batch:
            self.before(attempt)
            outcome = run_job(self, attempt)  # may run a turn of the engine, which drains earlier results
            self._done.append(AttemptEnd(attempt, self.meter.read(attempt, outcome)))

    def drain(self) -> list[AttemptEnd]:
        done, self._done = self._done, []
        self._submitted -= {item.attempt.mark for item in done}
        return done

    def marks(self) -> set[Mark]:
        return set(self._submitted)

    def capacity(self, *, for_agents: bool = False) -> int:
        return 1_000

    def running(self) -> int:
        return len(self._done)

    def offers(self) -> frozenset[str]:
        """All jobs, and all runners: whatever is started here is a function."""
        return self.jobs.offers | {f"runner:{name}" for name in runners()}

    def withdraw(self, *, everything: bool = False) -> list[Attempt]:
        return []

    def overdue(self) -> list[Attempt]:
        return []


class InlineChecks(CheckExecutor):
    """Runs guards, pre-checks and hooks in the calling thread, one after the other."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.results: list[CheckedRun] = []

    def submit(self, batch: list[Check]) -> None:
        self.results += [self.answer(check) for check in batch]

    def drain(self) -> list[CheckedRun]:
        results, self.results = self.results, []
        return results

    def _in_background(self, function: Callable[[], Any]) -> None:
        call_logged(function)


class Sandbox(Matins):
    """A Matins with a manual clock. Do not start it: `run_until` does the work of its threads."""

    clock: ManualClock

    def __init__(self, url: str = "sqlite://", *, clock: ManualClock | None = None, **settings: Any) -> None:
        super().__init__(url, clock=clock or ManualClock(), **settings)
        self.engine = self._engine()
        self.executor = self._executors.python(InlineExecutor, lambda: None, 1)
        self.checking = self._executors.checks(InlineChecks, lambda: None)
        self.engine.open(self.executor, {"name": "sandbox"}, self.checking)
        self._service.local.isolation = None  # no process is started

    def run_until(self, when: str | datetime | int) -> None:
        """Move the clock to `when`, and run everything that is due until then."""
        end = instant(when)
        while True:
            self.settle()
            wait = self._until_next()
            if wait is None or self.clock.now_ms() + wait > end:
                break
            self.clock.advance(max(1, wait))
        self.clock.advance_to(end)
        self.settle()

    def settle(self) -> None:
        """Run everything that is due now."""
        while self.engine.turn() <= 0 or self.engine.unfinished() or self.checking.results:
            pass

    def assert_ran(self, name: str, *, times: int | None = None) -> list[Run]:
        """The successful runs of a schedule, oldest first. Fails unless there are `times` of them, or at least one."""
        runs = [run for run in reversed(self.all_runs(name)) if run.state == "succeeded"]
        if times is None:
            assert runs, f'"{name}" did not run. Its records: {self._records(name)}.'
        else:
            assert len(runs) == times, (
                f'"{name}" ran {len(runs)} times, not {times}. Its records: {self._records(name)}.'
            )
        return runs

    def assert_not_ran(self, name: str) -> None:
        self.assert_ran(name, times=0)

    def all_runs(self, name: str) -> list[Run]:
        """Every run of a schedule, the newest first."""
        found: list[Run] = []
        while page := self.runs.list(schedule=name, before=found[-1].id if found else None, limit=1_000):
            found += page
        return found

    def _records(self, name: str) -> str:
        runs = reversed(self.runs.list(schedule=name, limit=50))
        return ", ".join(f"{run.state}({run.reason})" if run.reason else run.state for run in runs) or "none"

    def _until_next(self) -> int | None:
        now = self.clock.now_ms()
        with self._store.reading() as transaction:
            due, ready, timer = (
                transaction.next_due(),
                transaction.next_ready(places=self.engine.placement.mine),
                transaction.next_timer(),
            )
        if ready is not None and ready <= now:  # the run waits for capacity
            ready = now + self.settings.check_interval_ms
        moments = [at for at in (due, ready, timer) if at is not None]
        return max(0, min(moments) - now) if moments else None


def iso(at: datetime | int | None) -> str | None:
    """An instant as ISO text; None stays None."""
    if at is None:
        return None
    return (to_datetime(at) if isinstance(at, int) else at).isoformat().replace("+00:00", "Z")
