"""Cortex's own sentences (seeds/cortex)."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from matins import JobContext
from matins.errors import Conflict, IntervalParseError, RateLimited, TriggerError
from matins.seeds import cortex, run_views
from matins.seeds.cortex import (
    ThrottleState,
    guarding,
    schedule_get,
    schedule_pause,
    schedule_resume,
    schedule_trigger,
    throttle_states,
)
from matins.testing import ManualClock, Sandbox, instant

NOW = datetime(2026, 3, 27, 12, tzinfo=UTC)  # a Friday


@pytest.mark.parametrize(
    ("interval", "gap"),
    [
        ("30s", timedelta(seconds=30)),
        ("5m", timedelta(minutes=5)),
        ("2h", timedelta(hours=2)),
        ("1d", timedelta(days=1)),
        (30_000, timedelta(seconds=30)),
    ],
)
def test_c1_interval(interval: str | int, gap: timedelta) -> None:
    """C1"""
    trigger = schedule_trigger("interval", interval=interval, now=NOW)
    assert trigger.next_after(NOW) == NOW + gap


def test_c1_daily() -> None:
    """C1"""
    trigger = schedule_trigger("daily", time="09:00")
    assert trigger.next_after(NOW) == datetime(2026, 3, 28, 9, tzinfo=UTC)


def test_c1_weekly_monday_at_21() -> None:
    """C1"""
    trigger = schedule_trigger("weekly", day_of_week=1, time="21:00")
    assert trigger.next_after(NOW) == datetime(2026, 3, 30, 21, tzinfo=UTC)
    assert trigger.describe() == "every Monday at 21:00"
    assert schedule_trigger("weekly", day_of_week=0, time="21:00").describe() == "every Sunday at 21:00"


@pytest.mark.parametrize("delay", ["2h", 7_200_000])
def test_c1_once_after_a_delay(delay: str | int) -> None:
    """C1"""
    trigger = schedule_trigger("once", delay=delay, now=NOW)
    due = NOW + timedelta(hours=2)
    assert trigger.next_after(NOW) == due
    assert trigger.next_after(due) is None


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("hourly", {}),
        ("interval", {}),
        ("daily", {}),
        ("weekly", {"time": "09:00"}),
        ("weekly", {"day_of_week": 7, "time": "09:00"}),
        ("daily", {"time": "9am"}),
        ("daily", {"time": "24:00"}),
        ("once", {}),
        ("interval", {"interval": 0}),
    ],
)
def test_c1_bad_fields_are_named(kind: str, fields: dict) -> None:
    """C1"""
    with pytest.raises(TriggerError) as caught:
        schedule_trigger(kind, **fields, now=NOW)
    assert caught.value.field


def test_c1_durations_take_one_number_and_one_unit() -> None:
    """C1"""
    with pytest.raises(IntervalParseError):
        schedule_trigger("interval", interval="1w", now=NOW)


@pytest.mark.parametrize(
    ("kind", "fields", "period"),
    [
        ("interval", {"interval": "5m"}, timedelta(minutes=5)),
        ("daily", {"time": "13:00"}, timedelta(days=1)),
        ("weekly", {"day_of_week": 5, "time": "13:00"}, timedelta(days=7)),
    ],
)
def test_c9_in_flight_protection(kind: str, fields: dict, period: timedelta) -> None:
    """C9: "If a task's timer fires while a previous invocation is still running … the new invocation is skipped." """
    bench = Sandbox(clock=ManualClock(NOW))
    in_flight: list[int] = []

    @bench.job("task")
    def task(run: JobContext) -> None:
        in_flight.append(run.id)
        assert in_flight == [run.id]
        bench.clock.advance(period // timedelta(milliseconds=1))
        bench.engine.turn()
        in_flight.remove(run.id)

    bench.add("task", when=schedule_trigger(kind, **fields, now=NOW), job="task")
    if kind == "interval":
        bench.run("task")
    bench.run_until(NOW + timedelta(hours=1))
    first, second, *_ = [(run.state, run.reason) for run in reversed(bench.all_runs("task"))]
    assert (first, second) == (("succeeded", None), ("skipped", "already_running"))
    bench.close()


def test_c12_startup() -> None:
    """C12: "Drops once tasks that are more than 1 minute overdue … Schedules all remaining tasks" """
    bench = Sandbox(clock=ManualClock(NOW))
    bench.job("task")(lambda run: None)
    for minutes in (1, 2, 3):
        bench.add(
            f"once-{minutes}", when=schedule_trigger("once", delay=f"{minutes}m", now=NOW), job="task", grace="1m"
        )
    bench.add("daily", when=schedule_trigger("daily", time="13:00"), job="task")
    bench.clock.advance(3 * 60_000 + 30_000)
    bench.settle()
    states = [bench.runs.list(schedule=f"once-{minutes}")[0].state for minutes in (1, 2, 3)]
    assert states == ["missed", "missed", "succeeded"]
    assert bench.get("daily").state == "active"
    bench.run_until(NOW + timedelta(hours=1))
    bench.assert_ran("daily", times=1)
    bench.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Sandbox]:
    made = Sandbox(f"sqlite:///{tmp_path}/cortex.db", clock=ManualClock(NOW))
    made.job("task")(lambda run: None)
    yield made
    made.close()


def restarted(bench: Sandbox) -> Sandbox:
    again = Sandbox(f"sqlite:///{bench._store.path}", clock=bench.clock)
    again.job("task")(lambda run: None)
    return again


EVERY_TEN = schedule_trigger("interval", interval="10m", now=NOW)


def after(minutes: int) -> int:
    return instant(NOW + timedelta(minutes=minutes))


def test_c6_precheck_gates_a_fire(bench: Sandbox, tmp_path: Path) -> None:
    """C6: "if the command exits with a non-zero status, the schedule's fire is skipped for that cycle. The schedule is
    rescheduled for its next normal interval — there is no fast retry." """
    bench.add("gpu", when=EVERY_TEN, job="task", pre_check="test -f ready")
    bench.run_until(NOW + timedelta(minutes=19))
    (skipped,) = bench.runs.list(schedule="gpu")
    assert (skipped.state, skipped.reason) == ("skipped", "pre_check")
    task = schedule_get(bench, "gpu")
    assert (task.last_skipped, task.last_run, task.next_run) == (after(10), None, after(20))
    (tmp_path / "ready").touch()
    bench.run_until(NOW + timedelta(minutes=29))
    task = schedule_get(bench, "gpu")
    assert (task.last_skipped, task.last_run, task.next_run) == (after(10), after(20), after(30))
    assert task.pre_check == "test -f ready"


def test_c6_precheck_learns_of_the_last_run_in_the_data_folder(bench: Sandbox, tmp_path: Path) -> None:
    """C6: "It receives the PRECHECK_LAST_RUN environment variable (epoch ms of the task's lastRun field). The working
    directory is DATA_DIR" """
    command = 'echo "$PRECHECK_LAST_RUN $(pwd)" >> seen; test "$(wc -l < seen)" -ne 2'
    bench.add("gpu", when=EVERY_TEN, job="task", pre_check=command)
    bench.run_until(NOW + timedelta(minutes=35))
    assert bench.get("gpu").settings.get("check_timeout", "15s") == "15s", "with a 15-second timeout"
    lines = [line.rsplit(" ", 1) for line in (tmp_path / "seen").read_text().splitlines()]
    assert [folder for _, folder in lines] == [str(tmp_path)] * 3
    assert [last for last, _ in lines] == ["", str(after(10)), str(after(10))], "the second fire was skipped"


def test_c6_however_long_ago(bench: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """C6: lastRun and lastSkipped are found behind many other records"""
    monkeypatch.setattr(run_views, "_PAGE", 2)
    bench.add("gpu", when=EVERY_TEN, job="task", pre_check="false")
    bench.run_until(NOW + timedelta(minutes=15))
    bench.edit("gpu", pre_check=None)
    bench.run_until(NOW + timedelta(minutes=75))
    bench.hooks.set("before:schedule:trigger", command="false")
    bench.run_until(NOW + timedelta(minutes=155))
    task = schedule_get(bench, "gpu")
    assert (task.last_skipped, task.last_run) == (after(10), after(70))


@pytest.mark.parametrize("answer", [True, "the provider is down"])
def test_c8_before_run_guard(answer: Any) -> None:
    """C8: "When the guard returns true, the fire is blocked entirely. The _onGuardBlocked async callback handles
    bookkeeping" """
    answers = [answer]
    kept: SimpleQueue[str] = SimpleQueue()

    def before_run_guard(task: dict[str, Any]) -> Any:
        return answers[-1]

    async def on_guard_blocked(task: dict[str, Any]) -> None:
        kept.put(task["schedule"])

    bench = Sandbox(clock=ManualClock(NOW), **guarding(before_run_guard, on_guard_blocked))
    bench.job("task")(lambda run: None)
    bench.add("sweep", when=EVERY_TEN, job="task")
    bench.run_until(NOW + timedelta(minutes=25))
    assert [(run.state, run.reason) for run in bench.runs.list(schedule="sweep")] == [("blocked", "guard")] * 2
    assert [kept.get(timeout=60) for _ in range(2)] == ["sweep", "sweep"]
    answers.append(False)
    bench.run_until(NOW + timedelta(minutes=45))
    bench.assert_ran("sweep", times=2)
    assert kept.empty()
    bench.close()


def test_c8_a_guard_alone() -> None:
    """C8: the bookkeeping is optional, and one that fails does not let the fire through or end the schedule"""

    async def fails(task: dict[str, Any]) -> None:
        raise RuntimeError("the disk is full")

    for on_guard_blocked in (None, fails):
        bench = Sandbox(clock=ManualClock(NOW), **guarding(lambda task: True, on_guard_blocked))
        bench.job("task")(lambda run: None)
        bench.add("sweep", when=EVERY_TEN, job="task")
        bench.run_until(NOW + timedelta(minutes=25))
        assert [run.state for run in bench.runs.list(schedule="sweep")] == ["blocked", "blocked"]
        assert bench.get("sweep").state == "active"
        bench.close()


@pytest.mark.parametrize(
    ("kind", "fields", "resumed"),
    [
        ("interval", {"interval": "1h"}, NOW + timedelta(minutes=90)),
        ("daily", {"time": "12:15"}, NOW + timedelta(days=1, minutes=15)),
        ("weekly", {"day_of_week": 5, "time": "12:15"}, NOW + timedelta(days=7, minutes=15)),
    ],
)
def test_c10_pause_and_resume(bench: Sandbox, kind: str, fields: dict, resumed: datetime) -> None:
    """C10: "isPaused is set to true, pausedAt records the timestamp, pausedBy records "user" … nextRun is set to null";
    "nextRun is recomputed based on the schedule type (for interval: now + intervalMs; for daily/weekly: the next
    occurrence)" """
    bench.add("task", when=schedule_trigger(kind, **fields, now=NOW), job="task")
    bench.clock.advance(60_000)
    paused = schedule_pause(bench, "task")
    assert (paused.is_paused, paused.paused_at, paused.paused_by) == (True, after(1), "user")
    assert paused.next_run is None
    bench.run_until(NOW + timedelta(minutes=30))
    assert bench.runs.list(schedule="task") == []
    task = schedule_resume(bench, "task")
    assert (task.is_paused, task.paused_at, task.paused_by) == (False, None, None)
    assert task.next_run == instant(resumed)


def test_c10_once_cannot_be_paused(bench: Sandbox) -> None:
    """C10: "Once-type schedules cannot be paused (they either fire or get dropped)." """
    bench.add("reminder", when=schedule_trigger("once", delay="2h", now=NOW), job="task", provider="claude")
    with pytest.raises(Conflict, match="once"):
        schedule_pause(bench, "reminder")
    bench.throttles.set("claude", resets_at=NOW + timedelta(hours=1))
    task = schedule_get(bench, "reminder")
    assert (task.is_paused, task.next_run) == (False, after(120))
    bench.run_until(NOW + timedelta(hours=3))
    bench.assert_ran("reminder", times=1)


def test_c10_paused_by_its_failures_or_its_budget(bench: Sandbox) -> None:
    """C10: also failures and budget"""

    @bench.job("broken")
    def broken(run: JobContext) -> None:
        raise ValueError

    @bench.job("dear")
    def dear(run: JobContext) -> None:
        run.spend("$2")

    bench.budgets.set("day", max_cost="$1", period="day")
    bench.add("broken", when=EVERY_TEN, job="broken", pause_after_failures=1)
    bench.add("dear", when=schedule_trigger("interval", interval="15m", now=NOW), job="dear")
    bench.run_until(NOW + timedelta(hours=1))
    shown = [schedule_get(bench, name) for name in ("broken", "dear")]
    assert [task.paused_by for task in shown] == ["failures", "budget"]
    assert [task.paused_at for task in shown] == [after(10), after(15)]
    assert [task.next_run for task in shown] == [None, None]
    assert not schedule_resume(bench, "broken").is_paused


def test_c16_rate_limit_pauses_and_resumes_by_itself(bench: Sandbox) -> None:
    """C16: "Schedules can be auto-paused by the rate-limit system (pausedBy: "rate-limit")"; "The throttle state
    (resetsAt, activatedAt, affected modes) is stored" """

    @bench.job("claude")
    def claude(run: JobContext) -> None:
        if bench.clock.now_ms() < after(40):
            raise RateLimited("claude", resets_at=NOW + timedelta(minutes=40))

    bench.add("limited", when=EVERY_TEN, job="claude", provider="claude")
    bench.add("other", when=EVERY_TEN, job="task", provider="codex")
    bench.run_until(NOW + timedelta(minutes=25))
    assert throttle_states(bench) == [ThrottleState("claude", after(40), after(10), ())]
    task = schedule_get(bench, "limited")
    assert (task.is_paused, task.paused_by, task.paused_at, task.next_run) == (True, "rate-limit", after(10), None)
    assert not schedule_get(bench, "other").is_paused
    bench.assert_ran("other", times=2)
    bench.assert_not_ran("limited")
    bench.run_until(NOW + timedelta(minutes=41))
    assert throttle_states(bench) == []
    task = schedule_get(bench, "limited")
    assert (task.is_paused, task.paused_by, task.paused_at) == (False, None, None)
    assert task.last_run == after(40)
    assert task.next_run is not None


def test_c16_across_restarts(bench: Sandbox) -> None:
    """C16: "On startup, previously rate-limit-paused tasks are evaluated for auto-resume" """
    bench.add("limited", when=EVERY_TEN, job="task", provider="claude")
    bench.throttles.set("claude", resets_at=NOW + timedelta(minutes=40))
    bench.run_until(NOW + timedelta(minutes=25))
    again = restarted(bench)
    again.settle()
    assert schedule_get(again, "limited").paused_by == "rate-limit"
    again.assert_not_ran("limited")
    again.clock.advance(30 * 60_000)
    third = restarted(again)
    third.settle()
    assert not schedule_get(third, "limited").is_paused
    third.assert_ran("limited")
    again.close()
    third.close()


def test_c16_a_users_pause_is_never_lifted(bench: Sandbox) -> None:
    """C16: "The rate-limit auto-resume path only considers pausedBy: "rate-limit" tasks." """
    bench.add("mine", when=EVERY_TEN, job="task", provider="claude")
    schedule_pause(bench, "mine")
    bench.throttles.set("claude", resets_at=NOW + timedelta(minutes=40))
    assert schedule_get(bench, "mine").paused_by == "user"
    bench.run_until(NOW + timedelta(hours=3))
    assert throttle_states(bench) == []
    assert schedule_get(bench, "mine").paused_by == "user"
    assert bench.runs.list(schedule="mine") == []


def test_c16_affected_modes(bench: Sandbox) -> None:
    """C16: "affected modes": the profiles that are named; the others go on"""
    for profile in ("claude-haiku", "claude-sonnet"):
        bench.add("scan", when=EVERY_TEN, job="task", agent=profile, provider="claude")
    bench.throttles.set("claude", resets_at=NOW + timedelta(minutes=40), affects=["claude-haiku"])
    (state,) = throttle_states(bench)
    assert state.affected_modes == ("claude-haiku",)
    bench.run_until(NOW + timedelta(minutes=15))
    paused = [schedule_get(bench, "scan", agent=profile).paused_by for profile in ("claude-haiku", "claude-sonnet")]
    assert paused == ["rate-limit", None]
    assert schedule_get(bench, "scan", agent="claude-sonnet").profile == "claude-sonnet"
    bench.assert_ran("claude-sonnet/scan", times=1)
    bench.assert_not_ran("claude-haiku/scan")


@pytest.mark.parametrize("delay", ["2h", 7_200_000])
def test_c1_a_delay_counts_by_the_clock_of_its_matins(delay: str | int) -> None:
    """C1: "Fire once after a delay"; the clock of a Sandbox is not that of the machine"""
    sandbox = Sandbox(clock=ManualClock("2031-05-01T08:00:00Z"))
    sandbox.agents.set("claude-haiku", runner="demo")
    once = cortex.schedule_add(sandbox, "once", "Remind me", delay=delay, profile="claude-haiku")
    assert once.run_at == once.next_run == instant("2031-05-01T10:00:00Z")
    often = cortex.schedule_add(sandbox, "interval", "Look", interval=delay, profile="claude-haiku")
    assert (often.next_run, often.interval_ms) == (instant("2031-05-01T10:00:00Z"), 7_200_000)
    sandbox.close()


def test_c13_c4_the_only_agent_is_the_active_profile_and_a_context_s_channel_is_kept() -> None:
    """C13 C4: "fresh … The schedule's channel is used as fallback"; threads are spelled as the seed does"""
    sandbox = Sandbox(clock=ManualClock("2031-05-01T08:00:00Z"))
    sandbox.agents.set("claude-haiku", runner="demo")
    here = {"channel": "C07ABCDEF", "threadId": "thr_12"}
    fresh = cortex.schedule_add(sandbox, "daily", "Scan", time="08:00", profile=None, context=here)
    assert (fresh.profile, fresh.target) == ("claude-haiku", {"kind": "fresh", "channel": "C07ABCDEF"})
    same = cortex.schedule_add(sandbox, "daily", "Scan", time="08:00", target="current-thread", context=here)
    assert same.target == {"kind": "thread", "channel": "C07ABCDEF", "threadId": "thr_12"}
    sandbox.close()
