"""Cron beyond the five plain fields: L-3, full names, ranges of names past the end, large steps, and H."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from matins import parse_trigger
from matins.errors import CronParseError

START = datetime(2026, 1, 1, tzinfo=UTC)
YEAR = [date(2026, 1, 1) + timedelta(n) for n in range(365)]


def days(expression: str) -> list[date]:
    """The days of 2026 on which it fires, once each."""
    trigger = parse_trigger(expression, now=START)
    found, at = list[date](), trigger.next_after(START - timedelta(milliseconds=1))
    while at is not None and at.year == 2026:
        found.append(at.date())
        at = trigger.next_after(at)
    return found


def nearest_weekday(day: date) -> date:
    """Monday for Sunday, Friday for Saturday."""
    return day + timedelta({6: -1, 7: 1}.get(day.isoweekday(), 0))


def last_day(day: date) -> date:
    return (day.replace(day=28) + timedelta(4)).replace(day=1) - timedelta(1)


@pytest.mark.parametrize(
    ("expression", "fires"),
    [
        ("0 9 L-3 * *", lambda day: day == last_day(day) - timedelta(3)),
        ("0 9 L-1,1 * *", lambda day: day.day == 1 or day == last_day(day) - timedelta(1)),
        ("0 9 L-28 * *", lambda day: day == last_day(day) - timedelta(28)),
        ("0 9 * * FRI-MON", lambda day: day.isoweekday() in (5, 6, 7, 1)),
        ("0 9 * * fri-mon/2", lambda day: day.isoweekday() in (5, 7)),
        ("0 9 * * Saturday-Tuesday", lambda day: day.isoweekday() in (6, 7, 1, 2)),
        ("0 9 * * monday,Wednesday", lambda day: day.isoweekday() in (1, 3)),
        ("0 9 1 nov-feb *", lambda day: day.day == 1 and day.month in (11, 12, 1, 2)),
        ("0 9 1 January,july *", lambda day: day.day == 1 and day.month in (1, 7)),
        ("0 9 */100,1-7 * MON", lambda day: day.isoweekday() == 1 and day.day <= 7),
        ("0 9 */40 * *", lambda day: day.day == 1),
        ("0 9 1 */13 *", lambda day: day == date(2026, 1, 1)),
        ("0 9 15-L * *", lambda day: day.day >= 15),
        ("0 9 25-L/2 feb *", lambda day: day in (date(2026, 2, 25), date(2026, 2, 27))),
        ("0 9 L-3W * *", lambda day: day == nearest_weekday(last_day(day) - timedelta(3))),
        ("0 0 9 1 * ? 2026", lambda day: day.day == 1),
        ("0 0 9 * * MON 2020-2030/2", lambda day: day.isoweekday() == 1),
        ("0 0 9 * * MON */3", lambda day: False),
    ],
)
def test_s1_against_the_calendar(expression: str, fires: object) -> None:
    """S1, S3: compared with every day of a year"""
    assert callable(fires)
    assert days(expression) == [day for day in YEAR if fires(day)]


@pytest.mark.parametrize(
    "expression",
    ["0 9 L-3 * *", "0 9 * * FRI-MON", "0 9 * * monday", "0 9 */40 * *", "H 9 * * *", "0 0 9 * * * 2027"],
)
def test_strict_refuses_them(expression: str) -> None:
    """S1: strict is the plain grammar of the seeds"""
    with pytest.raises(CronParseError):
        parse_trigger(expression, strict=True, name="x")


@pytest.mark.parametrize("expression", ["0 9 L-31 * *", "0 9 L-0 * *", "0 9 L-x * *", "0 9 L-29 2 *", "*/0 * * * *"])
def test_what_never_comes_is_refused(expression: str) -> None:
    with pytest.raises(CronParseError):
        parse_trigger(expression)


def test_s1_a_year_ends_the_schedule() -> None:
    """S1: the last of seven fields; years count as a set"""
    trigger = parse_trigger("0 30 9 29 2 ? 2027-2032,2040", now=START)
    fires = [date(2028, 2, 29), date(2032, 2, 29), date(2040, 2, 29)]
    assert [at.date() for at in trigger.between(START, START.replace(year=2100))] == fires
    named = "in 2027, 2028, 2029, 2030, 2031, 2032 and 2040"
    assert trigger.describe() == f"on the 29th of every February at 09:30, {named}"
    far = int(START.replace(year=2100).timestamp() * 1000)
    assert trigger.prev_ms(far) == int(datetime(2040, 2, 29, 9, 30, tzinfo=UTC).timestamp() * 1000)
    assert (trigger.count(0, far), trigger.next_ms(far)) == (3, None)
    for expression in ("0 0 9 29 2 * 2027", "0 0 9 * * * 1969", "0 0 9 * * * 2200", "0 0 9 * * * L"):
        with pytest.raises(CronParseError, match="year"):
            parse_trigger(expression)


def test_s3_h_follows_from_the_name() -> None:
    """S3: the same for one name, spread over many, and within its bounds"""
    texts = {parse_trigger("H H * * *", name=f"job-{n}").to_dict()["expression"] for n in range(200)}
    assert len(texts) > 150
    assert parse_trigger("H H * * *", name="a").to_dict() == parse_trigger("H H * * *", name="a").to_dict()
    for n in range(50):
        frozen = parse_trigger("H(0-29)/10 H(1-5) H * *", name=f"job-{n}").to_dict()["expression"]
        minute, hour, day, *_ = frozen.split()
        assert int(minute.split("-")[0]) < 10
        assert minute.endswith("-29/10")
        assert 1 <= int(hour) <= 5
        assert 1 <= int(day) <= 28


@pytest.mark.parametrize("expression", ["H(5-1) * * * *", "H/99 * * * *", "Hx * * * *", "H(0-99) * * * *"])
def test_h_out_of_bounds_is_refused(expression: str) -> None:
    with pytest.raises(CronParseError):
        parse_trigger(expression, name="x")


def test_h_needs_a_name() -> None:
    with pytest.raises(CronParseError, match="follows from the name") as caught:
        parse_trigger("H 9 * * *")
    assert caught.value.hint == "Give the schedule a name: --name NAME"
