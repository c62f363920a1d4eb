"""Polpo's own sentences (seeds/polpo)."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from polpo_bench import Polpo

from matins import CronParseError, InvalidInput, parse_trigger
from matins.seeds.polpo import load_hooks, mission_status
from matins.testing import iso

START = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expression", "says", "first"),
    [
        ("0 2 * * *", "every day at 02:00", (1, 2, 0)),
        ("*/15 * * * *", "every 15 minutes on the clock", (1, 0, 15)),
        ("0 9 * * 1-5", "every weekday at 09:00", (2, 9, 0)),
        ("0 0 1 * *", "on the 1st of every month at 00:00", (32, 0, 0)),
        ("30 8,12,18 * * *", "every day at 08:30, 12:30 and 18:30", (1, 8, 30)),
        ("0 22 * * 0", "every Sunday at 22:00", (1, 22, 0)),
        ("0 6 * * 1", "every Monday at 06:00", (2, 6, 0)),
    ],
)
def test_p3_common_patterns(expression: str, says: str, first: tuple[int, int, int]) -> None:
    """P3"""
    trigger = parse_trigger(expression, strict=True)
    day, hour, minute = first
    expected = datetime(2026, 3, day, hour, minute, tzinfo=UTC) if day < 32 else datetime(2026, 4, 1, tzinfo=UTC)
    assert trigger.describe() == says
    assert trigger.next_after(START) == expected


@pytest.mark.parametrize(
    ("field", "minutes"),
    [
        ("30", [30]),
        ("0-5", [0, 1, 2, 3, 4, 5]),
        ("*/15", [0, 15, 30, 45]),
        ("1,3,5", [1, 3, 5]),
        ("0-30/10", [0, 10, 20, 30]),
    ],
)
def test_p3_syntax_table(field: str, minutes: list[int]) -> None:
    """P3"""
    trigger = parse_trigger(f"{field} * * * *", strict=True)
    hour = [t.minute for t in trigger.between(START, START.replace(hour=1))]
    assert hour == minutes


def test_p3_sunday_is_0_and_7() -> None:
    """P3"""
    zero, seven = parse_trigger("0 22 * * 0", strict=True), parse_trigger("0 22 * * 7", strict=True)
    assert zero.next_after(START) == seven.next_after(START)


@pytest.mark.parametrize(
    ("expression", "token"),
    [
        ("@daily", "@daily"),
        ("0 9 * * MON", "MON"),
        ("0 0 L * *", "L"),
        ("0 0 15W * *", "15W"),
        ("0 0 * * 5#2", "5#2"),
        ("0 0 ? * *", "?"),
        ("0 0 9 * * *", "6"),
    ],
)
def test_p3_strict_refuses_what_polpo_does_not_have_by_name(expression: str, token: str) -> None:
    """P3"""
    parse_trigger(expression)
    with pytest.raises(CronParseError) as caught:
        parse_trigger(expression, strict=True)
    assert token in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize("expression", ["*/0 * * * *", "99 * * * *", "5-1 * * * *", "0 0 30 2 *"])
def test_p3_the_seeds_parser_defects_are_errors_here(expression: str) -> None:
    """P3"""
    with pytest.raises(CronParseError) as caught:
        parse_trigger(expression, strict=True)
    assert caught.value.field
    assert caught.value.allowed


def test_p3_february_29_is_found_across_2100() -> None:
    """P3"""
    trigger = parse_trigger("0 0 29 2 *")
    assert trigger.next_after(datetime(2096, 3, 1, tzinfo=UTC)) == datetime(2104, 2, 29, tzinfo=UTC)


SEED_HOOKS = {"hooks": {"before:schedule:trigger": {"command": "test -f open"}}}


def test_p7_cancelling_a_scheduled_run(polpo: Polpo, tmp_path: Path) -> None:
    """P7: "If the hook cancels, the schedule remains active — it will try again at the next cron occurrence. The run is
    skipped, not deleted." """
    load_hooks(polpo, SEED_HOOKS)
    polpo.mission("nightly", "0 2 * * *", recurring=True)
    polpo.run_until("2026-06-29T12:00:00Z")
    (skipped,) = polpo.runs.list(schedule="nightly")
    assert (skipped.state, skipped.reason) == ("skipped", "hook")
    assert mission_status(polpo, "nightly") == "recurring"
    assert iso(polpo.get("nightly").next_run_at) == "2026-06-30T02:00:00Z"
    (tmp_path / "open").touch()
    polpo.run_until("2026-06-30T12:00:00Z")
    assert polpo.days_of("nightly") == ["2026-06-30"]


def test_p7_a_one_shot_that_is_cancelled_stays_scheduled(polpo: Polpo, tmp_path: Path) -> None:
    """P7: it has no next occurrence, so it is tried again"""
    load_hooks(polpo, SEED_HOOKS)
    polpo.mission("deploy", "2026-06-29T14:00:00Z")
    polpo.run_until("2026-06-29T15:00:00Z")
    polpo.assert_not_ran("deploy")
    assert mission_status(polpo, "deploy") == "scheduled"
    (tmp_path / "open").touch()
    polpo.run_until("2026-06-29T16:00:00Z")
    polpo.assert_ran("deploy", times=1)
    assert mission_status(polpo, "deploy") == "completed"


def test_p7_the_hook_fires_before_each_scheduled_execution(polpo: Polpo, tmp_path: Path) -> None:
    """P7: "The before:schedule:trigger hook fires before each scheduled execution." """
    load_hooks(polpo, {"hooks": {"before:schedule:trigger": {"command": 'echo "$MATINS_SCHEDULE" >> asked'}}})
    for mission in ("audit", "backup"):
        polpo.mission(mission, "0 2 * * *", recurring=True)
    polpo.run_until("2026-06-30T12:00:00Z")
    assert sorted((tmp_path / "asked").read_text().split()) == ["audit"] * 2 + ["backup"] * 2


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({}, "hooks"),
        ({"hooks": "test -f x"}, "hooks"),
        ({"hooks": SEED_HOOKS["hooks"] | {"before:task:start": {"command": "true"}}}, "hooks"),
        ({"hooks": {"before:schedule:trigger": "false"}}, "hooks.before:schedule:trigger"),
        ({"hooks": {"before:schedule:trigger": {}}}, "hooks.before:schedule:trigger"),
        ({"hooks": {"before:schedule:trigger": {"command": "false", "shell": True}}}, "hooks.before:schedule:trigger"),
        ({"hooks": {"before:schedule:trigger": {"command": "no-such-program"}}}, "command"),
    ],
)
def test_p7_a_hook_that_cannot_be_used_is_refused(polpo: Polpo, data: dict, field: str) -> None:
    """P7"""
    with pytest.raises(InvalidInput) as caught:
        load_hooks(polpo, data)
    assert caught.value.field == field
    assert caught.value.hint
    polpo.mission("nightly", "0 2 * * *", recurring=True)
    polpo.run_until("2026-06-30T00:00:00Z")
    polpo.assert_ran("nightly", times=1)
