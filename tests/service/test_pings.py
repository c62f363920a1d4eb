"""Schedules whose work happens elsewhere: its ping ends the run, and none that does not come is forgotten."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from matins import Conflict, InvalidInput
from matins.testing import ManualClock, Sandbox

MINUTE = 60_000


@pytest.fixture
def bench() -> Iterator[Sandbox]:
    found = Sandbox(clock=ManualClock("2026-03-27T08:00:00Z"))
    found.add("backup", when="0 9 * * *", job="expect_ping", grace="30m")
    yield found
    found.close()


def last(bench: Sandbox) -> tuple[str, str | None]:
    run = bench.runs.list(schedule="backup")[0]
    return run.state, run.reason


def test_a_ping_ends_the_run_that_waits_for_it(bench: Sandbox) -> None:
    bench.run_until("2026-03-27T09:10:00Z")
    assert last(bench) == ("waiting", "awaiting_ping")
    assert bench.why("backup").summary.endswith("Waiting: a ping is expected until 09:30 UTC.")
    bench.pings.send("backup", text="412 files")
    bench.settle()
    [run] = bench.runs.list(schedule="backup")
    assert (run.state, run.outcome) == ("succeeded", {"result": "412 files"})


def test_retries_are_refused_because_matins_does_not_start_the_work(bench: Sandbox) -> None:
    with pytest.raises(InvalidInput, match='"retries" cannot be combined with the job "expect_ping"') as added:
        bench.add("other", when="0 9 * * *", job="expect_ping", retries=2)
    with pytest.raises(InvalidInput) as edited:
        bench.edit("backup", retries=1)
    assert (added.value.field, edited.value.field) == ("retries", "retries")
    bench.edit("backup", retries=0)


def test_none_within_the_grace_is_missed_and_told(bench: Sandbox) -> None:
    bench.run_until("2026-03-27T09:29:00Z")
    assert last(bench) == ("waiting", "awaiting_ping")
    bench.run_until("2026-03-27T09:31:00Z")
    assert last(bench) == ("missed", "no_ping")
    bench.outbox.run_once(bench.clock.now_ms())
    [incident] = bench.incidents.list()
    assert (incident.kind, incident.summary) == ("missed", "Missed: no ping came until 09:30 UTC.")


@pytest.mark.parametrize(("signal", "error"), [("fail", "exit code 1"), ("7", "exit code 7")])
def test_a_failure_fails_the_run(bench: Sandbox, signal: str, error: str) -> None:
    bench.run_until("2026-03-27T09:10:00Z")
    bench.pings.send("backup", signal=signal, text="disk full")
    bench.settle()
    [run] = bench.runs.list(schedule="backup")
    assert run.state == "failed"
    assert error in run.outcome["error"]
    assert "disk full" in run.outcome["error"]


def test_a_start_prolongs_the_wait_and_starts_nothing(bench: Sandbox) -> None:
    assert bench.pings.send("backup", signal="start") is None
    bench.run_until("2026-03-27T09:20:00Z")
    bench.pings.send("backup", signal="start")
    bench.run_until("2026-03-27T09:45:00Z")
    assert last(bench) == ("waiting", "awaiting_ping")
    bench.pings.send("backup", signal="0")
    bench.settle()
    assert last(bench)[0] == "succeeded"
    assert len(bench.runs.list(schedule="backup")) == 1


def test_a_start_without_an_end_is_missed(bench: Sandbox) -> None:
    bench.run_until("2026-03-27T09:20:00Z")
    bench.pings.send("backup", signal="start")
    bench.run_until("2026-03-27T10:00:00Z")
    assert last(bench) == ("missed", "no_ping")


def test_a_ping_that_nobody_waits_for_is_a_run_of_its_own(bench: Sandbox) -> None:
    bench.pings.send("backup", text="by hand")
    bench.settle()
    assert last(bench)[0] == "succeeded"
    bench.run_until("2026-03-27T09:10:00Z")
    assert last(bench) == ("waiting", "awaiting_ping")


def test_a_run_without_a_ping_fails(bench: Sandbox) -> None:
    bench.run("backup")
    bench.settle()
    assert last(bench)[0] == "failed"


def test_the_address_is_the_same_until_it_is_rotated(bench: Sandbox) -> None:
    path = bench.pings.url("backup").path
    assert bench.pings.url("backup").path == path
    assert path.startswith("/in/p/")
    assert len(path) > 25
    assert bench.pings.rotate("backup").path != path


def test_what_is_no_signal_is_refused(bench: Sandbox) -> None:
    with pytest.raises(InvalidInput, match='"done" is no signal of a ping'):
        bench.pings.send("backup", signal="done")
    with pytest.raises(InvalidInput, match='"256" is no signal'):
        bench.pings.send("backup", signal="256")


def test_other_schedules_have_no_address(bench: Sandbox) -> None:
    bench.job("work")(lambda run: None)
    bench.add("nightly", when="0 3 * * *", job="work")
    with pytest.raises(Conflict, match='"nightly" waits for no ping: its job is work'):
        bench.pings.url("nightly")
