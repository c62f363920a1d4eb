"""Days that a schedule leaves out, on every store. Row B11."""

from __future__ import annotations

from typing import Any

import pytest
from gate_records import evidence, lines

from matins.engine.calendars import read_days
from matins.errors import InvalidInput
from matins.testing import Sandbox, iso


def test_days_of_calendars_and_of_the_schedule_are_skipped(bench: Sandbox) -> None:
    """B11: with a record, and the words of why; a changed calendar moves no cursor"""
    bench.calendars.set("closing", dates=["03-28 Spring Day", "2026-03-30..2026-03-31"])
    made = bench.add("s", when="every day at 9am except on closing, 2026-04-01", job="work")
    assert made.trigger_text == "every day at 09:00 except on closing, 2026-04-01"
    assert made.settings["skip_on"] == ["closing", "2026-04-01"]
    verdicts = [(iso(slot.at), slot.sentence) for slot in bench.preview("s", count=6).slots]
    assert [said for _, said in verdicts] == [
        "Runs.",
        "Will be skipped: Spring Day (closing).",
        "Runs.",
        "Will be skipped: 2026-03-30..2026-03-31 (closing).",
        "Will be skipped: 2026-03-30..2026-03-31 (closing).",
        "Will be skipped: 2026-04-01.",
    ]
    bench.run_until("2026-03-28T10:00:00Z")
    assert lines(bench) == ["09:00 succeeded", "09:00 skipped calendar"]
    assert evidence(bench) == {"day": "Spring Day", "calendar": "closing"}
    assert "Skipped: Spring Day (closing)." in bench.why("s", at="2026-03-28T09:00:00Z").summary
    before = bench.get("s").next_run_at
    bench.calendars.edit("closing", dates=["2026-03-29"])
    assert bench.get("s").next_run_at == before
    bench.run_until("2026-03-31T10:00:00Z")
    assert [line.split()[1] for line in lines(bench)[2:]] == ["skipped", "succeeded", "succeeded"]
    bench.run("s")  # a person starts it all the same
    bench.settle()
    assert bench.all_runs("s")[0].state == "succeeded"


def test_a_run_moves_to_the_next_day_that_is_not_left_out(bench: Sandbox) -> None:
    """B11: once, at the same wall time, also where the clocks change between"""
    bench.calendars.set("closing", dates=["2026-03-28", "2026-03-29"])
    bench.add("s", when="0 9 * * 6", job="work", timezone="Europe/Berlin", skip_on=["closing"], move_to="next_day")
    bench.run_until("2026-03-28T12:00:00Z")
    (run,) = bench.all_runs("s")
    assert (run.state, run.reason, iso(run.not_before)) == ("waiting", "calendar", "2026-03-30T07:00:00Z")
    bench.run_until("2026-03-30T08:00:00Z")
    (run,) = bench.all_runs("s")
    assert (run.state, iso(run.started_at)) == ("succeeded", "2026-03-30T07:00:00Z")


def test_the_holidays_of_a_country_are_stored_with_the_calendar(bench: Sandbox) -> None:
    """B11: engines without the extra agree"""
    made = bench.calendars.set("holidays-de", country="DE-BE")
    assert "2026-12-25 Christmas Day" in made.days
    assert "2026-03-08 Women's Day" in made.days, "of Berlin alone"
    bench.add("s", when="every weekday at 9am", job="work", skip_on=["holidays-de"])
    skipped = [slot for slot in bench.preview("s", count=8).slots if slot.verdict == "skipped"]
    assert [slot.sentence for slot in skipped] == [
        "Will be skipped: Good Friday (holidays-de).", "Will be skipped: Easter Monday (holidays-de)."
    ]  # fmt: skip


def test_what_is_no_day_is_refused(bench: Sandbox) -> None:
    """B11"""
    for said, call in (
        ("There is no calendar", lambda: bench.add("s", when="@daily", job="work", skip_on=["nope"])),
        ("'2026-02-30' is not a day", lambda: bench.add("s", when="@daily", job="work", skip_on=["2026-02-30"])),
        ("'soon' is not a day", lambda: bench.calendars.set("c", dates=["soon"])),
        ("is not a day", lambda: bench.calendars.set("c", dates=["2026-12-31..2026-12-24"])),
        ('A calendar needs "dates" or "country"', lambda: bench.calendars.set("c")),
        ('"country" is not known: XX', lambda: bench.calendars.set("c", country="XX")),
    ):
        with pytest.raises(InvalidInput) as refused:
            call()
        assert said in refused.value.message


def test_ranges_go_over_the_end_of_a_year() -> None:
    """B11"""
    days: Any = read_days(("12-30..01-02 Quiet days",))
    assert sorted(days.yearly) == [(1, 1), (1, 2), (12, 30), (12, 31)]
    assert days.yearly[1, 1] == "Quiet days"
