"""herdctl's own sentences (seeds/herdctl)."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from matins import JobContext
from matins.engine.when.triggers import to_datetime, to_ms
from matins.errors import CronParseError, IntervalParseError, SchedulerShutdownError
from matins.seeds.herdctl import (
    calculate_next_cron_trigger,
    calculate_next_trigger,
    check_schedule,
    get_agent_schedule_states,
    get_schedule_state,
    is_schedule_due,
    is_valid_cron_expression,
    parse_cron_expression,
    parse_interval,
)
from matins.testing import ManualClock, Sandbox

NOW = datetime(2025, 1, 19, 12, tzinfo=UTC)
LAST = datetime(2025, 1, 19, 10, tzinfo=UTC)


@pytest.mark.parametrize(("text", "ms"), [("30s", 30_000), ("5m", 300_000), ("1h", 3_600_000), ("1d", 86_400_000)])
def test_h7_intervals_are_read(text: str, ms: int) -> None:
    """H7"""
    assert parse_interval(text) == ms


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5", 'Missing time unit. Expected format: "{number}{unit}"'),
        ("5.5m", "Decimal values are not supported"),
        ("0m", "Zero interval is not allowed"),
        ("-5m", "Negative intervals are not allowed"),
        ("5x", 'Invalid time unit "x". Valid units are: s, m, h, d'),
    ],
)
def test_h7_the_five_messages(text: str, message: str) -> None:
    """H7"""
    with pytest.raises(IntervalParseError) as caught:
        parse_interval(text)
    assert str(caught.value) == message
    assert caught.value.value == text
    assert caught.value.hint


@pytest.mark.parametrize("text", ["", " ", "m", "٥m", "5 5m", "1h30m", "99999999999999999999d", "40000d", "."])
def test_h7_other_bad_intervals_are_clear_errors(text: str) -> None:
    """H7"""
    with pytest.raises(IntervalParseError) as caught:
        parse_interval(text)
    assert caught.value.message
    assert caught.value.hint


def test_h7_cron_errors_name_field_and_range() -> None:
    """H7"""
    with pytest.raises(CronParseError) as caught:
        parse_cron_expression("0 25 * * *")
    assert str(caught.value) == 'Invalid cron expression "0 25 * * *" - hour must be 0-23'
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("hour", "25", "0-23")
    with pytest.raises(CronParseError) as caught:
        parse_cron_expression("* * *")
    assert str(caught.value) == 'Invalid cron expression "* * *" - expected 5 fields, got 3'


def test_h4_six_fields_are_refused_in_this_preset() -> None:
    """H4"""
    with pytest.raises(CronParseError, match="expected 5 fields, got 6"):
        parse_cron_expression("0 0 9 * * *")


@pytest.mark.parametrize(
    ("alias", "expression"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
    ],
)
def test_h4_shorthands(alias: str, expression: str) -> None:
    """H4"""
    after = NOW
    for _ in range(5):
        following = calculate_next_cron_trigger(expression, after, timezone="UTC")
        assert calculate_next_cron_trigger(alias, after, timezone="UTC") == following
        assert following is not None
        after = following


def test_h4_validity_without_throwing() -> None:
    """H4 H13"""
    assert is_valid_cron_expression("0 9 * * 1-5")
    assert not is_valid_cron_expression("invalid")
    assert not is_valid_cron_expression("every day at 9am")


def test_h4_next_nine_o_clock() -> None:
    """H4"""
    eight, nine = datetime(2025, 1, 15, 8, tzinfo=UTC), datetime(2025, 1, 15, 9, tzinfo=UTC)
    assert calculate_next_cron_trigger("0 9 * * *", eight, timezone="UTC") == nine
    assert calculate_next_cron_trigger("0 9 * * *", nine, timezone="UTC") == nine + timedelta(days=1)


def test_h3_first_run_is_at_once() -> None:
    """H3"""
    assert calculate_next_trigger(None, "5m", now=NOW) == NOW


def test_h3_measured_from_completion() -> None:
    """H3"""
    assert calculate_next_trigger(LAST, "5m", now=LAST) == LAST + timedelta(minutes=5)


def test_h3_a_past_due_time_means_now() -> None:
    """H3"""
    assert calculate_next_trigger(LAST, "5m", now=NOW) == NOW


def test_h3_jitter_is_bounded_and_the_same_again() -> None:
    """H3"""
    lasts = [LAST + timedelta(minutes=n) for n in range(300)]
    delays = [calculate_next_trigger(last, "1h", 5, now=LAST) - last for last in lasts]
    assert delays == [calculate_next_trigger(last, "1h", 5, now=LAST) - last for last in lasts]
    assert all(timedelta(hours=1) <= delay <= timedelta(minutes=63) for delay in delays)
    assert max(delays) - min(delays) > timedelta(minutes=2)


def test_h3_due_when_its_time_has_come() -> None:
    """H3"""
    assert is_schedule_due(LAST, now=NOW)
    assert is_schedule_due(NOW, now=NOW)
    assert not is_schedule_due(NOW + timedelta(milliseconds=1), now=NOW)


def test_h7_offending_value_travels_with_the_error() -> None:
    """H7 H12"""
    with pytest.raises(CronParseError) as caught:
        parse_cron_expression("5-1 * * * *")
    assert caught.value.value == "5-1"
    assert caught.value.field == "minute"


@pytest.fixture
def bench() -> Iterator[Sandbox]:
    made = Sandbox(clock=ManualClock(NOW))
    made.job("work")(lambda run: None)
    yield made
    made.close()


def test_h2_an_error_in_one_schedule_does_not_end_the_loop(bench: Sandbox) -> None:
    """H2: "catch (error) { this.logger.error(`Error during schedule check" """

    @bench.job("broken")
    def broken(run: JobContext) -> None:
        raise SystemExit("the agent is gone")

    bench.add("check-issues", when="5m", job="broken", agent="a", first="immediately")
    bench.add("write-report", when="5m", job="work", agent="b", first="immediately")
    bench.run_until(NOW + timedelta(minutes=5))
    assert [run.state for run in bench.runs.list(schedule="check-issues")] == ["failed", "failed"]
    bench.assert_ran("write-report", times=2)


def test_h3_the_interval_begins_when_the_job_is_done(bench: Sandbox) -> None:
    """H3: measured from completion, and the first run at once"""
    begun: list[datetime] = []

    @bench.job("slow")
    def slow(run: JobContext) -> None:
        assert run.slot is not None
        begun.append(run.slot)
        bench.clock.advance(7 * 60_000)

    bench.add("check-issues", when="5m", job="slow", first="immediately")
    bench.run_until(NOW + timedelta(minutes=30))
    assert begun == [NOW + timedelta(minutes=minutes) for minutes in (0, 12, 24)]


def test_h3_jitter_is_a_part_of_the_interval(bench: Sandbox) -> None:
    """H3: 0 to 10 %"""
    bench.add("check-issues", when="1h", job="work", jitter=10)
    shown = bench.get("check-issues")
    assert shown.due_at is not None
    assert shown.next_run_at is not None
    assert timedelta(0) < shown.due_at - shown.next_run_at <= timedelta(minutes=6)
    bench.run_until(NOW + timedelta(hours=2))
    started = bench.runs.list(schedule="check-issues")[-1].started_at
    assert started is not None
    assert timedelta(0) <= started - shown.due_at < timedelta(milliseconds=2)


def test_h8_state_is_persisted_and_nothing_is_stuck_after_a_crash(tmp_path: Path) -> None:
    """H8: "may be stale after an unclean shutdown (a schedule could be stuck in running status …)": not here"""
    url = f"sqlite:///{tmp_path}/herdctl.db"
    bench = Sandbox(url, clock=ManualClock(NOW))

    @bench.job("crash")
    def crash(run: JobContext) -> None:
        """The process ends here: what came after this never happened."""

    bench.add("check-issues", when="5m", job="crash")
    bench.clock.advance(300_000)
    bench.engine.turn()
    assert bench.runs.list(schedule="check-issues")[0].state == "running"
    again = Sandbox(url, clock=bench.clock)
    assert again.runs.list(schedule="check-issues")[0].state == "ready"

    @again.job("crash")
    def recovered(run: JobContext) -> None:
        raise ValueError("it had been half done")

    again.settle()
    (run,) = again.runs.list(schedule="check-issues")
    assert (run.state, run.attempt) == ("failed", 2)
    assert "it had been half done" in run.outcome["error"], "last_error"
    assert run.started_at == to_datetime(again.clock.now_ms()), "last_run_at"
    assert again.get("check-issues").next_run_at == run.started_at + timedelta(minutes=5), "next_run_at"
    bench.close()
    again.close()


def test_h10_max_concurrent_really_takes_effect_above_one(bench: Sandbox) -> None:
    """H10: "Agent is at its max_concurrent limit" """
    running: list[str] = []
    most: list[int] = []

    @bench.job("nest")
    def nest(run: JobContext) -> None:
        running.append(run.schedule)
        most.append(len(running))
        bench.engine.turn()
        running.remove(run.schedule)

    bench.limits.set("agent:my-agent", size=2)
    for n in range(5):
        bench.add(f"s{n}", when="5m", job="nest", agent="my-agent", first="immediately", max_executions=1)
    bench.run_until(NOW + timedelta(minutes=1))
    assert max(most) <= 2
    assert len(most) == 5


def test_h10_at_capacity_is_a_reason(bench: Sandbox) -> None:
    """H10: "at_capacity" """
    bench.limits.set("agent:my-agent", size=1)
    bench.add("first", when="5m", job="work", agent="my-agent", first="immediately", at_capacity="skip")
    bench.add("second", when="5m", job="work", agent="my-agent", first="immediately", at_capacity="skip")
    bench.settle()
    reasons = sorted(str(bench.runs.list(schedule=name)[0].reason) for name in ("first", "second"))
    assert reasons == ["None", "at_capacity"]


def test_h2_shutdown_in_the_seeds_words() -> None:
    """H2: "Scheduler shutdown timed out after ${timeout}ms with ${count} job(s) still running" """
    error = SchedulerShutdownError(30_000, 2)
    assert str(error) == "Scheduler shutdown timed out after 30000ms with 2 job(s) still running"
    assert (error.timed_out, error.running_job_count) == (True, 2)


def check(bench: Sandbox, name: str, **entry: str) -> tuple[bool, str | None]:
    return check_schedule(bench, "my-agent", name, entry or None)


def test_h6_the_order_of_evaluation(bench: Sandbox) -> None:
    """H6: "The first failing condition produces a skip reason and short-circuits evaluation" """
    found: list[tuple[bool, str | None]] = []

    @bench.job("inspect")
    def inspect(run: JobContext) -> None:
        """While it runs, its agent is at its limit: each condition hides those after it."""
        bench.pause("busy")
        found.extend([check(bench, "busy", type="webhook"), check(bench, "busy", type="interval")])
        bench.resume("busy")
        found.extend([check(bench, "busy"), check(bench, "idle")])
        bench.limits.set("agent:my-agent", size=2)
        found.append(check(bench, "idle"))
        bench.clock.advance(3_600_000)
        found.append(check(bench, "idle"))

    bench.limits.set("agent:my-agent", size=1)
    bench.add("busy", when="5m", job="inspect", agent="my-agent")
    bench.add("idle", when="0 13 * * *", job="work", agent="my-agent")
    bench.clock.advance(300_000)
    bench.engine.turn()
    bench.settle()
    assert found == [
        (False, "unsupported_type"),
        (False, "disabled"),
        (False, "already_running"),
        (False, "at_capacity"),
        (False, "not_due"),
        (True, None),
    ]


def test_h6_unsupported_type(bench: Sandbox) -> None:
    """H6: "Schedule type is not automatically triggered (webhook, chat)": whether or not the store knows it"""
    for kind in ("webhook", "chat"):
        assert check(bench, "on-message", type=kind) == (False, "unsupported_type")


def test_h5_ours_really_trigger(bench: Sandbox) -> None:
    """H5: the timed check says unsupported_type for what the store knows too; a call starts it"""
    bench.inbound.set("on-push", kind="github", secret="env:GH_SECRET")
    bench.add("on-push", on={"webhook": "on-push"}, job="work", agent="my-agent")
    bench.add("on-message", on={"chat": "C07", "match": "any"}, job="work", agent="my-agent")
    for name, source, place in (("on-push", "webhook", "on-push"), ("on-message", "chat", "C07")):
        assert check_schedule(bench, "my-agent", name) == (False, "unsupported_type")
        assert [run.schedule for run in bench.calls.fire(source, place, "key").runs] == [name]
        bench.settle()
        assert get_schedule_state(bench, "my-agent", name).last_run_at is not None


@pytest.mark.parametrize("when", ["5m", "0 9 * * 1-5", "@hourly"])
def test_h6_due_or_not_due(bench: Sandbox, when: str) -> None:
    """H6: "Next trigger time has not yet arrived" """
    made = bench.add("report", when=when, job="work", agent="my-agent")
    assert made.due_at is not None
    assert check(bench, "report") == (False, "not_due")
    bench.clock.advance(to_ms(made.due_at) - bench.clock.now_ms() - 1)
    assert check(bench, "report") == (False, "not_due")
    bench.clock.advance(1)
    assert check(bench, "report") == (True, None)
    bench.settle()
    assert check(bench, "report") == (False, "not_due")


def test_h6_disabled(tmp_path: Path) -> None:
    """H6: "Schedule status is “disabled” in state"; it "persists across restarts" """
    url = f"sqlite:///{tmp_path}/herdctl.db"
    bench = Sandbox(url, clock=ManualClock(NOW))
    bench.job("work")(lambda run: None)
    bench.add("report", when="5m", job="work", agent="my-agent")
    bench.pause("report")
    bench.close()
    again = Sandbox(url, clock=ManualClock(NOW + timedelta(hours=1)))
    assert check(again, "report") == (False, "disabled")
    assert get_schedule_state(again, "my-agent", "report") == ("disabled", None, None, None)
    again.resume("report")
    assert check(again, "report") == (False, "not_due")
    assert get_schedule_state(again, "my-agent", "report").status == "idle"
    again.close()


def test_h6_disabled_when_there_is_no_more_to_come(bench: Sandbox) -> None:
    """H6: a schedule that has ended, or that cannot be used, is triggered no more"""
    bench.add("ended", when="5m", job="work", agent="my-agent", ends_at="2025-01-19T12:02:00Z")
    bench.add("once", when="5m", job="work", agent="my-agent", max_executions=1)
    bench.add("broken", when="5m", job="work", agent="my-agent")
    broken = bench.get("broken").id
    connection = bench._store._connection  # type: ignore[attr-defined]
    connection.execute("UPDATE revisions SET definition = '{' WHERE schedule_id = ?", (broken,))
    bench.clock.advance(180_000)
    assert check(bench, "ended") == (False, "disabled"), "its end date has passed"
    bench.run_until(NOW + timedelta(minutes=6))
    for name in ("ended", "once", "broken"):
        assert check(bench, name) == (False, "disabled")
        assert get_schedule_state(bench, "my-agent", name).status == "disabled"


def test_h6_at_capacity_while_it_waits_for_a_place(bench: Sandbox) -> None:
    """H6: "Agent is at its max_concurrent limit": also when its run is made already and waits"""
    found: list[tuple[bool, str | None]] = []

    @bench.job("hog")
    def hog(run: JobContext) -> None:
        bench.engine.turn()
        found.append(check(bench, "second"))
        bench.limits.set("agent:my-agent", size=2)
        found.append(check(bench, "second"))

    bench.limits.set("agent:my-agent", size=1)
    bench.add("first", when="0 13 * * *", job="hog", agent="my-agent")
    bench.add("second", when="0 13 * * *", job="work", agent="my-agent")
    bench.run_until(NOW + timedelta(hours=1))
    assert found == [(False, "at_capacity"), (True, None)]
    bench.assert_ran("second", times=1)


def test_h8_the_state_of_a_schedule(bench: Sandbox) -> None:
    """H8: "{ status: "idle", last_run_at: "...", next_run_at: "...", last_error: null }" """
    seen: list[str] = []

    @bench.job("moody")
    def moody(run: JobContext) -> None:
        seen.append(get_schedule_state(bench, "my-agent", "check-issues").status)
        if len(seen) == 1:
            raise ValueError("no luck")

    bench.add("check-issues", when="5m", job="moody", agent="my-agent")
    bench.add("daily-report", when="@daily", job="work", agent="my-agent", timezone="UTC")
    bench.add("other", when="@daily", job="work", agent="another")
    assert get_schedule_state(bench, "my-agent", "check-issues") == ("idle", None, "2025-01-19T12:05:00Z", None)
    bench.run_until(NOW + timedelta(minutes=6))
    failed = get_schedule_state(bench, "my-agent", "check-issues")
    assert (failed.status, failed.last_run_at) == ("idle", "2025-01-19T12:05:00Z")
    assert failed.last_error == "ValueError: no luck"
    bench.run_until(NOW + timedelta(minutes=11))
    assert seen == ["running", "running"]
    assert get_agent_schedule_states(bench, "my-agent") == {
        "check-issues": ("idle", "2025-01-19T12:10:00Z", "2025-01-19T12:15:00Z", None),
        "daily-report": ("idle", None, "2025-01-20T00:00:00Z", None),
    }
