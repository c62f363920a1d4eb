"""herdctl's Scheduler class, in its own sentences (seeds/herdctl): it runs on Matins' engine."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any, get_type_hints

import pytest

from matins.errors import Conflict, InvalidInput, NotFound
from matins.runtime.loop import Loop
from matins.seeds import herdctl
from matins.seeds.cortex.tasks import TasksFile
from matins.seeds.herdctl import (
    Scheduler,
    SchedulerShutdownError,
    TriggerInfo,
    build_schedule_prompt,
    get_agent_schedule_states,
    get_schedule_state,
    run_schedule,
    update_schedule_state,
)
from matins.seeds.herdctl import states as notes
from matins.testing import ManualClock, Sandbox

PATIENCE = 60
ISSUES = {"type": "interval", "interval": "5m", "prompt": "Check for ready issues."}
REPORT = {"type": "cron", "expression": "0 9 * * 1-5", "prompt": "Generate daily report."}


class Log:
    """A logger that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def debug(self, message: str) -> None:
        self.lines.append(("debug", message))

    def info(self, message: str) -> None:
        self.lines.append(("info", message))

    def warn(self, message: str) -> None:
        self.lines.append(("warn", message))

    def error(self, message: str) -> None:
        self.lines.append(("error", message))


def agent(name: str = "my-agent", most: int = 1, **schedules: Any) -> dict[str, Any]:
    entries = {key.replace("_", "-"): entry for key, entry in schedules.items()}
    return {"name": name, "schedules": entries, "instances": {"max_concurrent": most}}


class Fired:
    """An `on_trigger` that waits until it may end."""

    def __init__(self, *, at_once: bool = True) -> None:
        self.infos: list[TriggerInfo] = []
        self.begun, self.may_end = Event(), Event()
        self.results: list[Any] = []
        if at_once:
            self.may_end.set()

    def __call__(self, info: TriggerInfo) -> None:
        self.infos.append(info)
        self.begun.set()
        assert self.may_end.wait(PATIENCE)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock("2025-01-20T08:00:00Z")  # a Monday


@pytest.fixture
def made(tmp_path: Path, clock: ManualClock) -> Iterator[Any]:
    schedulers: list[Scheduler] = []

    def make(on_trigger: Any = None, **options: Any) -> Scheduler:
        given = {"state_dir": tmp_path / ".herdctl", "check_interval": 10, "logger": Log(), "clock": clock, **options}
        schedulers.append(Scheduler(on_trigger=on_trigger, **given))
        return schedulers[-1]

    yield make
    for scheduler in schedulers:
        scheduler.stop(wait_for_jobs=False)


def until(holds: Any) -> None:
    """Wait for the engine's thread, which turns every 10 ms."""
    pause = Event()
    for _ in range(PATIENCE * 100):
        if holds():
            return
        pause.wait(0.01)
    raise AssertionError("it never came")


def states(scheduler: Scheduler, tmp_path: Path) -> dict[str, Any]:
    return get_agent_schedule_states(tmp_path / ".herdctl", "my-agent")


def test_h1_construction_and_its_defaults() -> None:
    """H1: "checkInterval | number | 1000"; "stateDir | string | required"; "onTrigger | callback | undefined" """
    parameters = inspect.signature(Scheduler).parameters
    assert parameters["check_interval"].default == 1_000
    assert parameters["state_dir"].default is inspect.Parameter.empty
    assert (parameters["logger"].default, parameters["on_trigger"].default) == (None, None)
    assert set(get_type_hints(herdctl.SchedulerOptions)) == set(parameters) - {"clock"}
    stop = inspect.signature(Scheduler.stop).parameters
    assert {name: stop[name].default for name in get_type_hints(herdctl.StopOptions)} == {
        "wait_for_jobs": True,
        "timeout": 30_000,
    }


def test_h1_the_console_is_the_default_logger(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """H1: "logger | SchedulerLogger | console | Logger instance with debug/info/warn/error" """
    scheduler = Scheduler(state_dir=tmp_path)
    scheduler.start([])
    scheduler.stop()
    assert "[scheduler] info: Scheduler stopped\n" in capsys.readouterr().err


def test_h1_its_life(made: Any, clock: ManualClock) -> None:
    """H1: "Check if running"; "stopped" | "running" | "stopping"; "{ status, startedAt, checkCount, triggerCount,
    lastCheckAt }" """
    fired = Fired()
    scheduler = made(fired)
    assert (scheduler.is_running(), scheduler.get_status()) == (False, "stopped")
    assert scheduler.get_state() == ("stopped", None, 0, 0, None)
    scheduler.start([agent(check_issues=ISSUES, morning_report=REPORT)])
    assert (scheduler.is_running(), scheduler.get_status()) == (True, "running")
    assert fired.begun.wait(PATIENCE)
    until(lambda: scheduler.get_state().check_count >= 3)
    state = scheduler.get_state()
    assert state._replace(check_count=0) == ("running", "2025-01-20T08:00:00Z", 0, 1, "2025-01-20T08:00:00Z")
    scheduler.stop()
    after = scheduler.get_state()
    assert (after.status, after.trigger_count) == ("stopped", 1)
    assert after.check_count >= state.check_count
    scheduler.start([agent(check_issues=ISSUES)])
    assert scheduler.get_state().trigger_count == 0, "counts begin with each start"


def test_h1_starting_twice_changes_nothing(made: Any) -> None:
    """H1, and where the seeds disagree: a no-op"""
    fired = Fired()
    scheduler = made(fired)
    scheduler.start([agent(check_issues=ISSUES)])
    scheduler.start([])
    assert fired.begun.wait(PATIENCE)
    assert scheduler.get_agent_schedule_info("my-agent").max_concurrent == 1


def test_h1_a_trigger_knows_agent_schedule_and_state(made: Any) -> None:
    """H1: "onTrigger: async (info) => { // Handle triggered schedule }" """
    told: list[TriggerInfo] = []
    done = Event()

    async def on_trigger(info: TriggerInfo) -> None:
        await asyncio.sleep(0)
        told.append(info)
        done.set()

    scheduler = made(on_trigger)
    mine = agent(check_issues=ISSUES)
    scheduler.start([mine])
    assert done.wait(PATIENCE)
    (info,) = told
    assert (info.agent, info.schedule_name, info.schedule) == (mine, "check-issues", ISSUES)
    assert info.schedule_state.status == "running"
    assert info.schedule_state.last_run_at == "2025-01-20T08:00:00Z"


def test_h3_ten_minutes_of_work_and_five_of_interval(made: Any, clock: ManualClock, tmp_path: Path) -> None:
    """H3: "If an agent takes 10 minutes but the interval is 5m, the next run starts 15 minutes after the first
    began" """
    begun: list[int] = []

    def work(info: TriggerInfo) -> None:
        begun.append(clock.now_ms())
        clock.advance(10 * 60_000)

    scheduler = made(work)
    scheduler.start([agent(check_issues=ISSUES)])
    until(lambda: states(scheduler, tmp_path)["check-issues"].next_run_at == "2025-01-20T08:15:00Z")
    clock.advance(5 * 60_000)
    until(lambda: len(begun) == 2)
    assert begun[1] - begun[0] == 15 * 60_000


def test_h4_cron_in_the_systems_zone_and_no_catch_up(made: Any, tmp_path: Path) -> None:
    """H4: "The system timezone is used for all cron evaluation."; "it calculates the next future occurrence from the
    current time and resumes normal operation" """
    first = made(clock=ManualClock("2025-01-20T08:00:00Z", zone="Asia/Tokyo"))
    first.start([agent(morning_report=REPORT)])
    state = get_schedule_state(tmp_path / ".herdctl", "my-agent", "morning-report")
    assert state.next_run_at == "2025-01-21T00:00:00Z", "nine in Tokyo"
    first.stop()
    fired = Fired()
    again = made(fired, clock=ManualClock("2025-01-21T01:30:00Z", zone="Asia/Tokyo"))
    again.start([agent(morning_report=REPORT)])
    until(lambda: states(again, tmp_path)["morning-report"].next_run_at == "2025-01-22T00:00:00Z")
    assert fired.infos == [], "the slot of 90 minutes ago is missed"


def test_h3_an_overdue_interval_is_due_now(made: Any, clock: ManualClock, tmp_path: Path) -> None:
    """H3: "If the calculated trigger time is in the past (e.g., after a long sleep or system resume), the function
    returns now to trigger immediately" """
    fired = Fired()
    first = made(fired)
    first.start([agent(check_issues=ISSUES)])
    until(lambda: states(first, tmp_path)["check-issues"].next_run_at == "2025-01-20T08:05:00Z")
    first.stop()
    clock.advance(2 * 3_600_000)
    late = Fired()
    again = made(late)
    again.start([agent(check_issues=ISSUES)])
    assert late.begun.wait(PATIENCE)
    until(lambda: states(again, tmp_path)["check-issues"].next_run_at == "2025-01-20T10:05:00Z")
    assert len(late.infos) == 1


def test_h2_an_error_in_one_schedule_does_not_end_the_loop(made: Any, tmp_path: Path) -> None:
    """H2: "this.logger.error(`Error during schedule check…" and the loop goes on"""
    other = Event()

    def on_trigger(info: TriggerInfo) -> None:
        if info.schedule_name == "check-issues":
            raise RuntimeError("the API is down")
        other.set()

    scheduler = made(on_trigger)
    scheduler.start([agent(most=2, check_issues=ISSUES, more_issues=ISSUES)])
    assert other.wait(PATIENCE)
    until(lambda: states(scheduler, tmp_path)["check-issues"].last_error == "RuntimeError: the API is down")
    state = states(scheduler, tmp_path)["check-issues"]
    assert (state.status, state.next_run_at) == ("idle", "2025-01-20T08:05:00Z"), "back to idle with an error"
    assert ("error", "Error in schedule my-agent/check-issues: the API is down") in scheduler._logger.lines
    assert scheduler.is_running()


def test_h2_long_jobs_delay_nobody(made: Any) -> None:
    """H2: each trigger has a thread of its own, however many run"""
    fired = Fired(at_once=False)
    scheduler = made(fired)
    many = [agent(f"agent-{n}", check_issues=ISSUES) for n in range(20)]
    scheduler.start(many)
    until(lambda: scheduler.get_total_running_job_count() == 20)
    fired.may_end.set()
    until(lambda: scheduler.get_total_running_job_count() == 0)


def test_h5_webhook_and_chat_are_not_triggered_by_the_clock(made: Any, tmp_path: Path) -> None:
    """H5: "The webhook and chat schedule types are not automatically triggered by the scheduler." """
    scheduler = made(Fired())
    scheduler.start([agent(check_issues=ISSUES, on_push={"type": "webhook"}, on_message={"type": "chat"})])
    assert set(states(scheduler, tmp_path)) == {"check-issues"}
    assert set(scheduler.get_agent_schedule_info("my-agent").schedules) == {"check-issues", "on-push", "on-message"}


def test_h10_running_counts(made: Any) -> None:
    """H10: "scheduler.getRunningJobCount("my-agent")"; "scheduler.getTotalRunningJobCount()" """
    fired = Fired(at_once=False)
    scheduler = made(fired)
    scheduler.start([agent(most=2, a=ISSUES, b=ISSUES, c=ISSUES), agent("other", a=ISSUES, b=ISSUES)])
    until(lambda: scheduler.get_total_running_job_count() == 3)
    assert (scheduler.get_running_job_count("my-agent"), scheduler.get_running_job_count("other")) == (2, 1)
    assert scheduler.get_running_job_count("nobody") == 0
    info = scheduler.get_agent_schedule_info("my-agent")
    assert (info.running_count, info.max_concurrent) == (2, 2)
    fired.may_end.set()
    until(lambda: len(fired.infos) == 5 and scheduler.get_total_running_job_count() == 0)
    with pytest.raises(NotFound, match='no agent "nobody"'):
        scheduler.get_agent_schedule_info("nobody")


def test_h10_one_at_a_time_by_default(made: Any) -> None:
    """H10: max_concurrent is 1 unless it is set"""
    fired = Fired(at_once=False)
    scheduler = made(fired)
    scheduler.start([{"name": "my-agent", "schedules": {"a": ISSUES, "b": ISSUES}}])
    assert fired.begun.wait(PATIENCE)
    checks = scheduler.get_state().check_count
    until(lambda: scheduler.get_state().check_count > checks + 2)
    assert scheduler.get_running_job_count("my-agent") == 1
    fired.may_end.set()
    until(lambda: len(fired.infos) == 2)


def test_h1_set_agents_while_running(made: Any, clock: ManualClock, tmp_path: Path) -> None:
    """H1: "Update agents while running (e.g., after config reload)" """
    fired = Fired()
    scheduler = made(fired)
    scheduler.start([agent(check_issues=ISSUES, morning_report=REPORT)])
    until(lambda: states(scheduler, tmp_path)["check-issues"].next_run_at == "2025-01-20T08:05:00Z")
    update_schedule_state(tmp_path / ".herdctl", "my-agent", "morning-report", {"status": "disabled"})
    clock.advance(60_000)
    slower = {**ISSUES, "prompt": "Check them well."}
    hourly = {"type": "interval", "interval": "1H"}
    scheduler.set_agents([agent(check_issues=slower, morning_report=REPORT, sweep=hourly)])
    until(lambda: len(fired.infos) == 2)
    found = states(scheduler, tmp_path)
    assert found["check-issues"].next_run_at == "2025-01-20T08:05:00Z", "another prompt does not move it"
    assert found["morning-report"].status == "disabled", "what stays the same keeps its state"
    assert fired.infos[-1].schedule_name == "sweep"
    scheduler.set_agents([agent(check_issues={**ISSUES, "interval": "2m"})])
    assert set(states(scheduler, tmp_path)) == {"check-issues", "morning-report"}, "disabled stays; sweep is gone"
    clock.advance(3 * 60_000)
    until(lambda: len(fired.infos) == 3)
    assert fired.infos[-1].schedule["interval"] == "2m"


def test_h12_a_schedule_that_is_disabled_in_its_file(made: Any, tmp_path: Path) -> None:
    """H6 H12: `enabled: false`, as today's herdctl has it"""
    fired = Fired()
    scheduler = made(fired)
    scheduler.start([])
    scheduler.set_agents([agent(check_issues={**ISSUES, "enabled": False})])
    assert states(scheduler, tmp_path)["check-issues"].status == "disabled"
    assert scheduler.get_state().trigger_count == 0
    scheduler.set_agents([agent(check_issues=ISSUES)])
    assert states(scheduler, tmp_path)["check-issues"].status != "disabled"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"type": "interval", "interval": "5x"}, 'Invalid time unit "x"'),
        ({"type": "interval"}, 'needs "interval"'),
        ({"type": "cron", "expression": "0 25 * * *"}, "hour must be 0-23"),
        ({"type": "cron"}, 'needs "expression"'),
        ({"type": "hourly"}, '"type" must be interval, cron, webhook, chat'),
    ],
)
def test_h12_a_schedule_that_cannot_be_used_is_refused(made: Any, entry: dict[str, Any], message: str) -> None:
    """H12: before anything starts"""
    scheduler = made(Fired())
    with pytest.raises(InvalidInput, match=message):
        scheduler.start([agent(check_issues=entry)])
    assert not scheduler.is_running()
    scheduler.start([agent(check_issues=ISSUES)])


def test_h11_stop_waits_for_running_jobs(made: Any) -> None:
    """H11: "waitForJobs: true, // Wait for running jobs to complete" """
    fired = Fired(at_once=False)
    scheduler = made(fired)
    scheduler.start([agent(check_issues=ISSUES)])
    assert fired.begun.wait(PATIENCE)
    seen: list[str] = []

    def info(message: str) -> None:
        seen.append(scheduler.get_status())
        if message.startswith("Waiting"):
            fired.may_end.set()

    scheduler._logger.info = info
    scheduler.stop(wait_for_jobs=True, timeout=PATIENCE * 1000)
    assert seen == ["stopping", "stopping", "stopped"]
    assert scheduler.get_total_running_job_count() == 0
    scheduler.stop()


def test_h11_stop_without_waiting(made: Any) -> None:
    """H11: "waitForJobs" false"""
    fired = Fired(at_once=False)
    scheduler = made(fired)
    scheduler.start([agent(check_issues=ISSUES)])
    assert fired.begun.wait(PATIENCE)
    scheduler.stop(wait_for_jobs=False)
    assert scheduler.get_status() == "stopped"
    fired.may_end.set()


def test_h11_a_timeout_while_stopping(tmp_path: Path) -> None:
    """H11: "Scheduler shutdown timed out after ${timeout}ms with ${count} job(s) still running" """
    fired = Fired(at_once=False)
    scheduler = Scheduler(state_dir=tmp_path, logger=Log(), on_trigger=fired)
    scheduler.start([agent(most=2, a=ISSUES, b=ISSUES)])
    until(lambda: scheduler.get_total_running_job_count() == 2)
    with pytest.raises(SchedulerShutdownError) as caught:
        scheduler.stop(wait_for_jobs=True, timeout=50)
    assert str(caught.value) == "Scheduler shutdown timed out after 50ms with 2 job(s) still running"
    assert (caught.value.timed_out, caught.value.running_job_count) == (True, 2)
    assert scheduler.get_status() == "stopped"
    fired.may_end.set()


def test_h8_the_state_functions_take_the_state_directory(made: Any, tmp_path: Path) -> None:
    """H8 H13: "getScheduleState(stateDir, "my-agent", "check-issues")" """
    home = tmp_path / ".herdctl"
    assert get_schedule_state(home, "my-agent", "check-issues") == ("idle", None, None, None), "the default"
    assert get_agent_schedule_states(home, "my-agent") == {}
    with pytest.raises(NotFound):
        update_schedule_state(home, "my-agent", "check-issues", {"status": "disabled"})
    fired = Fired(at_once=False)
    scheduler = made(fired)
    scheduler.start([agent(check_issues=ISSUES)])
    assert fired.begun.wait(PATIENCE)
    assert get_schedule_state(str(home), "my-agent", "check-issues").status == "running"
    running = update_schedule_state(home, "my-agent", "check-issues", {"status": "running"})
    assert running.last_run_at == "2025-01-20T08:00:00Z"
    fired.may_end.set()
    until(lambda: get_schedule_state(home, "my-agent", "check-issues").status == "idle")
    assert get_schedule_state(home, "my-agent", "no-such-schedule") == ("idle", None, None, None)


def test_h8_disabled_is_an_explicit_action_and_persists(made: Any, tmp_path: Path) -> None:
    """H8: "The disabled status is set by explicit user action and persists across restarts." """
    home, fired = tmp_path / ".herdctl", Fired()
    scheduler = made(fired)
    scheduler.start([agent(morning_report=REPORT)])
    assert update_schedule_state(home, "my-agent", "morning-report", {"status": "disabled"}).status == "disabled"
    assert update_schedule_state(home, "my-agent", "morning-report", {"status": "disabled"}).status == "disabled"
    scheduler.stop()
    again = made(fired)
    again.start([agent(morning_report=REPORT)])
    assert get_schedule_state(home, "my-agent", "morning-report").status == "disabled"
    assert update_schedule_state(home, "my-agent", "morning-report", {"status": "idle"}).status == "idle"
    for update in ({"status": "broken"}, {"last_run": "2025-01-19T10:00:00Z"}, {"last_run_at": "yesterday"}):
        with pytest.raises(InvalidInput) as caught:
            update_schedule_state(home, "my-agent", "morning-report", update)
        assert caught.value.field in update


def test_h8_every_field_of_the_state_can_be_set(made: Any, clock: ManualClock, tmp_path: Path) -> None:
    """H8 H13: "await updateScheduleState(stateDir, "my-agent", "check-issues", { status: "running", last_run_at: … })";
    a run that starts later decides again, and "running" does not outlive the process that said it"""
    home, fired = tmp_path / ".herdctl", Fired()
    scheduler = made(fired)
    scheduler.start([agent(morning_report=REPORT)])
    update = {"status": "running", "last_run_at": "2025-01-19T10:00:00Z"}
    state = update_schedule_state(home, "my-agent", "morning-report", update)
    assert (state.status, state.last_run_at) == ("running", "2025-01-19T10:00:00Z")
    rest = {"status": "idle", "next_run_at": "2025-01-20T10:00:00+01:00", "last_error": "it\nbroke"}
    update_schedule_state(home, "my-agent", "morning-report", rest)
    noted = ("idle", "2025-01-19T10:00:00Z", "2025-01-20T09:00:00Z", "it broke")
    assert get_schedule_state(home, "my-agent", "morning-report") == noted
    assert get_agent_schedule_states(home, "my-agent") == {"morning-report": noted}
    assert update_schedule_state(home, "my-agent", "morning-report", {"last_error": None}).last_error is None
    update_schedule_state(home, "my-agent", "morning-report", {"status": "running"})
    notes._running.clear()  # as after a crash
    assert get_schedule_state(home, "my-agent", "morning-report").status == "idle"


def test_h8_a_run_ends_what_was_noted() -> None:
    """H8: the state follows from the runs"""
    with closing(Sandbox(clock=ManualClock("2025-01-20T08:00:00Z"))) as bench:
        bench.job("work")(lambda run: None)
        bench.add("s", when="0 9 * * *", agent="my-agent", job="work")
        update = {"last_run_at": "2025-01-19T10:00:00Z", "last_error": "it broke"}
        bench.edit("s", agent="my-agent", labels={"team": "a"})
        assert update_schedule_state(bench, "my-agent", "s", update).last_error == "it broke"
        bench.run_until("2025-01-20T09:00:00Z")
        state = get_schedule_state(bench, "my-agent", "s")
        assert (state.last_run_at, state.last_error) == ("2025-01-20T09:00:00Z", None)
        assert bench.get("s", agent="my-agent").labels["team"] == "a"


def test_h13_build_schedule_prompt(tmp_path: Path) -> None:
    """H9 H13: "Without work item: Returns schedule.prompt or default prompt"; "With work item: Returns
    schedule.prompt + formatted work item details" """
    (tmp_path / "TASKS.yaml").write_text("- {id: T-1, title: Mend the door, priority: high}\n")
    item = TasksFile("todo", tmp_path / "TASKS.yaml").claim("run-1", 0)
    assert build_schedule_prompt(ISSUES) == "Check for ready issues."
    assert build_schedule_prompt({"type": "interval"})
    text = build_schedule_prompt(ISSUES, item)
    assert text.startswith("Check for ready issues.\n\nWork item T-1 of todo:\n")
    assert "Title: Mend the door\nPriority: 10\n" in text


@pytest.mark.parametrize("fails", [False, True])
def test_h9_run_schedule_is_the_run_of_its_trigger(made: Any, tmp_path: Path, fails: bool) -> None:
    """H9 H13: "Fetch work item … Build prompt … Execute job … Report outcome … Calculate next trigger" """
    tasks = tmp_path / "TASKS.yaml"
    tasks.write_text("- id: T-1\n  title: Mend the door\n  status: open\n")
    source, asked, results = TasksFile("todo", tasks), list[Any](), list[Any]()

    async def execute(prompt: str, about: Any) -> str:
        asked.append((prompt, about))
        assert "status: claimed" in tasks.read_text()
        if fails:
            raise RuntimeError("out of tokens")
        return "mended"

    def on_trigger(info: TriggerInfo) -> None:
        results.append(
            run_schedule(
                agent=info.agent, schedule=info.schedule, schedule_name=info.schedule_name,
                state_dir=tmp_path / ".herdctl", work_source_manager=source, job_executor=execute, logger=Log(),
            )
        )  # fmt: skip

    scheduler = made(on_trigger)
    scheduler.start([agent(check_issues=ISSUES)])
    until(lambda: states(scheduler, tmp_path)["check-issues"].next_run_at == "2025-01-20T08:05:00Z")
    (result,) = results
    assert (result.success, result.result, result.error) == (
        (False, None, "out of tokens") if fails else (True, "mended", None)
    )
    assert result.processed_work_item
    assert result.work_item.id == "T-1"
    ((prompt, about),) = asked
    assert prompt.startswith("Check for ready issues.\n\n")
    assert about == ("interval", "check-issues", "T-1", "Mend the door")
    assert ("status: failed" if fails else "status: done") in tasks.read_text()
    error = states(scheduler, tmp_path)["check-issues"].last_error
    assert (error is not None and "out of tokens" in error) == fails


def test_h9_nothing_to_do_is_skipped(made: Any, tmp_path: Path) -> None:
    """H9: no work item: skipped `no_work`, and the job is not executed"""
    (tmp_path / "TASKS.yaml").write_text("[]\n")
    results: list[Any] = []

    def on_trigger(info: TriggerInfo) -> None:
        results.append(
            run_schedule(
                agent=info.agent, schedule=info.schedule, schedule_name=info.schedule_name, state_dir=tmp_path,
                work_source_manager=TasksFile("todo", tmp_path / "TASKS.yaml"), logger=Log(),
                job_executor=lambda prompt, about: 1 / 0,
            )
        )  # fmt: skip

    scheduler = made(on_trigger)
    scheduler.start([agent(check_issues=ISSUES)])
    fleet = scheduler._fleet
    until(lambda: [run.state for run in fleet.runs.list(schedule="check-issues")][:1] == ["skipped"])
    assert fleet.runs.list(schedule="check-issues")[0].reason == "no_work"
    assert (results[0].success, results[0].skip_reason) == (False, "no_work")


def test_h13_run_schedule_outside_of_a_trigger(made: Any, tmp_path: Path) -> None:
    """H13: it starts a run of the scheduler, and waits for its end"""
    home, fired = tmp_path / ".herdctl", Fired()
    mine = agent(morning_report=REPORT)
    options: Any = {"agent": mine, "schedule": REPORT, "schedule_name": "morning-report", "state_dir": home}
    with pytest.raises(Conflict, match="No scheduler of this process runs"):
        run_schedule(**options, job_executor=lambda prompt, about: prompt, logger=Log())
    scheduler = made(fired)
    scheduler.start([mine])
    result = run_schedule(**options, job_executor=lambda prompt, about: prompt, logger=Log())
    assert (result.success, result.result) == (True, "Generate daily report.")
    assert fired.infos == []
    assert get_schedule_state(home, "my-agent", "morning-report").last_run_at == "2025-01-20T08:00:00Z"


def test_h13_everything_that_the_module_exports() -> None:
    """H13: the names of `packages/core/src/scheduler/index.ts`, in Python spelling"""
    names = [
        "Scheduler",
        "parse_interval",
        "calculate_next_trigger",
        "is_schedule_due",
        "parse_cron_expression",
        "calculate_next_cron_trigger",
        "is_valid_cron_expression",
        "get_schedule_state",
        "update_schedule_state",
        "get_agent_schedule_states",
        "run_schedule",
        "build_schedule_prompt",
        "SchedulerError",
        "IntervalParseError",
        "ScheduleTriggerError",
        "SchedulerShutdownError",
        "SchedulerOptions",
        "SchedulerStatus",
        "SchedulerState",
        "SchedulerLogger",
        "ScheduleCheckResult",
        "ScheduleSkipReason",
        "TriggerInfo",
        "SchedulerTriggerCallback",
        "AgentScheduleInfo",
        "StopOptions",
        "RunScheduleOptions",
        "ScheduleRunResult",
        "ScheduleRunnerLogger",
        "TriggerMetadata",
    ]
    assert set(names) <= set(herdctl.__all__)
    assert all(hasattr(herdctl, name) for name in herdctl.__all__)


def test_h1_there_is_no_second_loop(made: Any) -> None:
    """H1: the loop is the engine's"""
    scheduler = made(Fired())
    scheduler.start([agent(check_issues=ISSUES)])
    assert isinstance(scheduler._fleet._loop, Loop)


def test_h2_a_long_check_interval_delays_nothing(made: Any) -> None:
    """H2: "Check Interval Tuning": it is a ceiling on sleep, which anything new interrupts"""
    fired = Fired()
    scheduler = made(fired, check_interval=3_600_000)
    scheduler.start([])
    scheduler.set_agents([agent(check_issues=ISSUES)])
    assert fired.begun.wait(PATIENCE)
    scheduler.stop()


def test_h8_an_update_from_outside_is_acted_on(made: Any, clock: ManualClock, tmp_path: Path) -> None:
    """H8: "the scheduler always acts on the latest persisted state, which matters when state is updated externally" """
    fired = Fired()
    scheduler = made(fired)
    scheduler.start([agent(check_issues=ISSUES)])
    until(lambda: states(scheduler, tmp_path)["check-issues"].next_run_at == "2025-01-20T08:05:00Z")
    update_schedule_state(tmp_path / ".herdctl", "my-agent", "check-issues", {"status": "disabled"})
    clock.advance(3_600_000)
    checks = scheduler.get_state().check_count
    until(lambda: scheduler.get_state().check_count > checks + 3)
    assert len(fired.infos) == 1


def test_h1_without_a_callback_triggers_are_counted(made: Any, tmp_path: Path) -> None:
    """H1: "onTrigger | callback | undefined | Called when a schedule triggers" """
    scheduler = made()
    scheduler.start([agent(check_issues=ISSUES)])
    until(lambda: states(scheduler, tmp_path)["check-issues"].next_run_at == "2025-01-20T08:05:00Z")
    assert scheduler.get_state().trigger_count == 1


# -- no trigger after a stop, and none lost


def test_h11_nothing_is_triggered_once_it_stops(made: Any, tmp_path: Path) -> None:
    """H11: "Set status to "stopping" — prevents new triggers from firing"; the trigger is not lost either"""
    fired, seen = Fired(), list[str]()

    def on_trigger(info: TriggerInfo) -> None:
        seen.append(scheduler.get_status())
        fired(info)

    scheduler = made(on_trigger)
    scheduler._started.set = lambda: None  # the trigger comes to be while start and stop go by
    scheduler.start([agent(check_issues=ISSUES)])
    fleet = scheduler._fleet
    until(lambda: fleet.runs.list(schedule="check-issues")[:1] != [] and fleet._loop.engine.executor.running() == 1)
    stopping = threading.Thread(target=scheduler.stop)
    stopping.start()
    until(lambda: scheduler.get_status() != "running")
    threading.Event.set(scheduler._started)
    stopping.join(PATIENCE)
    assert (scheduler.get_status(), scheduler.get_state().trigger_count, seen) == ("stopped", 0, [])
    assert get_schedule_state(tmp_path / ".herdctl", "my-agent", "check-issues").status == "idle"
    again = made(fired)
    again.start([agent(check_issues=ISSUES)])
    assert fired.begun.wait(PATIENCE), "its first run is at once"


@pytest.mark.parametrize("number", range(10))
def test_h11_start_and_stop_at_once(made: Any, number: int) -> None:
    """H11: what was triggered before the stop is waited for, and nothing comes after it"""
    after: list[str] = []
    stopped = Event()
    scheduler = made(lambda info: after.append(info.schedule_name) if stopped.is_set() else None)
    scheduler.start([agent(check_issues=ISSUES)])
    scheduler.stop()
    stopped.set()
    assert (after, scheduler.get_total_running_job_count()) == ([], 0)


# -- what herdctl keeps in its state


@pytest.mark.parametrize("fails", [False, True])
def test_h9_run_schedule_outside_of_a_trigger_moves_the_next_run(
    made: Any, tmp_path: Path, clock: ManualClock, fails: bool
) -> None:
    """H9: "Calculate next trigger — determine when to run again … record completion time and next run time" """
    home, mine, fired = tmp_path / ".herdctl", agent(check_issues=ISSUES), Fired()
    scheduler = made(fired)
    scheduler.start([mine])
    until(lambda: states(scheduler, tmp_path)["check-issues"].next_run_at == "2025-01-20T08:05:00Z")
    clock.advance(120_000)

    def execute(prompt: str, about: Any) -> str:
        if fails:
            raise RuntimeError("out of tokens")
        return prompt

    options: Any = {"agent": mine, "schedule": ISSUES, "schedule_name": "check-issues", "state_dir": home}
    assert run_schedule(**options, job_executor=execute, logger=Log()).success is not fails
    state = get_schedule_state(home, "my-agent", "check-issues")
    assert (state.last_run_at, state.next_run_at) == ("2025-01-20T08:02:00Z", "2025-01-20T08:07:00Z")
    assert len(fired.infos) == 1


def test_h8_disabled_survives_that_an_agent_leaves_and_returns(made: Any, tmp_path: Path, clock: ManualClock) -> None:
    """H8 H1: "The disabled status is set by explicit user action and persists across restarts." """
    home, fired = tmp_path / ".herdctl", Fired()
    scheduler = made(fired)
    mine, other = agent(check_issues=ISSUES, morning_report=REPORT), agent("other")
    scheduler.start([mine, other])
    until(lambda: states(scheduler, tmp_path)["check-issues"].next_run_at == "2025-01-20T08:05:00Z")
    update_schedule_state(home, "my-agent", "check-issues", {"status": "disabled"})
    scheduler.set_agents([other])
    assert {name: state.status for name, state in states(scheduler, tmp_path).items()} == {"check-issues": "disabled"}
    scheduler.stop()
    again = made(fired)
    again.start([other])
    again.set_agents([mine, other])
    found = {name: state.status for name, state in states(again, tmp_path).items()}
    assert found == {"check-issues": "disabled", "morning-report": "idle"}
    update_schedule_state(home, "my-agent", "check-issues", {"status": "idle"})
    assert states(again, tmp_path)["check-issues"].status == "idle"


def test_h8_what_is_enabled_while_its_agent_is_away_triggers_nothing(
    made: Any, tmp_path: Path, clock: ManualClock
) -> None:
    """H1: only the agents of the list are triggered"""
    home, fired = tmp_path / ".herdctl", Fired()
    scheduler = made(fired)
    scheduler.start([agent(check_issues=ISSUES)])
    until(lambda: states(scheduler, tmp_path)["check-issues"].next_run_at == "2025-01-20T08:05:00Z")
    update_schedule_state(home, "my-agent", "check-issues", {"status": "disabled"})
    scheduler.set_agents([])
    update_schedule_state(home, "my-agent", "check-issues", {"status": "idle"})
    fleet = scheduler._fleet
    clock.advance(300_000)
    until(lambda: "skipped" in [run.state for run in fleet.runs.list(schedule="check-issues")])
    assert len(fired.infos) == 1
