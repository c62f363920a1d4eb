"""B10: English schedules and the definitions that they stand for, on Wednesday 18 March 2026 at 10:00 in London."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

import pytest

from matins.engine.english.phrases import PhraseMeaning, parse_phrase
from matins.engine.when.zones import load_zone
from matins.model.trigger import Cron, Daily, Interval, Once, Rrule, Weekly, When

WEEKDAYS, WEEKEND = (1, 2, 3, 4, 5), (0, 6)
SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


NOW = ms("2026-03-18T10:00")


def read(text: str, zone: str = "Europe/London", now_ms: int = NOW) -> PhraseMeaning:
    return parse_phrase(text, now_ms=now_ms, zone=load_zone(zone))


def every(milliseconds: int) -> Interval:
    return Interval(milliseconds, NOW)


def at(*clocks: str) -> tuple[int, ...]:
    return tuple(int(clock[:2]) * 60 + int(clock[3:]) for clock in clocks)


def rrule(rule: str, start: str) -> Rrule:
    return Rrule(rule, ms(start))


ELAPSED: dict[str, When] = {
    "every 5 minutes": every(5 * MINUTE),
    "every 30 seconds": every(30 * SECOND),
    "every hour": every(HOUR),
    "every minute": every(MINUTE),
    "every second": every(SECOND),
    "every 2 hours": every(2 * HOUR),
    "every 2 days": every(48 * HOUR),
    "every 1 day": every(DAY),
    "hourly": every(HOUR),
    "minutely": every(MINUTE),
    "each 5 mins": every(5 * MINUTE),
    "every 1 minutes": every(MINUTE),
    "every twelve hrs": every(12 * HOUR),
    "every other hour": every(2 * HOUR),
    "every 10 sec": every(10 * SECOND),
    "every 90m": every(90 * MINUTE),
    "every 1 hour and 30 minutes": every(90 * MINUTE),
    "every 1 day, 2 hours and 3 seconds": every(DAY + 2 * HOUR + 3 * SECOND),
    "EVERY  5\tMinutes": every(5 * MINUTE),
}

ON_THE_CLOCK: dict[str, When] = {
    "every 5 minutes on the clock": Cron("*/5 * * * *"),
    "every minute on the clock": Cron("* * * * *"),
    "every 1 minute on the clock": Cron("* * * * *"),
    "every hour on the hour": Cron("0 * * * *"),
    "every 2 hours on the hour": Cron("0 */2 * * *"),
    "hourly on the hour": Cron("0 * * * *"),
    "at 15 minutes past every hour": Cron("15 * * * *"),
    "at 15 and 45 minutes past every hour": Cron("15,45 * * * *"),
    "at ten past the hour": Cron("10 * * * *"),
    "every 5 minutes on the clock on weekdays": Cron("*/5 * * * 1-5"),
    "every hour on the hour on monday and friday": Cron("0 * * * 1,5"),
    "every hour on the hour on weekends": Cron("0 * * * 0,6"),
    "at 15 minutes past every hour on saturdays, sundays and mondays": Cron("15 * * * 0,1,6"),
    "every 5 minutes on the clock on monday to sunday": Cron("*/5 * * * *"),
    "every 5 minutes on the clock except on weekends": Cron("*/5 * * * 1-5"),
}

BY_DAYS: dict[str, When] = {
    "every day at 09:00": Daily(at("09:00")),
    "daily at 9am and 5pm": Daily(at("09:00", "17:00")),
    "every day at noon": Daily(at("12:00")),
    "every day at midnight": Daily(at("00:00")),
    "at 9am every day": Daily(at("09:00")),
    "every day at 12am and 12pm": Daily(at("00:00", "12:00")),
    "every day at 5pm, 9 am and at 9:30 pm": Daily(at("09:00", "17:00", "21:30")),
    "every day at 9 and 9am": Daily(at("09:00")),
    "every weekday at 9am": Weekly(WEEKDAYS, at("09:00")),
    "every monday, wednesday and friday at 09:00": Weekly((1, 3, 5), at("09:00")),
    "every monday, wednesday, and friday at 09:00": Weekly((1, 3, 5), at("09:00")),
    "weekdays at 9": Weekly(WEEKDAYS, at("09:00")),
    "every weekend at 10:00": Weekly(WEEKEND, at("10:00")),
    "every tuesday at 14:30": Weekly((2,), at("14:30")),
    "on mondays at 9": Weekly((1,), at("09:00")),
    "mondays at 9": Weekly((1,), at("09:00")),
    "mondays and fridays at 9": Weekly((1, 5), at("09:00")),
    "weekly on monday at 9": Weekly((1,), at("09:00")),
    "every week on mondays at 9": Weekly((1,), at("09:00")),
    "at 9am on weekdays": Weekly(WEEKDAYS, at("09:00")),
    "every day except sunday at 9": Weekly((1, 2, 3, 4, 5, 6), at("09:00")),
    "every day except on weekends at 9": Weekly(WEEKDAYS, at("09:00")),
    "every weekday except friday at 9": Weekly((1, 2, 3, 4), at("09:00")),
    "every weekday and saturday at 9": Weekly((1, 2, 3, 4, 5, 6), at("09:00")),
    "every weekday and weekend at 9": Daily(at("09:00")),
    "every mon, tue, wed, thu, fri, sat and sun at 9": Daily(at("09:00")),
    "every tues, thur and thurs at 9": Weekly((2, 4), at("09:00")),
    "every monday to friday at 9am": Weekly(WEEKDAYS, at("09:00")),
    "every friday through monday at 9am": Weekly((0, 1, 5, 6), at("09:00")),
}

WINDOWS: dict[str, When] = {
    "every hour between 9 and 17 on weekdays": Weekly(WEEKDAYS, tuple(range(540, 1021, 60))),
    "every 15 minutes between 09:00 and 17:00": Daily(tuple(range(540, 1021, 15))),
    "every 30 minutes from 9am to 5pm on weekdays": Weekly(WEEKDAYS, tuple(range(540, 1021, 30))),
    "every 2 hours between 9 and 16": Daily(at("09:00", "11:00", "13:00", "15:00")),
    "every 2 hours from 9am until 1pm on mondays": Weekly((1,), at("09:00", "11:00", "13:00")),
    "hourly between 22:30 and 23:59": Daily(at("22:30", "23:30")),
    "every hour between 0 and 2 except sunday": Weekly((1, 2, 3, 4, 5, 6), at("00:00", "01:00", "02:00")),
}

BY_MONTHS: dict[str, When] = {
    "on the 1st of every month at noon": Cron("0 12 1 * *"),
    "on the 1st and 15th of every month at 09:00": Cron("0 9 1,15 * *"),
    "on the last day of every month at 18:00": Cron("0 18 L * *"),
    "on the 1st and the last day of every month at 18:00": Cron("0 18 1,L * *"),
    "on the last weekday of every month at 09:00": Cron("0 9 LW * *"),
    "on the first weekday of every month at 09:00": Cron("0 9 1W * *"),
    "on the weekday nearest the 15th of every month at 09:00": Cron("0 9 15W * *"),
    "on the weekday nearest to the 15th of every june at 09:00": Cron("0 9 15W 6 *"),
    "last friday of the month at 18:00": Cron("0 18 * * 5L"),
    "on the last friday of every month at 18:00": Cron("0 18 * * 5L"),
    "on the first monday of every month at 9": Cron("0 9 * * 1#1"),
    "on the 1st monday of every month at 9": Cron("0 9 * * 1#1"),
    "the first and third monday of the month at 9": Cron("0 9 * * 1#1,1#3"),
    "on the first monday and the last friday of every month at 9": Cron("0 9 * * 1#1,5L"),
    "on the first monday of every january at 09:00": Cron("0 9 * 1 1#1"),
    "on the 25th of every december at 09:00": Cron("0 9 25 12 *"),
    "on the 1st of every january and july at 09:00": Cron("0 9 1 1,7 *"),
    "on the first of the month at 9": Cron("0 9 1 * *"),
    "on the first day of each month at 9": Cron("0 9 1 * *"),
    "every month on the 1st at 9am": Cron("0 9 1 * *"),
    "monthly on the 1st at 9": Cron("0 9 1 * *"),
    "every january on the 2nd at 9am": Cron("0 9 2 1 *"),
    "every year on december 25 at 9am": Cron("0 9 25 12 *"),
    "every year on 25 dec at 9am": Cron("0 9 25 12 *"),
    "yearly on december 25th at 9am": Cron("0 9 25 12 *"),
    "annually on the last thursday of november at 9am": Cron("0 9 * 11 4L"),
    "every december 25 at 9am": Cron("0 9 25 12 *"),
    "every year in march on the 3rd at 9am": Cron("0 9 3 3 *"),
    "at 9am on the 1st of every month": Cron("0 9 1 * *"),
    "on the 1st of every month at 09:00 and 17:00": Cron("0 9,17 1 * *"),
    "on the 1st of every month at 9:15, 9:45, 17:15 and 17:45": Cron("15,45 9,17 1 * *"),
}

BY_TURNS: dict[str, When] = {
    "every other tuesday at 14:30": rrule("FREQ=WEEKLY;INTERVAL=2;BYDAY=TU;BYHOUR=14;BYMINUTE=30", "2026-03-24"),
    "every other wednesday at 14:30": rrule("FREQ=WEEKLY;INTERVAL=2;BYDAY=WE;BYHOUR=14;BYMINUTE=30", "2026-03-18"),
    "every other wednesday at 10:00": rrule("FREQ=WEEKLY;INTERVAL=2;BYDAY=WE;BYHOUR=10;BYMINUTE=0", "2026-03-25"),
    "every other tuesday at 14:30 starting 2026-03-31": rrule(
        "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU;BYHOUR=14;BYMINUTE=30", "2026-03-31"
    ),
    "every 2 weeks on monday and friday at 9:00": rrule(
        "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR;BYHOUR=9;BYMINUTE=0", "2026-03-20"
    ),
    "every 3 weeks on weekends at 9": rrule("FREQ=WEEKLY;INTERVAL=3;BYDAY=SA,SU;BYHOUR=9;BYMINUTE=0", "2026-03-21"),
    "every other week on monday at 9": rrule("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO;BYHOUR=9;BYMINUTE=0", "2026-03-23"),
    "every other day at 9am": rrule("FREQ=DAILY;INTERVAL=2;BYHOUR=9;BYMINUTE=0", "2026-03-19"),
    "every other day at 9am and 11am": rrule("FREQ=DAILY;INTERVAL=2;BYHOUR=9,11;BYMINUTE=0", "2026-03-18"),
    "every 2 days at 9am": rrule("FREQ=DAILY;INTERVAL=2;BYHOUR=9;BYMINUTE=0", "2026-03-19"),
    "at 9am every 10 days starting 1 april 2026": rrule("FREQ=DAILY;INTERVAL=10;BYHOUR=9;BYMINUTE=0", "2026-04-01"),
    "every 3 months on the 1st at 09:00": rrule(
        "FREQ=MONTHLY;INTERVAL=3;BYMONTHDAY=1;BYHOUR=9;BYMINUTE=0", "2026-04-01"
    ),
    "every other month on the last friday at 9": rrule(
        "FREQ=MONTHLY;INTERVAL=2;BYDAY=-1FR;BYHOUR=9;BYMINUTE=0", "2026-03-27"
    ),
    "every other month on the first and third monday at 9": rrule(
        "FREQ=MONTHLY;INTERVAL=2;BYDAY=1MO,3MO;BYHOUR=9;BYMINUTE=0", "2026-04-06"
    ),
    "every other month on the last day at 9": rrule(
        "FREQ=MONTHLY;INTERVAL=2;BYMONTHDAY=-1;BYHOUR=9;BYMINUTE=0", "2026-03-31"
    ),
    "every 2 months on the last weekday at 9": rrule(
        "FREQ=MONTHLY;INTERVAL=2;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;BYHOUR=9;BYMINUTE=0", "2026-03-31"
    ),
    "every 2 months on the first weekday at 9 and 17": rrule(
        "FREQ=MONTHLY;INTERVAL=2;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=1,2;BYHOUR=9,17;BYMINUTE=0", "2026-04-01"
    ),
    "every 4 years on february 29 at noon": rrule(
        "FREQ=YEARLY;INTERVAL=4;BYMONTH=2;BYMONTHDAY=29;BYHOUR=12;BYMINUTE=0", "2028-02-29"
    ),
    "every other year in may on the first monday at noon": rrule(
        "FREQ=YEARLY;INTERVAL=2;BYMONTH=5;BYDAY=1MO;BYHOUR=12;BYMINUTE=0", "2026-05-04"
    ),
    "every weekday at 9am starting 2026-04-01": rrule(
        "FREQ=WEEKLY;INTERVAL=1;BYDAY=MO,TU,WE,TH,FR;BYHOUR=9;BYMINUTE=0", "2026-04-01"
    ),
    "every day at 9am starting on 1 april 2026": rrule("FREQ=DAILY;INTERVAL=1;BYHOUR=9;BYMINUTE=0", "2026-04-01"),
    "on the 1st of every june at 9am starting 2027-01-01": rrule(
        "FREQ=MONTHLY;INTERVAL=1;BYMONTH=6;BYMONTHDAY=1;BYHOUR=9;BYMINUTE=0", "2027-01-01"
    ),
}

ONCE: dict[str, When] = {
    "in 2 hours": Once(NOW + 2 * HOUR),
    "in 45 minutes": Once(NOW + 45 * MINUTE),
    "in 1 hour and 30 minutes": Once(NOW + 90 * MINUTE),
    "in 3 days": Once(NOW + 72 * HOUR),
    "in a week": Once(NOW + 7 * DAY),
    "in an hour": Once(NOW + HOUR),
    "in two weeks and 1 day": Once(NOW + 15 * DAY),
    "in 5m": Once(NOW + 5 * MINUTE),
    "tomorrow at 14:00": Once(ms("2026-03-19T14:00")),
    "today at 18:00": Once(ms("2026-03-18T18:00")),
    "at 18:00 today": Once(ms("2026-03-18T18:00")),
    "next monday at 9": Once(ms("2026-03-23T09:00")),
    "next wednesday at 9": Once(ms("2026-03-25T09:00")),
    "once next wed at 18": Once(ms("2026-03-25T18:00")),
    "on 2026-03-24 at 14:00": Once(ms("2026-03-24T14:00")),
    "once on 2026-03-24 at 14:00": Once(ms("2026-03-24T14:00")),
    "once on 2026-03-24 at 14:00:30": Once(ms("2026-03-24T14:00:30")),
    "once on 2026-03-24 at 14:00:30.250": Once(ms("2026-03-24T14:00:30") + 250),
    "2026-03-24 at 2pm": Once(ms("2026-03-24T14:00")),
    "on 24 march 2026 at 14:00": Once(ms("2026-03-24T14:00")),
    "on the 24th of march, 2026 at 14:00": Once(ms("2026-03-24T14:00")),
    "march 24 2026 at 2pm": Once(ms("2026-03-24T14:00")),
    "on march 24th, 2026 at 2pm": Once(ms("2026-03-24T14:00")),
    "on 2026-06-01 at 14:00": Once(ms("2026-06-01T13:00")),
    "once at 2026-03-24T14:00:30+01:00": Once(ms("2026-03-24T13:00:30")),
    "once at 2026-03-24T14:00Z": Once(ms("2026-03-24T14:00")),
}

ALL = {**ELAPSED, **ON_THE_CLOCK, **BY_DAYS, **WINDOWS, **BY_MONTHS, **BY_TURNS, **ONCE}


@pytest.mark.parametrize(("text", "when"), ALL.items(), ids=ALL)
def test_a_phrase_has_one_meaning(text: str, when: When) -> None:
    """B10: capitals and white space apart, these words and no others."""
    assert read(text).when == when
    assert read(text.upper()).when == when


def test_nothing_is_said_where_nothing_was_guessed() -> None:
    """B10: 0 and 13 to 23 can only be hours of a 24-hour clock."""
    for text in ("every day at 9am", "every day at 09:00", "every day at 17 and 0", "in 2 hours", "tomorrow at 14"):
        assert read(text).notes == ()


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("every day at 9", '"at 9" read as 09:00 (24-hour clock)'),
        ("every day at 17 and 12", '"at 12" read as 12:00 (24-hour clock)'),
        ("tomorrow at 7", '"at 7" read as 07:00 (24-hour clock)'),
        ("every hour between 9 and 17", '"9" read as 09:00 (24-hour clock)'),
        ("every 2 days", '"every 2 days" read as every 48 hours; with a time it keeps the wall clock'),
        ("next monday at 9am", '"next monday" is 2026-03-23'),
        ("on the 31st of every month at 9am", "months without a 31st do not fire on it"),
        ("on the 30th of every month at 9am", "months without a 30th do not fire on it"),
        ("every year on february 29 at 9am", "29 february comes in leap years only"),
        ("on the fifth monday of every month at 9am", "months without a fifth one do not fire on it"),
        ("on 2026-10-25 at 01:30", '"01:30" comes twice on 2026-10-25 in Europe/London: the first is taken'),
    ],
)
def test_what_could_be_read_otherwise_is_said(text: str, note: str) -> None:
    """B10: never a silent guess."""
    assert read(text).notes == (note,)


def test_of_two_equal_wall_times_the_first_is_taken() -> None:
    """B10: 01:30 in London on 25 October 2026 is 00:30 and 01:30 UTC."""
    assert read("on 2026-10-25 at 01:30").when == Once(ms("2026-10-25T00:30"))


def test_days_are_those_of_the_zone() -> None:
    """B10: in Auckland it is already 23:00, and the 19th is tomorrow all the same."""
    assert read("tomorrow at 08:00", "Pacific/Auckland").when == Once(ms("2026-03-18T19:00"))
    assert read("next thursday at 08:00", "Pacific/Auckland").when == Once(ms("2026-03-18T19:00"))
    late = ms("2026-03-18T11:30")  # 00:30 on Thursday
    assert read("tomorrow at 08:00", "Pacific/Auckland", late).when == Once(ms("2026-03-19T19:00"))
    assert read("every other thursday at 08:00", "Pacific/Auckland", late).when == rrule(
        "FREQ=WEEKLY;INTERVAL=2;BYDAY=TH;BYHOUR=8;BYMINUTE=0", "2026-03-19"
    )


def test_the_grammar_is_loaded_for_english_only() -> None:
    """B10: the package starts without it."""
    code = "import sys, matins; sys.exit(any(name.startswith('matins.engine.english') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
