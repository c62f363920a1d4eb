"""Runs of one schedule that meet."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from matins.testing import Sandbox

Lines = Callable[..., list[str]]


def at(minute: str) -> str:
    return f"2026-03-27T{minute}:00Z"


@pytest.mark.parametrize("when", ["*/5 * * * *", "every 5 minutes", "every day at 8:05, 8:10 and 8:15", "@hourly"])
def test_skip_is_the_default_and_never_lets_two_run(theatre: Sandbox, lines: Lines, when: str) -> None:
    """C9 P8: for every type, and never a second run of an active one"""
    theatre.add("s", when=when, job="work", anchor="grid" if when.startswith("every 5") else None)
    theatre.run_until(at("10:20"))
    first, *others = lines(theatre, "s")
    assert first.endswith("running")
    assert others
    assert all(line.endswith("skipped already_running") for line in others)
    theatre.end("s")
    theatre.run_until("2026-03-28T11:20:00Z")
    assert [line.split()[1] for line in lines(theatre, "s")].count("running") == 1
    assert len(theatre.stage.on) == 1


def test_a_skipped_slot_names_the_run_that_was_in_its_way(theatre: Sandbox) -> None:
    """C9 B1"""
    theatre.add("s", when="*/5 * * * *", job="work")
    theatre.run_until(at("08:10"))
    skipped, running = theatre.runs.list(schedule="s")
    assert skipped.evidence == {"run": running.id, "state": "starting"}


def test_a_run_that_waits_for_its_next_attempt_is_in_the_way(bench: Sandbox, lines: Lines) -> None:
    """C9"""
    bench.add("s", when="*/5 * * * *", job="fail", retries=1, retry_delay="7m")
    bench.run_until(at("08:14"))
    assert lines(bench, "s") == ["08:05 failed failed", "08:10 skipped already_running"]


def test_queue_runs_them_in_their_order(theatre: Sandbox, lines: Lines) -> None:
    """B8"""
    theatre.add("s", when="*/5 * * * *", job="work", overlap="queue")
    theatre.run_until(at("08:15"))
    assert lines(theatre, "s") == ["08:05 running", "08:10 queued waiting_for", "08:15 queued waiting_for"]
    theatre.end("s", error="no luck")
    assert lines(theatre, "s") == ["08:05 failed failed", "08:10 running", "08:15 queued waiting_for"]
    theatre.end("s")
    theatre.end("s")
    assert lines(theatre, "s") == ["08:05 failed failed", "08:10 succeeded", "08:15 succeeded"]


def test_a_full_queue_skips_and_says_so(theatre: Sandbox, lines: Lines) -> None:
    """B8"""
    theatre.add("s", when="*/5 * * * *", job="work", overlap="queue", queue_limit=2)
    theatre.run_until(at("08:25"))
    assert lines(theatre, "s")[2:] == [
        "08:15 queued waiting_for",
        "08:20 skipped queue_full",
        "08:25 skipped queue_full",
    ]
    theatre.end("s")
    theatre.run_until(at("08:30"))
    assert lines(theatre, "s")[-1] == "08:30 queued waiting_for"


def test_cancel_other_ends_what_runs_and_starts_the_newest(theatre: Sandbox, lines: Lines) -> None:
    """B8"""
    theatre.add("s", when="*/5 * * * *", job="work", overlap="cancel_other")
    theatre.run_until(at("08:15"))
    assert lines(theatre, "s") == [
        "08:05 running",
        "08:10 cancelled cancelled_by_newer",
        "08:15 queued cancelling_other",
    ]
    theatre.end("s", cancelled=True)
    assert lines(theatre, "s")[0] == "08:05 cancelled cancelled"
    assert lines(theatre, "s")[2] == "08:15 running"


def test_cancel_other_of_a_run_that_waits_to_be_tried_again(bench: Sandbox, lines: Lines) -> None:
    """B8: nothing runs, so the new one starts at once"""
    bench.add("s", when="*/5 * * * *", job="fail", overlap="cancel_other", retries=1, retry_delay="10m")
    bench.run_until(at("08:10"))
    assert lines(bench, "s") == ["08:05 cancelled cancelled_by_newer", "08:10 ready failed_attempt"]


def test_a_run_that_shall_end_is_not_tried_again(theatre: Sandbox, lines: Lines) -> None:
    """B8: also when its attempt failed before it knew"""
    theatre.add("s", when="*/5 * * * *", job="work", overlap="cancel_other", retries=3)
    theatre.run_until(at("08:10"))
    theatre.end("s", error="no luck")
    assert lines(theatre, "s")[0] == "08:05 cancelled failed_attempt"
    assert lines(theatre, "s")[1] == "08:10 running"


def test_allow_lets_them_run_side_by_side(theatre: Sandbox) -> None:
    """B8"""
    theatre.add("s", when="*/5 * * * *", job="work", overlap="allow")
    theatre.run_until(at("08:15"))
    assert theatre.stage.names() == ["s", "s", "s"]


@pytest.mark.parametrize(
    ("policy", "manual"),
    [
        ("skip", "manual skipped already_running"),
        ("queue", "manual queued waiting_for"),
        ("cancel_other", "manual queued cancelling_other"),
        ("allow", "manual running"),
    ],
)
def test_manual_runs_obey(theatre: Sandbox, lines: Lines, policy: str, manual: str) -> None:
    """C9 P8"""
    theatre.add("s", when="*/5 * * * *", job="work", overlap=policy)
    theatre.run_until(at("08:05"))
    theatre.run("s")
    theatre.settle()
    assert lines(theatre, "s") == ["08:05 running", manual]


def test_a_manual_run_is_in_the_way_of_a_slot(theatre: Sandbox, lines: Lines) -> None:
    """C9 P8"""
    theatre.add("s", when="*/5 * * * *", job="work")
    theatre.run("s")
    theatre.run_until(at("08:05"))
    assert lines(theatre, "s") == ["manual running", "08:05 skipped already_running"]


def test_an_edit_to_queue_does_not_strand_what_queues_behind_an_older_run(theatre: Sandbox, lines: Lines) -> None:
    """B8 V7: the run that ends is of the old words, the one that waits of the new"""
    theatre.add("s", when="*/5 * * * *", job="work")
    theatre.run_until(at("08:05"))
    theatre.edit("s", overlap="queue")
    theatre.run_until(at("08:10"))
    assert lines(theatre, "s") == ["08:05 running", "08:10 queued waiting_for"]
    theatre.end("s")
    assert lines(theatre, "s") == ["08:05 succeeded", "08:10 running"]


def test_cancel_ends_what_waits_and_lets_the_next_pass(theatre: Sandbox, lines: Lines) -> None:
    """B8"""
    theatre.add("s", when="*/5 * * * *", job="work", overlap="queue")
    theatre.run_until(at("08:15"))
    running, second, third = reversed(theatre.runs.list(schedule="s"))
    assert theatre.runs.cancel(second.id).state == "cancelled"
    assert theatre.runs.cancel(running.id).state == "running", "it is asked to end"
    theatre.end("s", cancelled=True)
    assert lines(theatre, "s") == ["08:05 cancelled cancelled", "08:10 cancelled cancelled", "08:15 running"]
    assert int(third.id) in theatre.stage.on
