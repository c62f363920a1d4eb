"""What becomes of slots that are late, by each system's own rule."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from matins.seeds import corvid, syris
from matins.testing import ManualClock, Sandbox

NINE = "2026-03-27T09:00:00Z"


def sandbox() -> Sandbox:
    made = Sandbox(clock=ManualClock("2026-03-27T08:00:00Z"))
    for job in ("work", "star_repo"):
        made.job(job)(lambda run: None)
    return made


def add(m: Sandbox, system: str) -> None:
    if system == "corvid":
        corvid.create_schedule(
            m, "s", agent_id="a", action_type="star_repo", cron_expression="0 9 * * *", approval_policy="auto"
        )
    else:
        syris.create_schedule(m, "s", "cron", "0 9 * * *", job="work")


@pytest.mark.parametrize("system", ["corvid", "syris"])
@pytest.mark.parametrize(("late_s", "state"), [(59, "succeeded"), (61, "missed"), (90 * 60, "missed")])
def test_a_slot_more_than_a_minute_late_is_missed(system: str, late_s: int, state: str) -> None:
    """V8 S4: "On startup, next_run_at is computed from now"; also a slot of 90 minutes ago"""
    with closing(sandbox()) as m:
        add(m, system)
        m.clock.advance_to(NINE)
        m.clock.advance(late_s * 1000)
        m.settle()
        m.settle()  # so great a leap counts when a second look confirms it
        m.clock.advance(300)
        m.settle()
        assert [run.state for run in m.runs.list(schedule="s")] == [state]
        assert str(m.get("s").next_run_at).startswith("2026-03-28 09:00")


def test_a_grace_of_zero_still_runs_on_time() -> None:
    """S4: the engine's own delay is not lateness"""
    with closing(sandbox()) as m:
        m.add("s", when="0 9 * * *", job="work", grace="0s")
        m.add("late", when="0 9 * * *", job="work", grace="0s")
        assert m.get("s").settings["grace"] == "0s"
        m.clock.advance_to(NINE)
        m.clock.advance(40)
        m.settle()
        m.assert_ran("s", times=1)
        m.clock.advance_to("2026-03-28T09:00:02Z")
        m.settle()
        m.clock.advance(300)
        m.settle()
        assert m.runs.list(schedule="s")[0].state == "missed"


def test_run_all_capped_takes_its_cap() -> None:
    """S4: "Fire up to N times for the missed window; skip the remainder. N is configurable." """
    with closing(sandbox()) as m:
        options: dict[str, Any] = {"job": "work", "catch_up_policy": "run_all_capped"}
        syris.create_schedule(m, "two", "cron", "0 * * * *", catch_up_cap=2, **options)
        syris.create_schedule(m, "usual", "cron", "0 * * * *", **options)
        m.clock.advance_to("2026-03-27T20:30:00Z")
        m.settle()
        m.clock.advance(300)
        m.settle()
        m.assert_ran("two", times=2)
        m.assert_ran("usual", times=10)
        assert sum(run.state == "missed" for run in m.runs.list(schedule="two")) == 10
