"""Whatever a gate says, the schedule goes on: every gate, every kind of trigger, every store. Rows B1, B8."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gate_records import at, lines, moment

import postgres_fixtures
from matins.engine.policies import BEFORE_RUN
from matins.errors import RateLimited
from matins.executors.job_context import JobContext
from matins.model.run import RunState
from matins.testing import Sandbox, instant

url = postgres_fixtures.kept_url
TRIGGERS: dict[str, dict[str, Any]] = {
    "cron": {"when": "*/30 * * * *"},
    "completion": {"when": "30m", "anchor": "completion"},
    "start": {"when": "30m", "anchor": "start"},
    "grid": {"when": "30m", "anchor": "grid"},
    "daily": {"when": "every day at 9am and 9:30am and 10am and 10:30am and 11am"},
    "rrule": {"when": "RRULE:FREQ=MINUTELY;INTERVAL=30"},
    "once": {"when": at("09:00")},
}
OPENS = "10:15"
"""Until then the gate is closed."""


class Closed:
    """A gate that is closed on a bench: the words of its schedules, and how it is opened."""

    job = "work"
    once_is_over = False
    """Whether it ends a one-shot, rather than holding it back."""

    def __init__(self, bench: Sandbox, folder: Path) -> None:
        self.bench = bench
        self.flag = folder / "closed"
        self.flag.touch()
        self.words: dict[str, Any] = {}
        self.close()

    def close(self) -> None:
        """What must be there before the schedules are."""

    def made(self) -> None:
        """What must be done when they are."""

    def tend(self) -> None:
        """What somebody does every few minutes while it is closed."""

    def open(self) -> None:
        self.flag.unlink()


class QuietSkip(Closed):
    mode = "skip"

    def close(self) -> None:
        self.bench.quiet_hours.set("quiet", windows=f"08:20-{OPENS}", mode=self.mode)
        self.words = {"quiet_hours": "quiet"}


class QuietDefer(QuietSkip):
    mode = "defer"


class Throttled(Closed):
    def close(self) -> None:
        self.bench.throttles.set("anthropic", resets_at=moment(OPENS))
        self.words = {"provider": "anthropic"}


class Refused(Closed):
    """The provider says so itself, in the middle of a run."""

    job = "call"

    def close(self) -> None:
        @self.bench.job("call")
        def call(run: JobContext) -> None:
            if self.bench.clock.now_ms() < instant(at(OPENS)):
                raise RateLimited("anthropic", resets_at=moment(OPENS))


class NoMoney(Closed):
    def close(self) -> None:
        self.bench.budgets.set("day", period="day", max_cost="$1")
        self.words = {"max_cost": "$2"}

    def open(self) -> None:
        self.bench.budgets.set("day", period="day", max_cost="$1000")


class NoPlaceSkip(Closed):
    once_is_over = True
    at_capacity = "skip"

    def close(self) -> None:
        self.bench.limits.set("agent:x", size=len(TRIGGERS))
        with self.bench._store.transaction(0) as transaction:
            assert len(transaction.take_permits("agent:x", [999] * len(TRIGGERS))) == len(TRIGGERS)
        self.words = {"agent": "x", "at_capacity": self.at_capacity}

    def open(self) -> None:
        with self.bench._store.transaction(0) as transaction:
            transaction.release_permits([999])


class NoPlaceWait(NoPlaceSkip):
    once_is_over = False
    at_capacity = "wait"

    def close(self) -> None:
        super().close()
        # What waits for a place is looked at every so often.
        self.bench.settings = replace(self.bench.settings, check_interval_ms=60_000)


class PreCheck(Closed):
    def close(self) -> None:
        self.words = {"pre_check": f"! test -e {self.flag}"}


class OwnHook(Closed):
    def close(self) -> None:
        self.words = {"before_run": f"! test -e {self.flag}"}


class FileHook(Closed):
    def close(self) -> None:
        self.bench.hooks.set(BEFORE_RUN, command=f"! test -e {self.flag}")


class Guarded(Closed):
    def close(self) -> None:
        self.bench.checking._guard = lambda context: self.flag.exists()
        self.bench.checking.guarded = True


class Approved(Closed):
    def close(self) -> None:
        self.words = {"approval": "owner_approve"}

    def open(self) -> None:
        for _ in range(5):  # those that come after them ask too
            for approval in self.bench.approvals.list():
                self.bench.approvals.approve(approval.id)
            self.bench.settle()
        self.tend = self.open  # type: ignore[method-assign]


class Denied(Approved):
    once_is_over = True

    def tend(self) -> None:
        for approval in self.bench.approvals.list():
            self.bench.approvals.deny(approval.id)


class NobodyAnswers(Approved):
    once_is_over = True

    def close(self) -> None:
        self.words = {"approval": "owner_approve", "approval_timeout": "10m"}


class Paused(Closed):
    def made(self) -> None:
        for name in TRIGGERS:
            self.bench.pause(name)

    def open(self) -> None:
        for name in TRIGGERS:
            self.bench.resume(name)


class PausedUntil(Paused):
    def made(self) -> None:
        for name in TRIGGERS:
            self.bench.pause(name, until=moment(OPENS))

    def open(self) -> None:
        """It opens by itself."""


class Failing(Paused):
    job = "act"
    once_is_over = True

    def close(self) -> None:
        self.words = {"pause_after_failures": 1}

        @self.bench.job("act")
        def act(run: JobContext) -> None:
            if self.flag.exists():
                raise ValueError

    def made(self) -> None:
        """They pause themselves."""

    def open(self) -> None:
        self.flag.unlink()
        super().open()


class TooDear(Failing):
    def close(self) -> None:
        self.words = {"max_cost": "$1"}

        @self.bench.job("act")
        def act(run: JobContext) -> None:
            run.spend("$2" if self.flag.exists() else "$0.50")

    def open(self) -> None:
        self.flag.unlink()
        for approval in self.bench.approvals.list():
            self.bench.approvals.approve(approval.id)


class InTheWay(Closed):
    """A run that is held because its worker is gone."""

    once_is_over = True

    def made(self) -> None:
        executor, submitted = self.bench.executor, self.bench.executor._submitted
        submit, executor.submit = executor.submit, lambda batch: submitted.update(one.mark for one in batch)  # type: ignore[method-assign]
        self.held = [int(self.bench.run(name).id) for name in TRIGGERS]
        self.bench.engine.turn()
        executor.submit = submit  # type: ignore[method-assign]
        with self.bench._store.transaction(0) as transaction:
            rows = transaction.live_runs(self.held)
            assert [row.state for row in rows] == [RunState.STARTING] * len(rows)

    def open(self) -> None:
        self.bench.executor._submitted.clear()
        for run_id in self.held:
            self.bench.runs.cancel(run_id)
        with self.bench._store.transaction(self.bench.clock.now_ms()) as transaction:
            self.bench.engine.reaper._recover(transaction, transaction.live_runs(self.held), self.bench.clock.now_ms())


class Ended(Closed):
    once_is_over = True

    def close(self) -> None:
        self.words = {"ends_at": at("08:10")}

    def open(self) -> None:
        for name in TRIGGERS:
            self.bench.edit(name, ends_at=None)


GATES: list[type[Closed]] = [
    QuietSkip, QuietDefer, Throttled, Refused, NoMoney, NoPlaceSkip, NoPlaceWait, PreCheck, OwnHook, FileHook, Guarded,
    Approved, Denied, NobodyAnswers, Paused, PausedUntil, Failing, TooDear, InTheWay, Ended,
]  # fmt: skip


@pytest.fixture(params=GATES, ids=lambda gate: gate.__name__)
def gate(request: pytest.FixtureRequest, bench: Sandbox, tmp_path: Path) -> Closed:
    made = request.param(bench, tmp_path)
    for name, words in TRIGGERS.items():
        bench.add(name, job=made.job, **words, **made.words)
    made.made()
    return made


def goes_on(bench: Sandbox, name: str) -> bool:
    """Whether something will come of it by itself: a slot, or a run that is not over; or a person has stopped it."""
    schedule = bench.get(name)
    if schedule.state in ("paused", "expired") or any(run.live for run in bench.runs.list(schedule=name)):
        return True
    return name == "once" or (schedule.next_run_at is not None and schedule.due_at is not None)


def watch(bench: Sandbox, gate: Closed, until: str) -> None:
    """Let time pass; at every moment all of them go on, and every slot that came has its record."""
    while bench.clock.now_ms() < instant(at(until)):
        bench.run_until(min(bench.clock.now_ms() + 300_000, instant(at(until))))
        gate.tend()
        bench.settle()
        stuck = [name for name in TRIGGERS if not goes_on(bench, name)]
        assert not stuck, {name: lines(bench, name) for name in stuck}


def ran_after(bench: Sandbox, name: str, when: str) -> bool:
    runs = bench.assert_ran(name)
    return any(run.started_at is not None and run.started_at >= moment(when) for run in runs)


def test_b1_no_gate_can_wedge_or_kill_a_schedule(bench: Sandbox, gate: Closed) -> None:
    """B1 B8 P5 P7 C6 C8 C10 V4 V6 S3 B5 B6: while it is closed nothing runs; when it opens, all of them do"""
    watch(bench, gate, OPENS)
    for name in TRIGGERS:
        runs = [
            run
            for run in bench.runs.list(schedule=name)
            if run.state == "succeeded" and (run.started_at is None or run.started_at < moment(OPENS))
        ]
        assert not runs, (name, lines(bench, name))
    gate.open()
    watch(bench, gate, "11:30")
    for name in TRIGGERS:
        if name == "once" and gate.once_is_over:
            assert [run.live for run in bench.runs.list(schedule=name) if run.slot] in ([False], []), lines(bench, name)
        else:
            assert ran_after(bench, name, OPENS), (name, lines(bench, name))


def test_the_same_after_a_restart_at_any_moment(restart: Callable[..., Sandbox], tmp_path: Path) -> None:
    """B1 H8: each turn by another process"""
    first = restart()
    words = {"pre_check": f"! test -e {tmp_path}/closed", "provider": "anthropic", "quiet_hours": "quiet"}
    (tmp_path / "closed").touch()
    first.quiet_hours.set("quiet", windows="08:20-09:10", mode="defer")
    first.throttles.set("anthropic", resets_at=moment("09:40"))
    for name, when in TRIGGERS.items():
        first.add(name, job="work", **when, **words)
    for minute in range(10, 200, 10):
        if minute == 120:
            (tmp_path / "closed").unlink()
        bench = restart()
        bench.run_until(instant(at("08:00")) + minute * 60_000)
    for name in TRIGGERS:
        assert ran_after(bench, name, "09:50"), (name, lines(bench, name))
