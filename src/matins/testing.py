"""For tests of what you build on Matins: a clock that you move, and an engine that runs inline.

clock = ManualClock("2026-03-27T08:00:00Z")
bench = Bench(clock=clock)

@bench.job("report")
def report(run): ...

bench.add("morning", when="0 9 * * *", do="report")
bench.run_until("2026-03-29T12:00:00Z")
bench.assert_ran("morning", times=3)

And for a runner of your own: what every runner promises, tried with the faults that tools have shown.

check_runner(Cobbler(), [Path("cobbler.jsonl").read_bytes()])
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from matins.engine.when.triggers import EPOCH, to_ms
from matins.executors.checks import CommandChecks, awaited, tell_quietly
from matins.executors.python import PythonExecutor, run_job
from matins.executors.runners.proving import check_runner
from matins.library import Matins
from matins.model.run import Run, RunState
from matins.runtime.checks import Check, Checked
from matins.runtime.engine import Engine
from matins.runtime.work import Ended, Work

__all__ = ["Bench", "InlineChecks", "InlineExecutor", "ManualClock", "check_runner", "instant", "iso"]


class ManualClock:
    """Stands still until it is moved. Wall and boot time move together, unless the wall clock is stepped."""

    def __init__(self, now: str | datetime | int = "2026-01-01T00:00:00Z", zone: str = "UTC") -> None:
        self._now = instant(now)
        self._boot = 1_000_000
        self._zone = zone

    def now_ms(self) -> int:
        return self._now

    def boot_ms(self) -> int:
        return self._boot

    def local_zone(self) -> str:
        return self._zone

    def advance(self, milliseconds: int) -> None:
        self._now += milliseconds
        self._boot += milliseconds

    def advance_to(self, when: str | datetime | int) -> None:
        self.advance(max(0, instant(when) - self._now))

    def step(self, milliseconds: int) -> None:
        """What an operator or NTP does to the wall clock; no time passes."""
        self._now += milliseconds


def instant(when: str | datetime | int) -> int:
    """UTC milliseconds of an ISO text, an aware datetime, or milliseconds."""
    if isinstance(when, int):
        return when
    return to_ms(datetime.fromisoformat(when) if isinstance(when, str) else when)


class InlineExecutor(PythonExecutor):
    """Runs sync jobs where it stands, one after the other; what they say is there at once."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.before: Callable[[Work], None] = lambda work: None
        self._done: list[Ended] = []

    def start(self) -> None:
        """There are no threads to start."""

    def stop(self) -> None:
        """Nor to stop."""

    def submit(self, batch: list[Work]) -> None:
        for work in batch:
            self.before(work)
            outcome = run_job(self, work)  # may turn the engine itself, and so drain what was done before
            self._done.append(Ended(work, self.meter.read(work, outcome)))

    def drain(self) -> list[Ended]:
        done, self._done = self._done, []
        return done

    def room(self, *, talks: bool = False) -> int:
        return 1_000

    def running(self) -> int:
        return len(self._done)

    def withdraw(self, *, everything: bool = False) -> list[Work]:
        return []

    def overdue(self) -> list[Work]:
        return []


class InlineChecks(CommandChecks):
    """Guards, pre-checks and hooks where they stand, one after the other."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.said: list[Checked] = []

    def submit(self, batch: list[Check]) -> None:
        self.said += [self.answer(check) for check in batch]

    def drain(self) -> list[Checked]:
        said, self.said = self.said, []
        return said

    def _called(self, function: Callable[[], Any]) -> Any:
        return awaited(function())

    def _aside(self, function: Callable[[], Any]) -> None:
        tell_quietly(function)


class Bench(Matins):
    """A Matins whose time is yours. Never start it: `run_until` does what its threads would."""

    clock: ManualClock

    def __init__(self, url: str = "sqlite://", *, clock: ManualClock | None = None, **settings: Any) -> None:
        super().__init__(url, clock=clock or ManualClock(), **settings)
        self.engine = Engine(self._store, self.clock, self._catalog, self.settings)
        self.executor = InlineExecutor(
            self.jobs,
            self.clock,
            lambda: None,
            threads=1,
            key_prefix=self._store.store_id,
            previous=self._previous,
            policies=self._policies,
            spent=self._spent,
        )
        self.checking = self._checks(InlineChecks, lambda: None)
        self.engine.open(self.executor, "bench", self.checking)
        self._service.own_jobs = self.jobs

    def run_until(self, when: str | datetime | int) -> None:
        """Let time pass, from one thing to the next, and do what is due; at `when` all of it is done."""
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
        """Turns until nothing is left to do now."""
        while self.engine.turn() <= 0 or self.engine.unfinished() or self.checking.said:
            pass

    def assert_ran(self, name: str, *, times: int | None = None) -> list[Run]:
        """The successful runs of a schedule, oldest first; as many as said."""
        runs = [run for run in reversed(self.runs(name, limit=10_000)) if run.state is RunState.SUCCEEDED]
        if times is None:
            assert runs, f'"{name}" has not run; its records: {self._records(name)}'
        else:
            assert len(runs) == times, (
                f'"{name}" ran {len(runs)} times, not {times}; its records: {self._records(name)}'
            )
        return runs

    def assert_not_ran(self, name: str) -> None:
        self.assert_ran(name, times=0)

    def _records(self, name: str) -> str:
        runs = reversed(self.runs(name, limit=50))
        return ", ".join(f"{run.state.word}({run.reason})" if run.reason else run.state.word for run in runs) or "none"

    def _until_next(self) -> int | None:
        now = self.clock.now_ms()
        with self._store.reading() as transaction:
            due, ready, timer = transaction.next_due(), transaction.next_ready(), transaction.next_timer()
        if ready is not None and ready <= now:  # it waits for a place
            ready = now + self.settings.check_interval_ms
        moments = [at for at in (due, ready, timer) if at is not None]
        return max(0, min(moments) - now) if moments else None


def iso(milliseconds: int | None) -> str | None:
    """An instant as text, for comparisons that read well."""
    if milliseconds is None:
        return None
    return (EPOCH + timedelta(milliseconds=milliseconds)).isoformat().replace("+00:00", "Z")
