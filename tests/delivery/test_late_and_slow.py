"""People hear when a slot does not start in time, and when a run takes too long. The clock is the test's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from outbox_recorder import HOUR, deliver

from matins import InvalidInput
from matins.delivery.texts import Subject, title_of
from matins.engine.planning import Watched, first_look, look
from matins.model.destination import KINDS, IncidentKind
from matins.model.event import IncidentRow
from matins.model.schedule import ScheduleDefinition
from matins.model.trigger import Never, TriggerDefinition
from matins.testing import ManualClock, Sandbox
from standins.inbox import Inbox

MINUTE = 60_000
START = "2026-03-27T08:00:00Z"


@pytest.fixture
def bench(inbox: Inbox) -> Iterator[Sandbox]:
    found = Sandbox(clock=ManualClock(START))
    found.destinations.set("ops", kind="webhook", url=f"{inbox.url}/ops")
    yield found
    found.close()


def kinds(bench: Sandbox) -> list[str]:
    return [event.type.removeprefix("matins.") for event in bench.events.list(types=["run.late", "run.slow"])]


def pass_minutes(bench: Sandbox, count: int) -> None:
    for _ in range(count):
        bench.run_until(bench.clock.now_ms() + MINUTE)
        deliver(bench)


def waiting(bench: Sandbox, **settings: Any) -> None:
    """A schedule whose runs wait for an approval, and so do not start."""
    bench.job("work")(lambda run: None)
    bench.add("nightly", when="0 * * * *", job="work", approval="owner_approve", **settings)


def test_a_slot_that_does_not_start_is_told_once_and_over_with_its_run(bench: Sandbox, inbox: Inbox) -> None:
    """B24"""
    waiting(bench, late_after="15m", notify_on=["late"])
    pass_minutes(bench, 74)
    assert kinds(bench) == []
    pass_minutes(bench, 10)
    assert kinds(bench) == ["run.late"]
    assert inbox.titles == ["⌛ nightly is late"]
    [incident] = [found for found in bench.incidents.list() if found.kind == "late"]
    assert incident.summary == "The slot of 2026-03-27 09:00 UTC has not started after 15m."
    bench.runs.cancel(incident.run_id or "")
    pass_minutes(bench, 1)
    assert "late" not in [found.kind for found in bench.incidents.list()]


def test_a_slot_that_started_late_is_told_too(bench: Sandbox, inbox: Inbox) -> None:
    """B24"""
    bench.job("work")(lambda run: None)
    bench.add("nightly", when="0 * * * *", job="work", late_after="5m", grace="2h")
    bench.run_until("2026-03-27T08:30:00Z")
    bench.clock.advance_to("2026-03-27T09:20:00Z")
    pass_minutes(bench, 1)
    assert kinds(bench) == ["run.late"]
    assert inbox.titles == ["⌛ nightly is late"]


def test_one_in_time_is_not_told(bench: Sandbox, inbox: Inbox) -> None:
    """B24"""
    bench.job("work")(lambda run: None)
    bench.add("nightly", when="0 * * * *", job="work", late_after="5m", slow_after="auto")
    pass_minutes(bench, 180)
    assert (kinds(bench), inbox.titles) == ([], [])


def test_what_a_paused_schedule_holds_is_not_late(bench: Sandbox, inbox: Inbox) -> None:
    """B24"""
    waiting(bench, late_after="15m", notify_on=["late"])
    pass_minutes(bench, 61)
    bench.pause("nightly")
    [run] = bench.runs.list(schedule="nightly")
    bench.approvals.approve(bench.approvals.list()[0].id)
    pass_minutes(bench, 60)
    assert (kinds(bench), bench.runs.get(run.id).state) == ([], "waiting")


def test_a_slow_run_is_told_while_it_runs(bench: Sandbox, inbox: Inbox) -> None:
    """B24"""
    bench.job("first")(lambda run: None)
    bench.job("work")(lambda run: None)
    steps: list[Any] = [
        {"title": "One", "job": "first"},
        {"title": "Two", "job": "work", "after": ["One"], "approval": "owner_approve"},
    ]
    bench.add("nightly", when="0 * * * *", steps=steps, slow_after="30m", notify_on=["slow"])
    pass_minutes(bench, 95)
    assert kinds(bench) == ["run.slow"]
    assert inbox.titles == ["⌛ nightly takes long"]
    [incident] = [found for found in bench.incidents.list() if found.kind == "slow"]
    assert incident.summary.endswith("has run for 30m, longer than 30m.")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_incident_has_a_title(kind: IncidentKind) -> None:
    """B24"""
    details = '{"provider": "anthropic", "schedules": {"1": 2}}'
    incident = IncidentRow(1, 1, kind, "x", "Something.", None, None, 7, 1, details, 0, 0, 0, 0, None)
    assert title_of("opened", incident, Subject("nightly", "UTC"), 0)


def settings(late: int | None = None, slow: int | None = None) -> ScheduleDefinition:
    return ScheduleDefinition(TriggerDefinition(Never()), "work", late_after_ms=late, slow_after_ms=slow)


def test_the_first_look_is_at_the_first_instant_that_may_matter() -> None:
    """B24"""
    assert first_look(settings(late=5), 100, 100) == 105
    assert first_look(settings(late=50, slow=20), 100, 100) == 120
    assert first_look(settings(late=5), None, 100) == 100


def test_looks() -> None:
    """B24: Late while it has not started, slow while it has not ended; each is found once."""
    run = Watched(MINUTE, HOUR, 0, 0, None, ended=False, held=False)
    assert look(run, MINUTE - 1) == ([], MINUTE)
    assert look(run, MINUTE) == (["run.late"], MINUTE + HOUR)
    assert look(run._replace(late=True), 2 * MINUTE) == ([], 2 * MINUTE + HOUR)
    assert look(run._replace(started_at=10), 2 * MINUTE) == ([], HOUR + 10)
    assert look(run._replace(started_at=10), HOUR + 10) == (["run.slow"], None)
    assert look(run._replace(ended=True), HOUR) == ([], None)
    assert look(run._replace(held=True), HOUR) == ([], HOUR + MINUTE)


def test_auto_is_read_and_shown_and_what_is_no_duration_is_refused(bench: Sandbox) -> None:
    """B24"""
    bench.job("work")(lambda run: None)
    assert bench.add("a", when="0 * * * *", job="work", slow_after="auto").settings["slow_after"] == "auto"
    with pytest.raises(InvalidInput, match="\"slow_after\" must be a duration, not 'often'"):
        bench.add("b", when="0 * * * *", job="work", slow_after="often")
    with pytest.raises(InvalidInput, match="\"late_after\" must be a duration, not 'auto'"):
        bench.add("c", when="0 * * * *", job="work", late_after="auto")
