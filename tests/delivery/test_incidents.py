"""Incidents under a clock that the test moves, with messages to a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from outbox_recorder import HOUR, deliver, let_pass

from matins import InvalidInput
from matins.testing import ManualClock, Sandbox
from standins.inbox import Inbox

MINUTE, DAY = 60_000, 24 * HOUR
START = "2026-03-27T08:00:00Z"


@pytest.fixture
def bench(inbox: Inbox) -> Iterator[Sandbox]:
    found = Sandbox(clock=ManualClock(START))
    found.destinations.set("ops", kind="webhook", url=f"{inbox.url}/ops")
    yield found
    found.close()


class Report:
    """A job that fails with an error, unless there is none."""

    def __init__(self, bench: Sandbox, name: str = "nightly", when: str = "* * * * *", **settings: object) -> None:
        self.error: str | None = "no disk left"
        self.runs = 0
        bench.jobs[name] = self
        bench.add(name, when=when, job=name, failure_backoff="none", **settings)

    def __call__(self, run: object) -> None:
        self.runs += 1
        if self.error is not None:
            raise ValueError(self.error.format(self.runs))


def pass_minutes(bench: Sandbox, count: int) -> None:
    """Let the engine and the outbox work each minute, as their threads would."""
    for _ in range(count):
        bench.run_until(bench.clock.now_ms() + MINUTE)
        deliver(bench)


def test_1440_equal_failures_in_a_day_are_three_messages(bench, inbox):
    """B17: the first at once, a reminder after 1 h and after 6 h; then one a day. A recovery is one message."""
    report = Report(bench)
    report.error = "attempt {0} at /tmp/run-{0}/x: no disk left, id 7f3a9c{0:04x}"
    pass_minutes(bench, 1_440)
    assert report.runs == 1_440
    assert inbox.titles == [
        "✗ nightly failed",
        "✗ nightly failed: 61 times in 1 h",
        "✗ nightly failed: 361 times in 6 h",
    ]
    assert len(bench.incidents.list()) == 1
    pass_minutes(bench, 2)
    assert inbox.titles[3:] == ["✗ nightly failed: 1,441 times in 1 d"]
    report.error = None
    pass_minutes(bench, 1)
    assert inbox.titles[4:] == ["✓ nightly recovered after 1,442 failures in 1 d"]
    [incident] = bench.incidents.list(all=True)
    assert (incident.state, incident.resolution, incident.count, incident.messages) == (
        "resolved",
        "recovered",
        1442,
        5,
    )


def test_a_message_says_what_happened_and_what_to_type(bench, inbox):
    report = Report(bench)
    report.error = "no disk left: <!channel> \x1b[31m{0}\x1b[0m"
    pass_minutes(bench, 1)
    [message] = [one.document for one in inbox.received]
    assert message["text"].split("\n")[:2] == ["✗ nightly failed", "Failed: ValueError: no disk left: <!channel> 1."]
    assert message["commands"] == ["matins why nightly", "matins logs 1", "matins ack 1"]
    assert (message["level"], message["kind"], message["schedule"], message["run_id"]) == (
        "bad",
        "failed",
        "nightly",
        "1",
    )


def test_other_errors_are_told_three_times_an_hour_and_then_folded_into_a_reminder(bench, inbox):
    report = Report(bench)
    for word in ("apple", "pear", "plum", "fig", "lime"):
        report.error = word
        pass_minutes(bench, 1)
    assert inbox.titles == ["✗ nightly failed"] * 3
    assert [one.count for one in bench.incidents.list()] == [1] * 5
    bench.pause("nightly")
    let_pass(bench, 2 * HOUR)
    assert inbox.titles[3:] == ["✗ nightly failed, 1 h ago"] * 2


def test_an_acknowledged_incident_is_silent_until_it_recovers(bench, inbox):
    report = Report(bench)
    pass_minutes(bench, 1)
    found = bench.incidents.acknowledge(bench.incidents.list()[0].id)
    assert (found.state, found.acknowledged_by, found.reminds_at) == ("acknowledged", "owner", None)
    pass_minutes(bench, 90)
    assert inbox.titles == ["✗ nightly failed"]
    report.error = None
    pass_minutes(bench, 1)
    assert inbox.titles[1:] == ["✓ nightly recovered after 91 failures in 1 h 31 min"]
    types = [event.type for event in bench.events.list(limit=1000) if event.type.startswith("incident.")]
    assert types == ["incident.opened", "incident.acknowledged", "incident.resolved"]


def test_a_single_failure_is_not_repeated(bench, inbox):
    Report(bench, when="0 9 * * *")
    bench.run_until("2026-03-27T09:00:00Z")
    let_pass(bench, 20 * HOUR)
    assert inbox.titles == ["✗ nightly failed"]


def test_a_pause_after_failures_ends_the_incident_with_one_message(bench, inbox):
    Report(bench, pause_after_failures=3)
    pass_minutes(bench, 5)
    assert inbox.titles == ["✗ nightly failed", "‖ nightly was paused because its runs failed"]
    [paused] = bench.incidents.list()
    assert paused.kind == "paused"
    bench.resume("nightly")
    deliver(bench)
    assert bench.incidents.list() == []
    assert len(inbox.titles) == 2


def test_a_missed_window_is_one_message_for_all_schedules(bench, inbox):
    for name in ("hourly", "often", "rare"):
        Report(bench, name, when="*/10 * * * *" if name == "often" else "0 * * * *", grace="1m")
    bench.clock.advance(4 * HOUR)
    bench.settle()
    let_pass(bench, 2 * MINUTE)
    missed = [title for title in inbox.titles if "missed" in title]
    assert missed == ["⌛ 3 schedules missed 29 slots"]
    text = next(one.document["text"] for one in inbox.received if "missed" in one.document["title"])
    assert "from 2026-03-27 08:10 UTC to 2026-03-27 11:50 UTC" in text


def test_a_provider_limit_is_one_message(bench, inbox):
    """B6: it is no failure."""
    until = bench.clock.now_ms() + 2 * HOUR
    for _ in range(3):
        bench.throttles.set("anthropic", resets_at=until, reason="429 from the provider")
        deliver(bench)
    assert inbox.titles == ['⌛ Provider "anthropic" limits its requests']
    bench.run_until(until + MINUTE)
    deliver(bench)
    assert bench.incidents.list() == []
    assert len(inbox.titles) == 1


def test_a_schedule_chooses_who_hears_what(bench, inbox):
    bench.destinations.set("phone", kind="webhook", url=f"{inbox.url}/phone")
    bench.notify.set(to=["ops"])
    quiet, own = (
        Report(bench, "quiet", notify=["none"]),
        Report(bench, "own", notify=["phone"], notify_on=["recovered"]),
    )
    usual = Report(bench, "usual")
    pass_minutes(bench, 1)
    quiet.error = own.error = usual.error = None
    pass_minutes(bench, 1)
    told = sorted((one.path, one.document["title"][:12]) for one in inbox.received)
    assert told == [("/ops", "✓ usual reco"), ("/ops", "✗ usual fail")]
    assert len(bench.incidents.list(all=True)) == 3
    own.error = "again"
    bench.edit("own", notify_on=["failed", "recovered"])
    pass_minutes(bench, 1)
    assert inbox.received[-1].path == "/phone"


def test_a_destination_hears_of_the_schedules_with_its_label(bench, inbox):
    """B11: what no label leads to a destination is for all; a schedule that names one is heard there."""
    bench.destinations.edit("ops", label="team=ops")
    bench.destinations.set("web", kind="webhook", url=f"{inbox.url}/web", label="team=web")
    for name, labels in (("a", {"team": "ops"}), ("b", {"team": "web"}), ("c", {"team": "law"}), ("d", {"x": "y"})):
        Report(bench, name, labels=labels)
    Report(bench, "e", labels={"team": "ops"}, notify=["web"])
    pass_minutes(bench, 1)
    told = sorted((one.document["title"][2:3], one.path) for one in inbox.received)
    assert told == [
        ("a", "/ops"), ("b", "/web"), ("c", "/ops"), ("c", "/web"), ("d", "/ops"), ("d", "/web"), ("e", "/web"),
    ]  # fmt: skip
    inbox.received.clear()
    bench.destinations.set("all", kind="webhook", url=f"{inbox.url}/all")
    bench.throttles.set("anthropic", resets_at=bench.clock.now_ms() + 60 * MINUTE, reason="429")
    deliver(bench)
    assert sorted(one.path for one in inbox.received) == ["/all", "/ops", "/web"]  # about no schedule
    with pytest.raises(InvalidInput, match='"label" must name a label as key=value') as caught:
        bench.destinations.edit("ops", label="ops")
    assert caught.value.field == "label"


def test_more_than_its_share_becomes_a_digest_on_the_hour(bench, inbox):
    bench.destinations.edit("ops", max_per_hour=2)
    for number in range(5):
        Report(bench, f"job{number}", when="0 9 * * *")
    bench.run_until("2026-03-27T09:00:00Z")
    deliver(bench)
    assert len(inbox.titles) == 2
    let_pass(bench, 2 * HOUR)
    assert inbox.titles[2:] == ["3 messages in quiet hours, or above the limit of an hour"]
    assert inbox.received[2].document["text"].count("failed") == 3


def test_what_is_for_a_person_waits_for_the_end_of_their_quiet_hours(bench, inbox):
    """The person's own time zone counts. What is urgent passes."""
    bench.quiet_hours.set("nights", windows=["22:00-07:00"])
    bench.people.set("ada", role="operator", quiet_hours="nights", timezone="Europe/Berlin", email="ada@example.com")
    bench.destinations.edit("ops", person="ada", urgent=["held"])
    report = Report(bench, when="0 22 * * *")
    bench.run_until("2026-03-27T22:00:00Z")
    deliver(bench)
    assert inbox.titles == []
    let_pass(bench, 12 * HOUR)
    assert inbox.titles == ["1 message in quiet hours, or above the limit of an hour"]
    sent = bench.events.list(types=["incident.digest"])
    assert sent[0].at.isoformat() == "2026-03-28T06:00:00+00:00"  # 07:00 in Berlin
    assert report.runs == 1


def test_a_restart_neither_repeats_nor_forgets(tmp_path: Path, inbox):
    """B17: incidents, reminders and recoveries go on after the process is gone."""
    url, clock = f"sqlite:///{tmp_path}/m.db", ManualClock(START)

    def life(minutes: int, error: str | None) -> None:
        bench = Sandbox(url, clock=clock)
        report = Report.__new__(Report)
        report.runs, report.error = 0, error
        bench.jobs["nightly"] = report
        if not bench.list():
            bench.destinations.set("ops", kind="webhook", url=inbox.url)
            bench.add("nightly", when="* * * * *", job="nightly", failure_backoff="none")
        pass_minutes(bench, minutes)
        bench.close()

    life(1, "no disk left")
    life(30, "no disk left")
    life(31, "no disk left")
    life(1, None)
    assert inbox.titles == [
        "✗ nightly failed",
        "✗ nightly failed: 61 times in 1 h",
        "✓ nightly recovered after 62 failures in 1 h 2 min",
    ]
