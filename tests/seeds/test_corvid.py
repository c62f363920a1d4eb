"""corvid-agent's own sentences (seeds/corvid)."""

from collections.abc import Iterator
from dataclasses import replace
from threading import Event
from typing import Any

import pytest

from matins import InvalidInput, JobContext, Matins, Schedule
from matins.errors import CronParseError, IntervalParseError
from matins.seeds.corvid import ScheduleExecution, SchedulerService, create_schedule, validate_schedule_frequency
from matins.testing import ManualClock, Sandbox, iso


def test_v1_every_minute_is_too_frequent() -> None:
    """V1"""
    with pytest.raises(IntervalParseError, match=r"^Schedule interval too short: .*5m"):
        validate_schedule_frequency("* * * * *")


def test_v1_an_invalid_expression() -> None:
    """V1"""
    with pytest.raises(CronParseError, match=r"^Invalid cron expression: "):
        validate_schedule_frequency("0 25 * * *")
    with pytest.raises(CronParseError, match=r"^Invalid cron expression: "):
        validate_schedule_frequency("every day at 9am")


def test_v1_a_short_interval() -> None:
    """V1"""
    with pytest.raises(IntervalParseError, match=r"^Schedule interval too short: 299999"):
        validate_schedule_frequency(interval_ms=299_999)
    validate_schedule_frequency(interval_ms=300_000)


@pytest.mark.parametrize(
    "expression",
    [
        "0,1 9 * * *",  # far apart from now, close together at nine
        "59,0 * * * *",  # one minute apart over the hour
        "0,58 0,23 * * *",  # 23:58 to 00:00 over midnight
        "*/7 * * * *",  # 56 to 00 is four minutes
        "0-4 0 1 1 *",  # once a year, but five times then
    ],
)
def test_v1_the_smallest_gap_of_the_whole_cycle_counts(expression: str) -> None:
    """V1"""
    with pytest.raises(IntervalParseError):
        validate_schedule_frequency(expression)


@pytest.mark.parametrize("expression", ["*/5 * * * *", "0 9 * * *", "0,30 * * * *", "@hourly", "55 23 31 12 *"])
def test_v1_five_minutes_are_enough(expression: str) -> None:
    """V1"""
    validate_schedule_frequency(expression)


def test_v1_the_minimum_can_be_set() -> None:
    """V1"""
    validate_schedule_frequency("* * * * *", minimum_ms=60_000)
    with pytest.raises(IntervalParseError):
        validate_schedule_frequency("0 * * * *", minimum_ms=3_600_001)


def test_v1_nothing_to_check() -> None:
    """V1"""
    validate_schedule_frequency(None, None)


def bench() -> Sandbox:
    made = Sandbox(clock=ManualClock("2026-03-27T08:00:00Z"))
    made.job("action")(lambda run: run.payload)
    return made


def test_v3_at_most_two_actions_at_once_and_the_rest_wait() -> None:
    """V3: "At most MAX_CONCURRENT_EXECUTIONS (2) actions run simultaneously." """
    corvid = bench()
    running: list[int] = []
    most: list[int] = []

    @corvid.job("nest")
    def nest(run: JobContext) -> None:
        running.append(run.id)
        most.append(len(running))
        corvid.engine.turn()
        running.remove(run.id)

    corvid.limits.set("global", size=2)
    corvid.add_many([{"name": f"s{n}", "when": "*/5 * * * *", "job": "nest"} for n in range(7)])
    corvid.run_until("2026-03-27T08:06:00Z")
    assert max(most) <= 2
    for n in range(7):
        corvid.assert_ran(f"s{n}", times=1)
    corvid.close()


def test_v5_max_executions_then_completed() -> None:
    """V5: "When maxExecutions is reached, the schedule status is set to completed and no further executions occur" """
    corvid = bench()
    daily(corvid, "three", "action", approval_policy="auto", max_executions=3)
    corvid.run_until("2026-04-28T08:00:00Z")
    corvid.assert_ran("three", times=3)
    schedule = corvid.get("three")
    assert (schedule.state, schedule.executions) == ("completed", 3)
    assert len(SchedulerService(corvid).list_executions(schedule)) == len(corvid.runs.list(schedule="three")) == 3
    corvid.close()


def test_v7_config_snapshot_isolation() -> None:
    """V7: "Each execution captures a snapshot of the schedule config at creation time, so mid-flight edits don't
    corrupt running executions" """
    corvid = bench()

    @corvid.job("edited")
    def edited(run: JobContext) -> object:
        before = run.payload
        corvid.edit("s", payload="new", job="action")
        assert run.payload == before
        return run.payload

    corvid.add("s", when="*/5 * * * *", job="edited", payload="old")
    corvid.run_until("2026-03-27T08:10:00Z")
    newer, older = corvid.runs.list(schedule="s")
    assert (older.rev, older.outcome) == (1, {"result": "old"})
    assert (newer.rev, newer.outcome) == (2, {"result": "new"})
    corvid.close()


NEEDS_OWNER = {"work_task", "github_suggest", "fork_repo", "codebase_review", "dependency_audit", "improvement_loop"}
HARMLESS = {"star_repo", "review_prs", "council_launch", "send_message", "memory_maintenance", "reputation_attestation"}
ACTIONS = NEEDS_OWNER | HARMLESS | {"custom"}


@pytest.fixture
def corvid() -> Iterator[Sandbox]:
    made = bench()
    for action in ACTIONS:
        made.job(action)(lambda run: run.payload)

    @made.job("broken")
    def broken(run: JobContext) -> None:
        raise ValueError("out of luck")

    yield made
    made.close()


@pytest.fixture
def service(corvid: Sandbox) -> SchedulerService:
    return SchedulerService(corvid)


def daily(corvid: Sandbox, name: str, action_type: str, **words: Any) -> Schedule:
    """At nine, in the columns of agent_schedules."""
    usual = {"agent_id": "magpie", "cron_expression": "0 9 * * *"}
    return create_schedule(corvid, name, action_type=action_type, **{**usual, **words})


def newest(service: SchedulerService, corvid: Sandbox, name: str) -> ScheduleExecution:
    return service.list_executions(corvid.get(name))[0]


def test_v1_validated_at_schedule_creation(corvid: Sandbox) -> None:
    """V1: "Validated at schedule creation by validateScheduleFrequency" """
    for words in ({"cron_expression": "* * * * *"}, {"interval_ms": 299_999}):
        with pytest.raises(IntervalParseError, match=r"^Schedule interval too short"):
            create_schedule(corvid, "s", agent_id="a", action_type="star_repo", **words)
    for words in ({}, {"cron_expression": "0 9 * * 1", "interval_ms": 300_000}):
        with pytest.raises(InvalidInput, match="a cron expression or an interval"):
            create_schedule(corvid, "s", agent_id="a", action_type="star_repo", **words)
    assert corvid.list() == []


def test_v1_an_interval_counts_from_the_start(corvid: Sandbox) -> None:
    """V1: "Alternative: fixed interval in milliseconds" """

    @corvid.job("slow")
    def slow(run: JobContext) -> None:
        corvid.clock.advance(60_000)

    create_schedule(corvid, "s", agent_id="a", action_type="slow", interval_ms=300_000, approval_policy="auto")
    corvid.run_until("2026-03-27T08:12:00Z")
    assert [iso(run.started_at) for run in corvid.assert_ran("s")] == ["2026-03-27T08:05:00Z", "2026-03-27T08:10:00Z"]


def test_v2_start_is_idempotent_and_ticks_at_once() -> None:
    """V2: "Runs first tick immediately"; "Calling start() when already running is a no-op" """
    ran = Event()
    matins = Matins()
    matins.job("star_repo")(lambda run: ran.set())
    service = SchedulerService(matins)
    matins.add("due", when="5m", job="star_repo", first="immediately")
    try:
        service.start()
        service.start()
        assert ran.wait(90)
        assert service.get_stats().running
        assert service.get_stats().max_concurrent == 2
    finally:
        service.stop()
    assert not service.get_stats().running
    matins.limits.set("global", size=7)
    service.start()
    service.stop()
    service.stop()
    assert service.get_stats().max_concurrent == 7, "another limit stays"
    matins.close()


def test_v2_get_stats_has_six_figures(corvid: Sandbox, service: SchedulerService) -> None:
    """V2: "{ running, activeSchedules, pausedSchedules, runningExecutions, maxConcurrent, recentFailures }" """
    seen: list[int] = []

    @corvid.job("look")
    def look(run: JobContext) -> None:
        seen.append(service.get_stats().running_executions)

    corvid.limits.set("global", size=2)
    for name, action in (("a", "look"), ("b", "broken"), ("c", "star_repo")):
        daily(corvid, name, action, approval_policy="auto")
    corvid.pause("c")
    corvid.run_until("2026-03-27T10:00:00Z")
    stats = service.get_stats()
    assert (stats.active_schedules, stats.paused_schedules) == (2, 1)
    assert (stats.running_executions, stats.max_concurrent, stats.recent_failures) == (0, 2, 1)
    assert len(stats) == 6
    assert seen[0] >= 1


def test_v2_on_event_returns_an_unsubscribe(corvid: Sandbox, service: SchedulerService) -> None:
    """V2: "Subscribe to schedule events (returns unsubscribe function)" """
    told: list[dict[str, Any]] = []
    unsubscribe = service.on_event(told.append)
    daily(corvid, "s", "star_repo", approval_policy="auto")
    corvid.run_until("2026-03-27T09:00:00Z")
    corvid.outbox.run_once(corvid.clock.now_ms())
    assert [event["type"] for event in told] == ["schedule.created", "run.started", "run.succeeded"]
    assert told[-1]["execution"].status == "completed"
    unsubscribe()
    corvid.run_until("2026-03-28T09:00:00Z")
    corvid.outbox.run_once(corvid.clock.now_ms())
    assert len(told) == 3


def test_v4_auto_pause_after_failures(corvid: Sandbox) -> None:
    """V4: "Given a schedule that has failed 4 consecutive times When the 5th execution also fails Then the schedule
    status is set to paused and consecutiveFailures is reset" """
    daily(corvid, "s", "broken", cron_expression="0 * * * *", approval_policy="auto")
    corvid.run_until("2026-03-27T12:30:00Z")
    assert (corvid.get("s").state, corvid.get("s").failures) == ("active", 4)
    corvid.run_until("2026-03-27T20:00:00Z")
    paused = corvid.get("s")
    assert (paused.state, paused.paused_by, paused.failures) == ("paused", "failures", 0)
    assert len(corvid.runs.list(schedule="s")) == 5
    corvid.resume("s")
    corvid.run_until("2026-03-28T00:30:00Z")
    assert (corvid.get("s").state, corvid.get("s").failures) == ("active", 4), "counted anew"


def test_v4_reset_on_success(corvid: Sandbox) -> None:
    """V4: "Reset on success, pause at 5" """

    @corvid.job("moody")
    def moody(run: JobContext) -> None:
        if corvid.clock.now_ms() // 3_600_000 % 5:
            raise ValueError

    daily(corvid, "s", "moody", cron_expression="0 * * * *", approval_policy="auto")
    corvid.run_until("2026-04-01T08:00:00Z")
    assert corvid.get("s").state == "active"
    assert sum(run.state == "failed" for run in corvid.runs.list(schedule="s", limit=1_000)) > 90


def test_v6_owner_approval_required(corvid: Sandbox, service: SchedulerService) -> None:
    """V6: "execution status is set to awaiting_approval and a schedule_approval_request event is emitted When
    resolveApproval(executionId, true) is called Then execution status changes to running and the action executes" """
    told: list[dict[str, Any]] = []
    service.on_event(told.append)
    seen: list[str] = []
    corvid.jobs["github_suggest"] = lambda run: seen.append(newest(service, corvid, "s").status)
    daily(corvid, "s", "github_suggest")
    corvid.run_until("2026-03-27T09:30:00Z")
    waiting = newest(service, corvid, "s")
    assert (waiting.status, waiting.completed_at, seen) == ("awaiting_approval", None, [])
    corvid.outbox.run_once(corvid.clock.now_ms())
    (request,) = [event for event in told if event["type"] == "schedule_approval_request"]
    assert request["execution"] == waiting
    assert (request["execution"].agent_id, request["execution"].action_type) == ("magpie", "github_suggest")
    assert service.resolve_approval(waiting.id, True) == replace(waiting, status="approved")
    corvid.settle()
    assert seen == ["running"]
    assert newest(service, corvid, "s").status == "completed"
    assert service.resolve_approval(waiting.id, True) is None, "it was used"


def test_v6_denied(corvid: Sandbox, service: SchedulerService) -> None:
    """V6: "Approve or deny a pending execution." """
    daily(corvid, "s", "work_task")
    corvid.run_until("2026-03-27T09:30:00Z")
    waiting = newest(service, corvid, "s")
    over = {"status": "denied", "result": "denied", "completed_at": "2026-03-27T09:30:00Z"}
    assert service.resolve_approval(waiting.id, False) == replace(waiting, **over)
    corvid.settle()
    corvid.assert_not_ran("s")
    assert iso(corvid.get("s").next_run_at) == "2026-03-28T09:00:00Z"


@pytest.mark.parametrize("execution_id", ["0", "404", "", "-1", "no-such-id", "9" * 18, "9" * 40, "²"])
def test_v6_nothing_is_asked_about_what_is_not_there(service: SchedulerService, execution_id: str) -> None:
    """V6 V2: "ScheduleExecution | null" """
    assert service.resolve_approval(execution_id, True) is None
    assert service.get_execution(execution_id) is None


def test_v6_approvals_expire(corvid: Sandbox, service: SchedulerService) -> None:
    """V6: nobody answers within a day; the next execution asks again"""
    daily(corvid, "s", "work_task")
    corvid.run_until("2026-03-28T08:59:00Z")
    first = newest(service, corvid, "s")
    assert first.status == "awaiting_approval"
    corvid.run_until("2026-03-28T09:01:00Z")
    assert [execution.status for execution in service.list_executions(corvid.get("s"))][-1] == "denied"
    assert service.resolve_approval(first.id, True) is None
    corvid.run_until("2026-03-29T09:01:00Z")
    assert newest(service, corvid, "s").status == "awaiting_approval"
    corvid.assert_not_ran("s")


@pytest.mark.parametrize("policy", ["auto", "owner_approve", "council_approve"])
def test_v6_which_actions_need_approval(corvid: Sandbox, service: SchedulerService, policy: Any) -> None:
    """V6: "Under owner_approve policy, these action types require approval: work_task, github_suggest, fork_repo,
    codebase_review, dependency_audit, improvement_loop. Under council_approve, all actions need approval. Under auto,
    none do" """
    words = {"approvers": ["ada", "grace"], "approvals_required": 2} if policy == "council_approve" else {}
    for action in ACTIONS:
        daily(corvid, action, action, approval_policy=policy, **words)
    corvid.run_until("2026-03-27T09:30:00Z")
    held = {action for action in ACTIONS if newest(service, corvid, action).status == "awaiting_approval"}
    assert held == {"auto": set(), "owner_approve": NEEDS_OWNER, "council_approve": ACTIONS}[policy]
    for action in ACTIONS - held:
        assert newest(service, corvid, action).status == "completed"


def test_v6_who_is_asked(corvid: Sandbox) -> None:
    """V6: "DEFAULT 'owner_approve'"; a council has members"""
    assert daily(corvid, "s", "work_task").settings["approval"] == "owner_approve"
    with pytest.raises(InvalidInput, match="named approvers"):
        daily(corvid, "t", "work_task", approval_policy="council_approve")


def test_v7_v12_an_execution_in_its_columns(corvid: Sandbox, service: SchedulerService) -> None:
    """V7 V12: "config_snapshot: JSON: schedule config at execution time" """
    schedule = daily(corvid, "star", "star_repo", action_input={"repos": ["a/b"]}, approval_policy="auto")
    corvid.run_until("2026-03-27T09:30:00Z")
    corvid.edit("star", payload={"repos": ["c/d"]}, job="broken")
    corvid.run_until("2026-03-28T09:30:00Z")
    newer, older = service.list_executions(schedule)
    assert (older.schedule_id, older.agent_id) == (str(schedule.id), "magpie")
    assert (older.action_type, older.action_input) == ("star_repo", {"repos": ["a/b"]})
    assert (older.config_snapshot["job"], older.config_snapshot["payload"]) == ("star_repo", {"repos": ["a/b"]})
    assert (older.config_snapshot["name"], older.config_snapshot["agent"]) == ("star", "magpie")
    assert older.config_snapshot["when"] == "0 9 * * *"
    assert (older.status, older.result) == ("completed", '{"repos":["a/b"]}')
    assert (older.started_at, older.completed_at) == ("2026-03-27T09:00:00Z", "2026-03-27T09:00:00Z")
    assert (newer.action_type, newer.action_input, newer.status) == ("broken", {"repos": ["c/d"]}, "failed")
    assert newer.result == "ValueError: out of luck"
    assert service.get_execution(older.id) == older


def test_v12_a_slot_that_came_to_nothing_is_no_execution(corvid: Sandbox, service: SchedulerService) -> None:
    """V12"""
    schedule = corvid.add("s", when="0 * * * *", job="star_repo", pre_check="false")
    corvid.run_until("2026-03-27T10:30:00Z")
    assert len(corvid.runs.list(schedule="s")) == 2
    assert service.list_executions(schedule) == []
    assert service.get_execution(str(corvid.runs.list(schedule="s")[0].id)) is None


def test_v12_an_execution_that_waits_is_pending(corvid: Sandbox, service: SchedulerService) -> None:
    """V12: "pending/running/awaiting_approval/completed/failed/approved/denied" """
    seen: list[str] = []

    @corvid.job("nest")
    def nest(run: JobContext) -> None:
        corvid.engine.turn()
        seen.append(newest(service, corvid, "second").status)

    corvid.limits.set("global", size=1)
    corvid.add("first", when="0 9 * * *", job="nest")
    corvid.add("second", when="0 9 * * *", job="star_repo")
    corvid.run_until("2026-03-27T09:00:00Z")
    assert seen == ["pending"]
    run = corvid.run("second")
    corvid.runs.cancel(run.id)
    cancelled = newest(service, corvid, "second")
    assert (cancelled.status, cancelled.result) == ("cancelled", "cancelled")
