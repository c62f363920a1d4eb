"""The settings of a schedule: what they make, and what is wrong with those that cannot be used."""

from __future__ import annotations

import math
from typing import Any

import pytest

from matins.engine.schedules import SETTINGS, decode, encode, parse_schedule
from matins.engine.when.triggers import Trigger
from matins.errors import InvalidInput
from matins.model.call import OnWebhook
from matins.model.schedule import ScheduleDefinition
from matins.testing import instant

NOW = 1_774_569_600_000
ALL: dict[str, Any] = {
    "job": "report",
    "payload": {"topic": "börse", "depth": [1, 2.5, None, True]},
    "jitter": 2.5,
    "catch_up": "run_all_capped",
    "overlap": "queue",
    "at_capacity": "skip",
    "missing_job": "fail",
    "on_unknown": "hold",
    "catch_up_limit": 3,
    "queue_limit": 7,
    "retries": 4,
    "failure_backoff": "none",
    "held_keeps_capacity": False,
    "max_executions": 9,
    "grace": "1m",
    "retry_delay": "5s",
    "max_retry_delay": "10m",
    "timeout": "2h",
    "ends_at": "2026-12-31T18:00",
    "pause_after_failures": 5,
    "quiet_hours": "night",
    "skip_on": ["2026-12-25"],
    "move_to": "next_day",
    "provider": "anthropic",
    "pre_check": "test -f ready",
    "before_run": ["./may-it", "--run"],
    "after_run": "logger",
    "check_timeout": "5s",
    "approval": "council_approve",
    "approval_jobs": ["report"],
    "approvers": ["ada", "grace"],
    "approvals_required": 2,
    "approval_timeout": "1h",
    "approval_default": "approve",
    "max_cost": "$2",
    "max_tokens": "500k",
    "on": {"webhook": "prs"},
    "description": "the morning's numbers",
    "labels": {"project": "apollo"},
    "notify": ["phone"],
    "notify_on": ["failed", "recovered"],
    "ping": "https://hc.example.com/ping/0f3a",
    "ping_style": "plain",
    "late_after": "15m",
    "slow_after": "1h",
    "deliver": ["phone", "notes"],
    "deliver_on": ["succeeded", "failed"],
    "deliver_if": "changed",
    "attach": ["reports/*.pdf"],
    "model": "small",
    "effort": "high",
    "fresh_after": 20,
    "fresh_after_tokens": "2M",
    "keep": "open questions",
    "workdir": "~/reports",
    "runs_on": ["gpu"],
    "host": "build-1",
    "environment": {"API_KEY": "env:API_KEY"},
}
TRIGGER = {"timezone": "Europe/London", "dst_gap": "skip", "dst_overlap": "both", "strict": True}


def test_every_setting_reaches_the_definition() -> None:
    """B8"""
    definition, trigger = parse_schedule("0 2 * * *", {**ALL, **TRIGGER}, NOW)
    assert definition == ScheduleDefinition(
        trigger=trigger.definition,
        job="report",
        description=ALL["description"],
        labels=ALL["labels"],
        payload=ALL["payload"],
        on=(OnWebhook("prs"),),
        overlap="queue",
        queue_limit=7,
        at_capacity="skip",
        missing_job="fail",
        runs_on=("gpu",),
        host="build-1",
        catch_up="run_all_capped",
        catch_up_limit=3,
        grace_ms=60_000,
        retries=4,
        retry_delay_ms=5_000,
        max_retry_delay_ms=600_000,
        on_unknown="hold",
        timeout_ms=7_200_000,
        jitter=2.5,
        ends_at=instant("2026-12-31T18:00:00Z"),
        max_executions=9,
        late_after_ms=900_000,
        slow_after_ms=3_600_000,
        pause_after_failures=5,
        quiet_hours="night",
        skip_on=("2026-12-25",),
        move_to="next_day",
        provider="anthropic",
        max_cost=2_000_000,
        max_tokens=500_000,
        failure_backoff="none",
        held_keeps_capacity=False,
        fresh_after=20,
        fresh_after_tokens=2_000_000,
        keep="open questions",
        workdir="~/reports",
        environment=(("API_KEY", "env:API_KEY"),),
        pre_check="test -f ready",
        before_run=("./may-it", "--run"),
        after_run="logger",
        check_timeout_ms=5_000,
        approval="council_approve",
        approval_jobs=("report",),
        approvers=("ada", "grace"),
        approvals_required=2,
        approval_timeout_ms=3_600_000,
        approval_default="approve",
        notify=("phone",),
        notify_on=("failed", "recovered"),
        ping="https://hc.example.com/ping/0f3a",
        ping_style="plain",
        deliver=("phone", "notes"),
        deliver_on=("succeeded", "failed"),
        deliver_if="changed",
        attach=("reports/*.pdf",),
        model="small",
        effort="high",
    )
    assert (trigger.timezone, trigger.definition.dst_gap, trigger.definition.dst_overlap) == (
        "Europe/London",
        "skip",
        "both",
    )
    agents = {
        "prompt",
        "command",
        "stdin",
        "prompt_prefix",
        "target",
        "fallback",
        "final_fallback",
        "fallback_timeout",
        "work_source",
        "steps",
        "inputs",
    }  # executors/test_agents, engine/test_steps, service/test_inputs
    assert {*ALL, *TRIGGER, *agents, "anchor", "first"} == set(SETTINGS), "a setting that this test does not know"


@pytest.mark.parametrize("settings", [{"job": "report"}, ALL, {**ALL, **TRIGGER}])
def test_the_store_gives_back_what_was_given(settings: dict[str, Any]) -> None:
    """V7"""
    definition, _ = parse_schedule("0 2 * * *", settings, NOW)
    assert decode(encode(definition)) == definition


def test_only_what_differs_from_the_defaults_is_kept() -> None:
    """V7"""
    assert '"skip"' not in encode(parse_schedule("5m", {"job": "report", "overlap": "skip"}, NOW)[0])


def test_none_is_the_same_as_leaving_it_out() -> None:
    """B8"""
    nothing = {name: None for name in SETTINGS if name != "job"}
    assert parse_schedule("5m", {"job": "report", **nothing}, NOW) == parse_schedule("5m", {"job": "report"}, NOW)


def test_a_trigger_is_as_good_as_its_text() -> None:
    """B8"""
    definition, trigger = parse_schedule("0 2 * * *", {"job": "report"}, NOW)
    assert isinstance(trigger, Trigger)
    assert parse_schedule(trigger, {"job": "report"}, NOW)[0] == definition
    with pytest.raises(InvalidInput, match='"timezone" is part of the trigger already') as caught:
        parse_schedule(trigger, {"job": "report", "timezone": "UTC"}, NOW)
    assert caught.value.field == "timezone"


BAD: list[tuple[str, Any]] = [
    *(
        (name, "sometimes")
        for name in ("catch_up", "overlap", "at_capacity", "missing_job", "on_unknown", "anchor", "first")
    ),
    *((name, "sometimes") for name in ("dst_gap", "dst_overlap", "strict")),
    *((name, value) for name in ("catch_up", "overlap") for value in (1, True, [], "SKIP", "")),
    *(
        (name, value)
        for name in ("catch_up_limit", "queue_limit", "max_executions")
        for value in (0, -1, 1.5, "3", True, 1 << 60)
    ),
    *(("retries", value) for value in (-1, 101, "3", 2.0, False)),
    *(
        (name, text)
        for name in ("grace", "retry_delay", "max_retry_delay", "timeout")
        for text in ("5x", "0s", "-1m", "", "1.5h")
        if (name, text) != ("grace", "0s")
    ),
    *((name, value) for name in ("grace", "timeout") for value in (5, 5.5, True, ["5m"])),
    *(("jitter", value) for value in (-1, 11, "5", math.nan, math.inf, True)),
    *(("description", value) for value in ("", " ", 3)),
    *(("labels", value) for value in ({}, [], "a", {"a": 1}, {1: "a"}, {"": "a"}, {"a": "\n"}, {"a": ""})),
    *(("payload", value) for value in (object(), {1, 2}, {"x": object()}, "\ud800", 1 << 70, "x" * (1 << 20))),
    *(("timezone", value) for value in ("Mars/Olympus", "", 5)),
]


@pytest.mark.parametrize(("name", "value"), BAD, ids=lambda value: str(value)[:20].encode("ascii", "replace").decode())
def test_a_bad_value_is_named_with_its_setting_and_a_hint(name: str, value: object) -> None:
    """B8"""
    with pytest.raises(InvalidInput) as caught:
        parse_schedule("0 2 * * *", {"job": "report", name: value}, NOW)
    assert caught.value.field == name
    assert caught.value.hint
    assert name.replace("timezone", "time zone") in caught.value.message or name == "timezone"
    assert len(caught.value.message) < 400


def test_an_unknown_setting_is_named_with_the_nearest() -> None:
    """B8"""
    with pytest.raises(InvalidInput, match='A schedule has no setting "overlp"') as caught:
        parse_schedule("5m", {"job": "report", "overlp": "skip"}, NOW)
    assert (caught.value.field, caught.value.hint) == ("overlp", 'Did you mean "overlap"?')
    with pytest.raises(InvalidInput) as caught:
        parse_schedule("5m", {"job": "report", "zzzz": 1}, NOW)
    assert "Known: " in str(caught.value.hint)


@pytest.mark.parametrize("job", [5, 0, "", [], "\ud800", "a\nb"])
def test_job_must_be_a_name(job: object) -> None:
    """B8"""
    with pytest.raises(InvalidInput, match='"job" must be text of 1 to 200 printable characters, not ') as caught:
        parse_schedule("5m", {"job": job}, NOW)
    assert (caught.value.field, caught.value.hint) == ("job", 'For example: job="report".')


@pytest.mark.parametrize("settings", [{}, {"job": None}, {"job": None, "prompt": None}])
def test_there_must_be_a_prompt_or_a_job(settings: dict[str, Any]) -> None:
    """B8"""
    with pytest.raises(InvalidInput, match='A schedule needs "prompt", "command", "job" or "steps"') as caught:
        parse_schedule("5m", settings, NOW)
    hint = 'For example: prompt="Summarise my open PRs".'
    assert (caught.value.field, caught.value.hint) == ("job", hint)


@pytest.mark.parametrize("when", [5, b"5m", ["5m"]])
def test_when_must_be_a_text_or_a_trigger(when: Any) -> None:
    """B8"""
    with pytest.raises(InvalidInput, match='"when" must be'):
        parse_schedule(when, {"job": "report"}, NOW)


@pytest.mark.parametrize(
    ("name", "value"), [("description", "x" * 2_001), ("labels", {str(n): "x" for n in range(51)})]
)
def test_too_much_is_refused(name: str, value: Any) -> None:
    """V12"""
    with pytest.raises(InvalidInput) as caught:
        parse_schedule("0 2 * * *", {"job": "report", name: value}, NOW)
    assert caught.value.field == name
