"""Cron text: what is accepted, what is refused, and in which words."""

from datetime import UTC, datetime, timedelta

import pytest

from matins import CronParseError, parse_trigger

START = datetime(2026, 3, 1, tzinfo=UTC)  # a Sunday


def fires(expression: str, days: int = 31) -> list[str]:
    trigger = parse_trigger(expression)
    return [f"{at:%m-%d %H:%M}" for at in trigger.between(START, START + timedelta(days=days))]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 9 L * *", ["03-31 09:00"]),
        ("0 9 LW * *", ["03-31 09:00"]),
        ("0 9 LW 5 *", []),
        ("0 9 1W * *", ["03-02 09:00"]),  # the 1st is a Sunday: the weekday nearest it is Monday
        ("0 9 28W * *", ["03-27 09:00"]),  # a Saturday: Friday
        ("0 9 * * 5#2", ["03-13 09:00"]),
        ("0 9 * * FRIL", ["03-27 09:00"]),
        ("0 9 * * 7#5", ["03-29 09:00"]),
        ("0 9 1,L * ?", ["03-01 09:00", "03-31 09:00"]),
        ("0 9 13 * 5", ["03-06 09:00", "03-13 09:00", "03-20 09:00", "03-27 09:00"]),
        ("0 9 */10 * 0", ["03-01 09:00"]),  # */10 is 1, 11, 21, 31; of these only the 1st is a Sunday
        ("0 9 1 * */2", ["03-01 09:00"]),
        ("0 9 * MAR MON", ["03-02 09:00", "03-09 09:00", "03-16 09:00", "03-23 09:00", "03-30 09:00"]),
        ("0 9 * * FRI-SUN", [f"03-{d:02} 09:00" for d in (1, 6, 7, 8, 13, 14, 15, 20, 21, 22, 27, 28, 29)]),
        ("0 9 * * 5-7", [f"03-{d:02} 09:00" for d in (1, 6, 7, 8, 13, 14, 15, 20, 21, 22, 27, 28, 29)]),
    ],
)
def test_days(expression: str, expected: list[str]) -> None:
    """P3 H4"""
    assert fires(expression) == expected


def test_seconds_in_front() -> None:
    trigger = parse_trigger("*/20 30 9 * * *")
    day = trigger.between(START, START + timedelta(days=1))
    assert [f"{at:%H:%M:%S}" for at in day] == ["09:30:00", "09:30:20", "09:30:40"]


def test_names_in_any_case() -> None:
    assert fires("0 9 * mar mon") == fires("0 9 * 3 1")


@pytest.mark.parametrize(
    ("expression", "field", "value", "says"),
    [
        ("60 * * * *", "minute", "60", "minute must be 0-59"),
        ("* 24 * * *", "hour", "24", "hour must be 0-23"),
        ("* * 0 * *", "day of month", "0", "day of month must be 1-31"),
        ("* * * 13 *", "month", "13", "month must be 1-12"),
        ("* * * FOO *", "month", "FOO", "month must be 1-12 or JAN-DEC"),
        ("* * * * 8", "day of week", "8", "day of week must be 0-7"),
        ("*/0 * * * *", "minute", "*/0", "minute step must be 1-60, got 0"),
        ("*/x * * * *", "minute", "*/x", 'minute step "x" must be 1-60'),
        ("5/15 * * * *", "minute", "5/15", 'minute "5/15" is a step without a range'),
        ("5-1 * * * *", "minute", "5-1", 'minute range "5-1" runs backwards'),
        ("? * * * *", "minute", "?", 'minute "?": ? stands alone, in the day fields only'),
        ("1,,2 * * * *", "minute", "", "minute must be 0-59"),
        ("* * L-x * *", "day of month", "L-X", 'day of month "L-X" is not L, a dash and a number'),
        ("* * 32W * *", "day of month", "32W", "day of month must be 1-31"),
        ("* * * * L", "day of week", "L", 'day of week "L" needs a day'),
        ("* * * * 5#6", "day of week", "5#6", 'day of week "5#6": a weekday comes 1 to 5 times a month'),
        ("0 0 30 2 *", "day of month", "30", "day of month 30 does not exist in month 2"),
        ("0 0 31 2,4,6,9,11 *", "day of month", "31", "day of month 31 does not exist in month 2,4,6,9,11"),
        ("0 0 30W 2 *", "day of month", "30W", "day of month 30W does not exist in month 2"),
        ("٥ * * * *", "minute", "٥", 'minute has "٥", which is not an ASCII character'),
        ("99999999999999999999 * * * *", "minute", "99999999999999999999", "minute must be 0-59"),
    ],
)
def test_errors_say_field_value_and_range(expression: str, field: str, value: str, says: str) -> None:
    """P3 H7"""
    with pytest.raises(CronParseError) as caught:
        parse_trigger(expression)
    error = caught.value
    assert str(error) == f'Invalid cron expression "{expression}" - {says}'
    assert (error.field, error.value) == (field, value)
    assert error.allowed


@pytest.mark.parametrize("text", ["@reboot", "@never", "* *", "* * * * * * * *", "0 9"])
def test_other_shapes_are_refused(text: str) -> None:
    with pytest.raises(CronParseError) as caught:
        parse_trigger(text)
    assert caught.value.hint


def test_hint_for_a_step_without_a_range() -> None:
    with pytest.raises(CronParseError) as caught:
        parse_trigger("5/15 * * * *")
    assert caught.value.hint == "Write 5-59/15."


@pytest.mark.parametrize(
    "expression", ["0 0 29 2 *", "0 0 30 2 1", "0 0 31W 1 *", "0 0 L 2 *", "0 0 31 * *", "0 0 29 2 */2"]
)
def test_rare_dates_are_not_impossible(expression: str) -> None:
    assert parse_trigger(expression).next_after(START) is not None


@pytest.mark.parametrize(
    ("expression", "gap"),
    [
        ("* * * * *", timedelta(minutes=1)),
        ("*/7 * * * *", timedelta(minutes=4)),
        ("0 9 * * 1-5", timedelta(days=1)),
        ("0 9 * * 1", timedelta(days=7)),
        ("0 9 1 * *", timedelta(days=28)),
        ("0 0 29 2 *", timedelta(days=1461)),
        ("0 9 1,31 * *", timedelta(days=1)),
        ("0 9 31 * *", timedelta(days=31)),
        ("30 23,0 * * *", timedelta(hours=1)),
        ("0 9 * * 1#1", timedelta(days=28)),
        ("0 9 15W * *", timedelta(days=28)),
        ("*/10 * * * * *", timedelta(seconds=10)),
        ("0 0 0 1 1 *", timedelta(days=365)),
    ],
)
def test_v1_smallest_gap_over_the_whole_cycle(expression: str, gap: timedelta) -> None:
    """V1"""
    assert parse_trigger(expression).smallest_gap() == gap


@pytest.mark.parametrize("expression", ["0 0 ?,15 * *", "0 0 15,? * *", "0 0 * * ?,1", "0 0 ?,? * *"])
def test_a_question_mark_stands_alone(expression: str) -> None:
    """P3: in a list it would silently mean every day"""
    with pytest.raises(CronParseError, match=r"\? stands alone") as caught:
        parse_trigger(expression)
    assert str(caught.value.hint).startswith("Write ? or ")


@pytest.mark.parametrize("spelling", ["5#L", "FRI#L", "fri#l", "5L"])
def test_the_last_friday_of_the_month(spelling: str) -> None:
    """H4: `5#L` as cron-parser writes it"""
    assert fires(f"0 9 * * {spelling}") == ["03-27 09:00"]
