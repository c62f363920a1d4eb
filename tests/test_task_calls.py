"""`@m.task`, `when=` with values of Python's datetime, and `job=` with a function. Row B19."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, time, timedelta

import pytest

from matins import Conflict, InvalidInput, Matins
from matins.errors import JobError
from matins.testing import ManualClock, Sandbox


@pytest.fixture
def m() -> Iterator[Matins]:
    m = Matins()
    yield m
    m.close()


def test_b19_a_task_is_called_later(m: Matins) -> None:
    @m.task(retries=1)
    def send(to: str, text: str = "Hi", *, urgent: bool = False, **more: int) -> list[object]:
        return [to, text, urgent, more]

    @m.task(name="sum")
    async def add(a: int, b: int) -> int:
        return a + b

    assert send("here") == ["here", "Hi", False, {}]
    with pytest.raises(TypeError, match="missing a required argument: 'to'"):
        send.delay(text="Hi")  # type: ignore[call-arg]
    with m:
        assert send.delay("ada", urgent=True, copies=2).result(30) == ["ada", "Hi", True, {"copies": 2}]
        assert add.delay(1, b=2).result(30) == 3
    assert [schedule.name for schedule in m.list()] == ["send", "sum"], "one schedule for all calls of a task"
    assert m.get("send").settings["retries"] == 1


def test_b19_a_key_an_instant_and_the_end_of_a_call() -> None:
    with closing(Sandbox(clock=ManualClock("2026-03-16T09:00:00Z"))) as m:
        done: list[int] = []
        task = m.task(_collect(done))
        first, again = (task.options(key="17").delay(number=number) for number in (1, 2))
        assert first.id == again.id
        later = task.options(at=timedelta(hours=1)).delay(number=3)
        never = task.options(at=datetime(2026, 3, 16, 11, tzinfo=UTC)).delay(number=4)
        m.run_until("2026-03-16T09:59:59Z")
        assert done == [1]
        assert never.cancel().state == "cancelled"
        m.run_until("2026-03-16T12:00:00Z")
        assert done == [1, 3]
        assert later.wait().started_at == datetime(2026, 3, 16, 10, tzinfo=UTC)


def _collect(done: list[int]) -> Callable[[int], None]:
    def collect(number: int) -> None:
        done.append(number)

    return collect


def test_b19_a_call_that_fails_says_why(m: Matins) -> None:
    @m.task
    def bad() -> None:
        raise ValueError("the printer is on fire")

    waiting = bad.options(at=timedelta(hours=1)).delay()
    with m:
        with pytest.raises(JobError, match=r"^Run 2 of bad did not succeed: ValueError: the printer is on fire"):
            bad.delay().result(30)
        with pytest.raises(TimeoutError, match=r"Run 1 of bad has not ended"):
            waiting.result(0.01)


def test_a_run_for_later_would_hold_up_a_schedule_whose_runs_do_not_overlap(m: Matins) -> None:
    m.job("report")(lambda run: None)
    m.add("report", when="every day at 9am", job="report")
    with pytest.raises(Conflict, match=r"runs one at a time \(overlap: skip\)") as refused:
        m.run("report", at=datetime(2126, 1, 1, tzinfo=UTC))
    assert "Set overlap to allow" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("when", "text"),
    [
        (timedelta(minutes=5), "every 5 minutes"),
        (time(9, 30), "every day at 09:30"),
        (datetime(2126, 1, 1, 9), "once on 2126-01-01 at 09:00"),
        (datetime(2126, 1, 1, 9, tzinfo=UTC), "once on 2126-01-01 at 09:00"),
    ],
)
def test_b19_when_as_python_has_it(m: Matins, when: datetime | timedelta | time, text: str) -> None:
    added = m.add("a", when=when, command="true", timezone="Europe/London")
    assert added.trigger_text.startswith(text)
    assert m.edit("a", when="1d").trigger_text == "every 24 hours"
    assert m.edit("a", when=when).trigger_text == added.trigger_text


@pytest.mark.parametrize("when", [time(9, 30, 15), time(9, 30, tzinfo=UTC)])
def test_a_time_has_hours_and_minutes_only(m: Matins, when: time) -> None:
    with pytest.raises(InvalidInput, match="hours and minutes only") as refused:
        m.add(when=when, command="true")
    assert "time(9, 30)" in str(refused.value.hint)


def test_b19_a_job_by_its_function(m: Matins) -> None:
    def report(run: object) -> None: ...

    with pytest.raises(InvalidInput, match="The function report is not a job of this Matins") as refused:
        m.add(when="1d", job=report)
    assert refused.value.hint == 'Register it: @m.job("report")'
    m.job("weekly")(report)
    assert m.add("a", when="1d", job=report).job == "weekly"
    assert m.add("b", when="1d", steps=[{"title": "One", "job": report}]).settings["steps"][0]["job"] == "weekly"

    @m.schedule("1d")
    def daily() -> None: ...

    assert m.edit("a", job=daily).job == "daily"
