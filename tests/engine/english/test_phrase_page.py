"""B10: every example in docs/phrases.md is read, or refused, as the page says."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from matins.engine.english.phrases import parse_phrase
from matins.engine.when.definitions import clock_text, wall_text
from matins.engine.when.durations import format_duration
from matins.engine.when.triggers import compile_trigger
from matins.engine.when.zones import load_zone
from matins.errors import PhraseError
from matins.model.trigger import Cron, Daily, Interval, Once, Rrule, TriggerDefinition, Weekly, When

PAGE = Path(__file__).parents[3] / "docs" / "phrases.md"
GRAMMAR = Path(__file__).parents[3] / "src" / "matins" / "engine" / "english" / "phrases.ebnf"
NOW = datetime(2026, 3, 18, 10, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)
DAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
ACCEPTED = re.compile(r"^\| `([^`]+)` \| (\w{3} \d\d? \w+ \d{4}, [\d:]+) \| (.+) \|$", re.MULTILINE)
REFUSED = re.compile(r"^\| `([^`]+)` \| ([^|]+) \| ((?:Did you mean|Make|Write it like)[^|]+) \|$", re.MULTILINE)
TEXT = PAGE.read_text(encoding="utf-8")


def kept_as(when: When) -> str:
    match when:
        case Interval(every_ms):
            return f"interval `{format_duration(every_ms)}`"
        case Cron(expression):
            return f"cron `{expression}`"
        case Daily(times):
            return f"daily at {clocks(times)}"
        case Weekly(days, times):
            return f"weekly on {' '.join(DAYS[day] for day in days)} at {clocks(times)}"
        case Rrule(rule, start_wall):
            return f"`{rule}` from {wall_text(start_wall)[:10]}"
        case Once():
            return "once"


def clocks(times: tuple[int, ...]) -> str:
    return " ".join(map(clock_text, times))


def first_fire(when: When) -> str:
    at = compile_trigger(TriggerDefinition(when)).next_ms(NOW_MS)
    assert at is not None
    fire = NOW + timedelta(milliseconds=at - NOW_MS)
    clock = fire.strftime("%H:%M:%S").removesuffix(":00")
    return f"{fire:%a} {fire.day} {fire:%B %Y}, {clock}"


@pytest.mark.parametrize(("text", "fire", "kept"), ACCEPTED.findall(TEXT))
def test_an_example_fires_as_the_page_says(text: str, fire: str, kept: str) -> None:
    """B10: the first fire, and what the phrase is kept as."""
    when = parse_phrase(text, now_ms=NOW_MS, zone=load_zone("UTC")).when
    assert (first_fire(when), kept_as(when)) == (fire, kept)


@pytest.mark.parametrize(("text", "message", "hint"), REFUSED.findall(TEXT))
def test_an_example_is_refused_as_the_page_says(text: str, message: str, hint: str) -> None:
    """B10: word for word."""
    with pytest.raises(PhraseError) as caught:
        parse_phrase(text, now_ms=NOW_MS, zone=load_zone("UTC"))
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_every_row_of_every_table_is_tried() -> None:
    """B10: a row in another shape would be an example that nobody checks."""
    rows = re.findall(r"^\| `", TEXT, re.MULTILINE)
    assert len(rows) == len(ACCEPTED.findall(TEXT)) + len(REFUSED.findall(TEXT))
    assert len(ACCEPTED.findall(TEXT)) >= 30
    assert len(REFUSED.findall(TEXT)) >= 10


def test_the_page_leads_to_the_grammar() -> None:
    """B10: published means that a reader can find it."""
    named = re.search(r"`(src/\S+phrases\.ebnf)`", TEXT)
    assert named is not None
    assert PAGE.parents[1] / named[1] == GRAMMAR
