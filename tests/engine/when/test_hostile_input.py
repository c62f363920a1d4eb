"""H7, P3, V1, B10: no text hangs or crashes the parser, and what it refuses it refuses by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from cron_texts import days_of_month, days_of_week, months
from hostile_texts import HONEST, NASTY, ZONES, hostile_texts
from hypothesis import HealthCheck, given, settings
from walk import CronText, instant

from matins.engine.when.parse import parse_trigger
from matins.errors import CronParseError

JUDGE = Path(__file__).with_name("judge_input.py")
SEEDS = range(3)
TEXTS_PER_SEED = 200


def judged(questions: list[dict[str, object]]) -> list[dict[str, object]]:
    """What became of each question, in a process of its own."""
    answer = subprocess.run(
        [sys.executable, str(JUDGE)],
        input=json.dumps(questions),
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def faults(questions: list[dict[str, object]]) -> list[str]:
    return faulty(questions, judged(questions))


def faulty(questions: list[dict[str, object]], verdicts: list[dict[str, object]]) -> list[str]:
    """Questions that ended in anything but a trigger or an error with words."""
    assert len(verdicts) == len(questions)
    return [
        f"{question} -> {verdict['outcome']}: {verdict['message']}"
        for question, verdict in zip(questions, verdicts, strict=True)
        if verdict["outcome"] != "trigger" and not (verdict["outcome"] == "refused" and verdict["message"])
    ]


def test_h7_nasty_texts_are_answered() -> None:
    assert faults([{"text": text} for text in NASTY]) == []


def test_h7_nasty_texts_are_answered_in_strict_mode_and_another_zone() -> None:
    questions = [{"text": text, "timezone": "Australia/Lord_Howe", "strict": True} for text in NASTY + HONEST]
    assert faults(questions) == []


def test_s6_nasty_zones_are_refused() -> None:
    questions: list[dict[str, object]] = [{"text": "0 9 * * *", "timezone": zone} for zone in ZONES]
    verdicts = judged(questions)
    assert faulty(questions, verdicts) == []
    assert Counter(verdict["outcome"] for verdict in verdicts) == {"refused": len(ZONES)}


def test_b10_random_texts_are_answered() -> None:
    """A source whose texts were all refused at the first letter would prove nothing: they are of both kinds."""
    questions: list[dict[str, object]] = [
        {"text": text} for seed in SEEDS for text in hostile_texts(seed, TEXTS_PER_SEED)
    ]
    verdicts = judged(questions)
    assert faulty(questions, verdicts) == []
    outcomes = Counter(verdict["outcome"] for verdict in verdicts)
    assert outcomes["trigger"] > 60
    assert outcomes["refused"] > 200


def test_b10_honest_texts_are_understood() -> None:
    verdicts = judged([{"text": text} for text in HONEST])
    assert {text for text, verdict in zip(HONEST, verdicts, strict=True) if verdict["outcome"] != "trigger"} == set()


def refused(text: str) -> CronParseError:
    with pytest.raises(CronParseError) as caught:
        parse_trigger(text, now_ms=0)
    return caught.value


# expression, field, the value that is named, what is allowed there
NAMED = [
    ("*/0 * * * *", "minute", "*/0", "1-60"),
    ("99 * * * *", "minute", "99", "0-59"),
    ("5-1 * * * *", "minute", "5-1", "0-59"),
    ("٥ * * * *", "minute", "٥", "0-59"),
    ("0 25 * * *", "hour", "25", "0-23"),
    ("0 0 0 * *", "day of month", "0", "1-31"),
    ("0 0 32 * *", "day of month", "32", "1-31"),
    ("0 0 * 13 *", "month", "13", "1-12"),
    ("0 0 * * 8", "day of week", "8", "0-7"),
    ("0 0 * * 1#6", "day of week", "1#6", "1-5"),
    ("60 0 0 * * *", "second", "60", "0-59"),
    ("0 0 30 2 *", "day of month", "30", "1-31"),
    ("0 0 31 2,4,6 *", "day of month", "31", "1-31"),
    ("0 12-30 * * *", "hour", "12-30", "0-23"),
    ("0 1,24 * * *", "hour", "24", "0-23"),
]


@pytest.mark.parametrize(("text", "field", "value", "allowed"), NAMED, ids=[row[0] for row in NAMED])
def test_h7_p3_a_cron_error_names_field_value_and_range(text: str, field: str, value: str, allowed: str) -> None:
    error = refused(text)
    assert (error.field, error.value, error.allowed) == (field, value, allowed)
    assert str(error).startswith(f'Invalid cron expression "{text}" - {field}')


SENTENCES = [
    ("0 25 * * *", 'Invalid cron expression "0 25 * * *" - hour must be 0-23'),
    ("* * *", 'Invalid cron expression "* * *" - expected 5 fields, got 3'),
    ("99 * * * *", 'Invalid cron expression "99 * * * *" - minute must be 0-59'),
    ("0 0 * * 8", 'Invalid cron expression "0 0 * * 8" - day of week must be 0-7'),
    ("0 0 * 0 *", 'Invalid cron expression "0 0 * 0 *" - month must be 1-12'),
    ("* * * * * * * *", 'Invalid cron expression "* * * * * * * *" - expected 5 fields, got 8'),
]


@pytest.mark.parametrize(("text", "sentence"), SENTENCES, ids=[row[0] for row in SENTENCES])
def test_h7_a_cron_error_speaks_herdctls_sentence(text: str, sentence: str) -> None:
    assert str(refused(text)) == sentence


@pytest.mark.parametrize("text", ["0 0 30 2 *", "0 0 31 2,4,6 *", "0 0 31 4-6/2,11 ?", "0 0 30W 2 *", "0 0 30 2 */2"])
def test_p3_dates_that_never_come_are_refused(text: str) -> None:
    assert refused(text).field == "day of month"


# A starred day field means that both must match: these days of the month never fall on these days of the week.
NEVER_BOTH = ["0 0 LW * */7", "0 0 15W * */6", "0 0 */31 * 0#5", "0 0 */30 * 1#2", "0 0 */15 2 1L"]


@pytest.mark.parametrize("text", NEVER_BOTH)
def test_p3_days_that_never_meet_are_refused(text: str) -> None:
    assert not CronText(text).is_possible()
    refused(text)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(days_of_month, months, days_of_week)
def test_p3_what_is_accepted_fires_and_what_is_refused_never_would(dom: str, month: str, dow: str) -> None:
    text = f"0 0 {dom} {month} {dow}"
    try:
        trigger = parse_trigger(text, now_ms=0)
    except CronParseError:
        assert not CronText(text).is_possible()
    else:
        assert trigger.next_ms(0) is not None


@pytest.mark.parametrize(
    "text", ["0 0 29 2 *", "0 0 31 2 1", "0 0 30,28 2 *", "0 0 31 */2 *", "0 0 L 2 *", "0 0 29W 2 *"]
)
def test_p3_dates_that_come_seldom_are_accepted(text: str) -> None:
    assert parse_trigger(text, now_ms=0).next_ms(0) is not None


def test_p3_the_29th_of_february_is_found_across_2100() -> None:
    """2100 is no leap year: the next one after 2096 is 2104."""
    at, fires = instant("2090-01-01") * 1000, []
    trigger = parse_trigger("0 0 29 2 *", now_ms=0)
    while len(fires) < 3 and (at := trigger.next_ms(at)) is not None:
        fires.append(at)
    assert fires == [instant(f"{year}-02-29") * 1000 for year in (2092, 2096, 2104)]
