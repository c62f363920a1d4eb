"""`OnCalendar=`: calendar events of systemd fire when `systemd-analyze`, which is systemd's own reading, says so."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from datetime import UTC, datetime
from itertools import islice
from random import Random

import pytest

from matins import TriggerError, parse_trigger

BASE = datetime(2026, 11, 19, 4, 0, 30, tzinfo=UTC)
END = datetime(2150, 1, 1, tzinfo=UTC)
FIRES = 5
WRITTEN = [
    "minutely", "hourly", "daily", "weekly", "monthly", "quarterly", "semiannually", "yearly",
    "Mon..Fri 09:00", "Sat,Sun 10:30:15", "Mon,Wed..Fri *-*-1..7 12:00", "*:0/15", "*-*-* 0/6:30", "8..18/2:00",
    "*-*~01", "*-*~03 10:00", "Mon *-05~07/1", "*-02~01..03 6:00", "*-02-29", "2027-*-01", "2027..2031/2-01,07-15 4:5",
    "12-24 18:00", "*-1..3-1", "Mon-Fri 8:00", "Thursday,", "*:*:0/20", "27-3-4 5:6", "Fri *-*-13", "*-*-31 23:59:59",
]  # fmt: skip


def ours(text: str) -> list[str]:
    try:
        trigger = parse_trigger(f"OnCalendar={text}", now=BASE, timezone="UTC")
    except TriggerError as error:
        return [] if "this date never comes" in error.message else [error.message]
    return [f"{at:%Y-%m-%d %H:%M:%S}" for at in islice(trigger.between(BASE, END), FIRES)]


def of_systemd(texts: list[str]) -> dict[str, list[str]]:
    """The next times of each expression that systemd reads. It refuses steps that leave their range at once."""
    done = subprocess.run(
        ["systemd-analyze", "calendar", f"--iterations={FIRES}", f"--base-time={BASE:%Y-%m-%d %H:%M:%S}", *texts],
        env={**os.environ, "TZ": "UTC", "SYSTEMD_COLORS": "0"}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    found: dict[str, list[str]] = {}
    read = [text for text in texts if f"'{text}'" not in done.stderr]
    parts = [part for part in re.split(r"\n\n+", done.stdout) if "Normalized" in part]
    for text, part in zip(read, parts, strict=True):
        found[text] = re.findall(r"(?:Next elapse|Iter. #\d): \w{3} (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC", part)
    return found


def random_events(seed: int, count: int) -> list[str]:
    random = Random(seed)

    def part(low: int, high: int) -> str:
        first = random.randint(low, high)
        last = random.randint(first, high)
        step = random.randint(1, 9)
        return random.choice(["*", f"{first}", f"{first}..{last}", f"{first}/{step}", f"{first}..{last}/{step},{high}"])

    def event() -> str:
        days = random.choice(["", "", "Mon..Wed ", "Sun,Tue ", "Fri "])
        sign = random.choice("---~")
        date = f"{random.choice(['*', '*', '2028..2040/4', '2027'])}-{part(1, 12)}{sign}{part(1, 28)} "
        return f"{days}{random.choice(['', date])}{part(0, 23)}:{part(0, 59)}:{random.choice(['0', part(0, 59)])}"

    return [event() for _ in range(count)]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not on this machine")
def test_b11_events_fire_when_systemd_says() -> None:
    """B11"""
    texts = [*WRITTEN, *random_events(7, 150)]
    expected = of_systemd(texts)
    assert {text: ours(text) for text in expected} == expected
    assert expected.keys() >= set(WRITTEN)
    assert sum(len(fires) == FIRES for fires in expected.values()) > 150


def test_b11_what_an_event_means() -> None:
    """B11: on machines without systemd too; all parts must match, days with ~ count back from the end"""
    assert ours("Mon *-05~07/1 10:00")[:2] == ["2027-05-31 10:00:00", "2028-05-29 10:00:00"]
    assert ours("Fri *-*-13")[:2] == ["2027-08-13 00:00:00", "2028-10-13 00:00:00"]
    last = parse_trigger("OnCalendar=Mon *-*~07/1 18:00").describe()
    assert last == "on the last 7 days of every month where it is a Monday at 18:00"
    trigger = parse_trigger("OnCalendar=Mon..Fri *-*-* 09:00 Europe/Berlin", now=BASE)
    assert (trigger.timezone, trigger.describe()) == ("Europe/Berlin", "every weekday at 09:00")
    assert trigger.next_after(BASE) == datetime(2026, 11, 19, 8, tzinfo=UTC)
    assert parse_trigger("oncalendar=2026-12-24", now=BASE).next_after(BASE.replace(year=2027)) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not a weekday, a date or a time"),
        ("garbage", "'garbage' is not a weekday"),
        ("Sat..Mon", "the range Sat..Mon runs backwards"),
        ("Mon 9:00 10:00", "'10:00' is not a weekday, a date or a time"),
        ("*-13-01", "month must be 1-12, not 13"),
        ("*-02-30", "this date never comes"),
        ("*-02~31", "this date never comes"),
        ("9:0/0", "minute step must be 1 or more"),
        ("9..8:00", "hour range 9..8 runs backwards"),
        ("10:00:30.5", "second '30.5' is not a number"),
        ("2500-01-01", "year must be 1970-2199, not 2500"),
    ],
)
def test_b11_what_is_no_event_is_refused(text: str, problem: str) -> None:
    """B11"""
    with pytest.raises(TriggerError) as caught:
        parse_trigger(f"OnCalendar={text}")
    assert problem in caught.value.message
    assert caught.value.hint == "For example: OnCalendar=Mon..Fri *-*-* 09:00 Europe/Berlin."
