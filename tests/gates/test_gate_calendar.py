"""Days that a schedule leaves out, on every store. Row B11."""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from gate_records import evidence, lines

from matins.engine.calendars import read_days
from matins.errors import Conflict, InvalidInput
from matins.testing import Sandbox, iso
from matins.texts.untrusted_folder import OwnFolders


def test_days_of_calendars_and_of_the_schedule_are_skipped(bench: Sandbox) -> None:
    """B24 B11: with a record, and the words of why; a changed calendar moves no cursor"""
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
    """B24 B11: once, at the same wall time, also where the clocks change between"""
    bench.calendars.set("closing", dates=["2026-03-28", "2026-03-29"])
    bench.add("s", when="0 9 * * 6", job="work", timezone="Europe/Berlin", skip_on=["closing"], move_to="next_day")
    bench.run_until("2026-03-28T12:00:00Z")
    (run,) = bench.all_runs("s")
    assert (run.state, run.reason, iso(run.not_before)) == ("waiting", "calendar", "2026-03-30T07:00:00Z")
    bench.run_until("2026-03-30T08:00:00Z")
    (run,) = bench.all_runs("s")
    assert (run.state, iso(run.started_at)) == ("succeeded", "2026-03-30T07:00:00Z")


def test_the_holidays_of_a_country_are_stored_with_the_calendar(bench: Sandbox) -> None:
    """B24 B11: engines without the extra agree"""
    made = bench.calendars.set("holidays-de", country="DE-BE")
    assert "2026-12-25 Christmas Day" in made.days
    assert "2026-03-08 Women's Day" in made.days, "of Berlin alone"
    bench.add("s", when="every weekday at 9am", job="work", skip_on=["holidays-de"])
    skipped = [slot for slot in bench.preview("s", count=8).slots if slot.verdict == "skipped"]
    assert [slot.sentence for slot in skipped] == [
        "Will be skipped: Good Friday (holidays-de).", "Will be skipped: Easter Monday (holidays-de)."
    ]  # fmt: skip


def test_what_is_no_day_is_refused(bench: Sandbox) -> None:
    """B24 B11"""
    for said, call in (
        ("There is no calendar", lambda: bench.add("s", when="@daily", job="work", skip_on=["nope"])),
        ("'2026-02-30' is not a day", lambda: bench.add("s", when="@daily", job="work", skip_on=["2026-02-30"])),
        ("'soon' is not a day", lambda: bench.calendars.set("c", dates=["soon"])),
        ("is not a day", lambda: bench.calendars.set("c", dates=["2026-12-31..2026-12-24"])),
        ('A calendar needs "dates", "country" or "ics"', lambda: bench.calendars.set("c")),
        ('"country" is not known: XX', lambda: bench.calendars.set("c", country="XX")),
    ):
        with pytest.raises(InvalidInput) as refused:
            call()
        assert said in refused.value.message


def test_ranges_go_over_the_end_of_a_year() -> None:
    """B24 B11"""
    days: Any = read_days(("12-30..01-02 Quiet days",))
    assert sorted(days.yearly) == [(1, 1), (1, 2), (12, 30), (12, 31)]
    assert days.yearly[1, 1] == "Quiet days"


ICS = """BEGIN:VCALENDAR
BEGIN:VEVENT
UID:1
SUMMARY:Spring Day\\, the
  first
DTSTART;VALUE=DATE:20200328
RRULE:FREQ=YEARLY
EXDATE;VALUE=DATE:20270328
END:VEVENT
BEGIN:VEVENT
UID:2
SUMMARY:Offsite
DTSTART;VALUE=DATE:20260330
DTEND;VALUE=DATE:20260401
END:VEVENT
BEGIN:VEVENT
UID:2
RECURRENCE-ID;VALUE=DATE:20260330
SUMMARY:Offsite
DTSTART;VALUE=DATE:20260401
DURATION:P2D
END:VEVENT
BEGIN:VEVENT
UID:3
SUMMARY:Gone
STATUS:CANCELLED
DTSTART;VALUE=DATE:20260403
END:VEVENT
BEGIN:VEVENT
UID:4
SUMMARY:Standup
DTSTART:20260327T090000Z
END:VEVENT
END:VCALENDAR
"""


def test_the_all_day_events_of_a_file_are_days(bench: Sandbox, tmp_path: Path) -> None:
    """B24 B11: recurring, of several days, moved, cancelled; by path or as text. Times of day are not taken"""
    (tmp_path / "team.ics").write_text(ICS)
    made = bench.calendars.set("team", ics=str(tmp_path / "team.ics"))
    assert made.days[:6] == [
        "2025-03-28 Spring Day, the first", "2026-03-28 Spring Day, the first", "2026-04-01 Offsite",
        "2026-04-02 Offsite", "2028-03-28 Spring Day, the first", "2029-03-28 Spring Day, the first",
    ]  # fmt: skip
    assert bench.calendars.set("pasted", ics=ICS).days == made.days
    bench.add("s", when="every day at 9am except on team", job="work")
    said = [slot.sentence for slot in bench.preview("s", count=7).slots if slot.verdict == "skipped"]
    assert said == [
        "Will be skipped: Spring Day, the first (team).", "Will be skipped: Offsite (team).",
        "Will be skipped: Offsite (team).",
    ]  # fmt: skip
    (tmp_path / "team.ics").write_text(ICS.replace("20200328", "20200405"))
    assert bench.calendars.edit("team").days[0] == "2025-04-05 Spring Day, the first", "an edit reads it again"


@pytest.mark.parametrize(
    ("ics", "problem"),
    [
        ("/no/such.ics", "/no/such.ics cannot be used: No such file or directory."),
        ("https://example.org/team.ics", '"ics" is a file, and no URL.'),
        (ICS[:16], "The calendar has no all-day events."),
        (
            ICS.replace("FREQ=YEARLY", "FREQ=YEARLY;BYEASTER=1"),
            'The event "Spring Day, the first": RRULE part BYEASTER',
        ),
        (ICS.replace("FREQ=YEARLY", "FREQ=HOURLY"), 'The event "Spring Day, the first": A day does not repeat within'),
        (ICS.replace("20260330", "20260230"), 'The calendar has the date "20260230", which does not exist.'),
    ],
)
def test_a_file_that_is_no_calendar_is_refused(bench: Sandbox, ics: str, problem: str) -> None:
    """B24 B11"""
    with pytest.raises(InvalidInput) as refused:
        bench.calendars.set("team", ics=ics)
    assert problem in refused.value.message
    assert bench.calendars.list() == []


def events(*lines: str, times: int = 1) -> str:
    event = "\n".join(("BEGIN:VEVENT", "SUMMARY:Long", *lines, "END:VEVENT\n"))
    return "BEGIN:VCALENDAR\n" + event * times


@pytest.mark.parametrize(
    "ics",
    [
        events("DTSTART:20260101", "DURATION:P400D", "RRULE:FREQ=DAILY", times=100),
        events("DTSTART:20260101", "DURATION:P400D", times=2_000),
        events("DTSTART:20260101", "RRULE:FREQ=DAILY", f"EXDATE:{','.join(['20260102'] * 10)}", times=100),
        events("DTSTART:20260101", "DURATION:P400D", "RDATE:10000101,10000102", times=1_000),
        events("DTSTART:20000101", "DURATION:P400D", *["RRULE:FREQ=DAILY;COUNT=1"] * 50, times=100),
    ],
    ids=["days", "events", "left out", "dates", "rules"],
)
def test_a_calendar_costs_no_more_than_its_days(bench: Sandbox, ics: str) -> None:
    """B24 B7: 50 kB of text would have been days of work, each for one and the same day"""
    before = time.thread_time()
    with pytest.raises(InvalidInput, match="more than 20,000 days"):
        bench.calendars.set("team", ics=ics)
    assert time.thread_time() - before < 5


def test_days_at_the_end_of_time_are_no_days(bench: Sandbox) -> None:
    """B24 B11: nor is anything before the first year that is asked for"""
    assert bench.calendars.set("end", ics=events("DTSTART:99991231", "DURATION:P400D")).days == []
    assert len(bench.calendars.set("old", ics=events("DTSTART:20241231", "DURATION:P2D")).days) == 1


def test_an_agent_cannot_lead_a_calendar_elsewhere(tmp_path: Path) -> None:
    """B24 B16: a link in its place does not lead into the home, and a pipe is not waited for"""
    home, shared = tmp_path / "home", tmp_path / "shared"
    for folder in (home, shared):
        folder.mkdir()
    (home / "own.ics").write_text(ICS)
    (shared / "team.ics").symlink_to(home / "own.ics")
    os.mkfifo(shared / "pipe.ics")
    (shared / "large.ics").write_text(ICS)
    os.truncate(shared / "large.ics", 900_000_000)
    own = OwnFolders(lambda: [home])
    with closing(own), Sandbox(f"sqlite:///{home}/matins.db") as bench:
        for name, why in (("team", "it leads into the directory of Matins"), ("pipe", "it is not a regular file"),
                          ("large", "it is larger than 4,000,000 bytes")):  # fmt: skip
            with pytest.raises(InvalidInput, match=why):
                bench.calendars.set(name, ics=str(shared / f"{name}.ics"))
        assert bench.calendars.set("own", ics=str(home / "own.ics")).days


def test_the_days_of_calendars_are_quiet_throughout(bench: Sandbox) -> None:
    """B24 B11: beside the windows; a calendar that changes lets waiting runs go"""
    bench.calendars.set("closing", dates=["2026-03-28..2026-03-29"])
    bench.quiet_hours.set("calm", windows="22:00-07:00", calendars=["closing"], mode="defer", timezone="Europe/Berlin")
    bench.add("s", when="every day at noon", job="work", quiet_hours="calm", timezone="Europe/Berlin")
    said = [slot.sentence for slot in bench.preview("s", count=4).slots]
    assert [sentence.startswith("Waits") or "quiet hours" in sentence for sentence in said] == [
        False, True, True, False,
    ], said  # fmt: skip
    bench.run_until("2026-03-28T12:00:00Z")
    waiting = bench.all_runs("s")[0]
    assert (waiting.state, waiting.reason) == ("waiting", "quiet_hours")
    assert iso(waiting.not_before) == "2026-03-30T05:00:00Z", "the days, then the window of Monday"
    with pytest.raises(Conflict, match="closing"):
        bench.calendars.delete("closing")
    bench.calendars.set("closing", dates=["12-25"])
    bench.run_until("2026-03-28T12:01:00Z")
    assert bench.all_runs("s")[0].state == "succeeded"
    with pytest.raises(InvalidInput, match='need "windows" or "calendars"'):
        bench.quiet_hours.set("none")
