"""The words of a schedule: what they make, and what is said about words that cannot be used."""

from __future__ import annotations

import math
from typing import Any

import pytest

from matins.engine.schedules import WORDS, decode, define, encode
from matins.engine.when.triggers import Trigger
from matins.errors import InvalidInput
from matins.model.schedule import ScheduleDefinition
from matins.testing import instant

NOW = 1_774_569_600_000
ALL: dict[str, Any] = {
    "do": "report",
    "payload": {"topic": "börse", "depth": [1, 2.5, None, True]},
    "jitter": 2.5,
    "catch_up": "run_all_capped",
    "overlap": "queue",
    "at_capacity": "skip",
    "on_unknown": "hold",
    "cap": 3,
    "queue_limit": 7,
    "retries": 4,
    "max_executions": 9,
    "grace": "1m",
    "retry": "5s",
    "retry_most": "10m",
    "timeout": "2h",
    "ends": "2026-12-31T18:00",
    "pause_after": 5,
    "quiet_hours": "night",
    "provider": "anthropic",
    "pre_check": "test -f ready",
    "before": ["./may-it", "--run"],
    "after": "logger",
    "check_limit": "5s",
    "approval": "council_approve",
    "approval_actions": ["report"],
    "approvers": ["ada", "grace"],
    "approvals_needed": 2,
    "approval_expires": "1h",
    "approval_default": "approve",
    "max_cost": "$2",
    "max_tokens": "500k",
    "about": "the morning's numbers",
    "labels": {"project": "apollo"},
}
TRIGGER = {"timezone": "Europe/London", "dst_gap": "skip", "dst_overlap": "both", "strict": True}


def test_every_word_reaches_the_definition() -> None:
    """B8"""
    definition, trigger = define("0 2 * * *", {**ALL, **TRIGGER}, NOW)
    assert definition == ScheduleDefinition(
        trigger.definition, "report", ALL["payload"], "run_all_capped", 3, 60_000, "queue", 7, "skip", 4, 5_000,
        600_000, "hold", 2.5, 7_200_000, 9, instant("2026-12-31T18:00:00Z"), 5, "night", "anthropic", "test -f ready",
        ("./may-it", "--run"), "logger", 5_000, "council_approve", ("report",), ("ada", "grace"), 2, 3_600_000,
        "approve", 2_000_000, 500_000, about=ALL["about"], labels=ALL["labels"],
    )  # fmt: skip
    assert (trigger.timezone, trigger.definition.dst_gap, trigger.definition.dst_overlap) == (
        "Europe/London",
        "skip",
        "both",
    )
    talking = {"prompt", "target", "fallback", "final_fallback", "wait", "work"}  # tests/executors/test_agents.py
    assert {*ALL, *TRIGGER, *talking, "anchor", "first"} == set(WORDS), "a word that this test does not know"


@pytest.mark.parametrize("words", [{"do": "report"}, ALL, {**ALL, **TRIGGER}])
def test_the_store_gives_back_what_was_said(words: dict[str, Any]) -> None:
    """V7"""
    definition, _ = define("0 2 * * *", words, NOW)
    assert decode(encode(definition)) == definition


def test_only_what_differs_from_the_defaults_is_kept() -> None:
    """V7"""
    assert '"skip"' not in encode(define("5m", {"do": "report", "overlap": "skip"}, NOW)[0])


def test_none_is_the_same_as_leaving_it_out() -> None:
    """B8"""
    nothing = {word: None for word in WORDS if word != "do"}
    assert define("5m", {"do": "report", **nothing}, NOW) == define("5m", {"do": "report"}, NOW)


def test_a_trigger_is_as_good_as_its_text() -> None:
    """B8"""
    definition, trigger = define("0 2 * * *", {"do": "report"}, NOW)
    assert isinstance(trigger, Trigger)
    assert define(trigger, {"do": "report"}, NOW)[0] == definition
    with pytest.raises(InvalidInput, match='"timezone" belongs to the trigger') as caught:
        define(trigger, {"do": "report", "timezone": "UTC"}, NOW)
    assert caught.value.field == "timezone"


BAD: list[tuple[str, Any]] = [
    *((word, "sometimes") for word in ("catch_up", "overlap", "at_capacity", "on_unknown", "anchor", "first")),
    *((word, "sometimes") for word in ("dst_gap", "dst_overlap", "strict")),
    *((word, value) for word in ("catch_up", "overlap") for value in (1, True, [], "SKIP", "")),
    *((word, value) for word in ("cap", "queue_limit", "max_executions") for value in (0, -1, 1.5, "3", True, 1 << 60)),
    *(("retries", value) for value in (-1, 101, "3", 2.0, False)),
    *((word, text) for word in ("grace", "retry", "retry_most", "timeout") for text in ("5x", "0s", "-1m", "", "1.5h")),
    *((word, value) for word in ("grace", "timeout") for value in (5, 5.5, True, ["5m"])),
    *(("jitter", value) for value in (-1, 11, "5", math.nan, math.inf, True)),
    *(("about", value) for value in ("", " ", 3)),
    *(("labels", value) for value in ({}, [], "a", {"a": 1}, {1: "a"}, {"": "a"}, {"a": "\n"}, {"a": ""})),
    *(("payload", value) for value in (object(), {1, 2}, {"x": object()}, "\ud800", 1 << 70, "x" * (1 << 20))),
    *(("timezone", value) for value in ("Mars/Olympus", "", 5)),
]


@pytest.mark.parametrize(("word", "value"), BAD, ids=lambda value: str(value)[:20].encode("ascii", "replace").decode())
def test_a_bad_value_is_named_with_its_word_and_a_hint(word: str, value: object) -> None:
    """B8"""
    with pytest.raises(InvalidInput) as caught:
        define("0 2 * * *", {"do": "report", word: value}, NOW)
    assert caught.value.field == word
    assert caught.value.hint
    assert word.replace("timezone", "time zone") in caught.value.message or word == "timezone"
    assert len(caught.value.message) < 400


def test_an_unknown_word_is_named_with_the_nearest() -> None:
    """B8"""
    with pytest.raises(InvalidInput, match='A schedule has no "overlp"') as caught:
        define("5m", {"do": "report", "overlp": "skip"}, NOW)
    assert (caught.value.field, caught.value.hint) == ("overlp", 'did you mean "overlap"?')
    with pytest.raises(InvalidInput) as caught:
        define("5m", {"do": "report", "zzzz": 1}, NOW)
    assert "known: " in str(caught.value.hint)


@pytest.mark.parametrize("do", [None, "", 5, "\ud800", "a\nb"])
def test_do_must_be_a_name(do: object) -> None:
    """B8"""
    with pytest.raises(InvalidInput, match='needs "do"') as caught:
        define("5m", {"do": do}, NOW)
    assert (caught.value.field, caught.value.hint) == ("do", 'do="record"')


@pytest.mark.parametrize("when", [5, None, b"5m", ["5m"]])
def test_when_must_be_a_text_or_a_trigger(when: Any) -> None:
    """B8"""
    with pytest.raises(InvalidInput, match='"when" must be'):
        define(when, {"do": "report"}, NOW)


@pytest.mark.parametrize(("word", "value"), [("about", "x" * 2_001), ("labels", {str(n): "x" for n in range(51)})])
def test_too_much_is_refused(word: str, value: Any) -> None:
    """V12"""
    with pytest.raises(InvalidInput) as caught:
        define("0 2 * * *", {"do": "report", word: value}, NOW)
    assert caught.value.field == word
