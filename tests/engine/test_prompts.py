"""What an agent is told."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matins.engine.prompts import (
    DEFAULT_PROMPT,
    FIELDS,
    PromptContext,
    WorkItem,
    build_prompt,
    check_fields,
    check_prompt_text,
    fenced,
)
from matins.errors import InvalidInput

FIRE = PromptContext("nightly", "scout", 7, 1, "2026-03-27T09:00:00+00:00", 0, 1, "succeeded")
WORK = WorkItem("tasks", "T-1", "Mend the door", "It squeaks.", "https://example.org/1", ("home", "urgent"))


def test_c3_the_prefix_is_added() -> None:
    """C3"""
    assert build_prompt("Check GPU status and report", FIRE) == "[Scheduled Task] Check GPU status and report"


def test_h9_the_default_prompt() -> None:
    """H9"""
    assert build_prompt(None, FIRE) == f"[Scheduled Task] {DEFAULT_PROMPT}"


def test_h9_the_work_item_follows_the_prompt() -> None:
    """H9"""
    prompt = build_prompt("Do this.", FIRE._replace(work=WORK))
    assert prompt.startswith("[Scheduled Task] Do this.\n\nWork item T-1 of tasks:\n<data ")
    for part in ("Title: Mend the door", "Link: https://example.org/1", "Labels: home, urgent", "It squeaks."):
        assert part in prompt


def test_the_fire_can_be_named() -> None:
    """H9"""
    fire = FIRE._replace(late_ms=90_000, slots=3)
    prompt = build_prompt("{{schedule}} {{ slot }} {{lateness}} {{slots}} {{last_outcome}} {{run}} {{attempt}}", fire)
    assert prompt == "[Scheduled Task] nightly 2026-03-27T09:00:00+00:00 90s 3 succeeded 7 1"
    assert build_prompt("{{slot}} {{last_outcome}} {{lateness}}", PromptContext("s", "a", 1, 1, None, 0, 1, None)) == (
        "[Scheduled Task] now, by hand none yet 0s"
    )


def test_a_prompt_that_names_the_work_has_it_once() -> None:
    """H9"""
    prompt = build_prompt("Work on {{work.id}}: {{work.title}}", FIRE._replace(work=WORK))
    assert prompt.count("Mend the door") == 1
    assert "It squeaks" not in prompt


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_can_be_filled(name: str) -> None:
    """H9"""
    check_fields(f"{{{{{name}}}}}", has_work=True, field="prompt")
    assert "{{" not in build_prompt(f"{{{{{name}}}}}", FIRE._replace(work=WORK))


@given(st.text())
def test_what_others_wrote_cannot_leave_its_fence(text: str) -> None:
    """H9: an injected end of the fence is only text"""
    hostile = fenced("work item", text)
    again = fenced("work item", hostile)
    mark = re.match(r"<data (\w+)", again)
    assert mark is not None
    assert again.count(mark[1]) == 2
    assert again.endswith(f"<end of data {mark[1]}>")


def test_fields_in_the_work_are_not_filled() -> None:
    """H9: only the schedule's own words are a template"""
    prompt = build_prompt("Do {{work.title}}", FIRE._replace(work=WORK._replace(title="{{agent}} {{last_outcome}}")))
    assert "{{agent}} {{last_outcome}}" in prompt


@pytest.mark.parametrize(
    ("prompt", "message", "hint"),
    [
        ("", "must be text", "For example: prompt="),
        (None, "must be text", "For example: prompt="),
        ("a\0b", "contains a NUL", "Remove it."),
        ("x" * ((1 << 20) + 1), "at most 1048576 characters, not 1048577", "Shorten it."),
        ("{{slto}}", "unknown placeholder: {{slto}}", "Did you mean {{slot}}?"),
        ("{{zzz}}", "unknown placeholder: {{zzz}}", "Known: schedule"),
        ("{{work.title}}", "no work source", "work_source="),
    ],
)
def test_prompts_that_cannot_be_used(prompt: object, message: str, hint: str | None) -> None:
    """H9"""
    with pytest.raises(InvalidInput, match=re.escape(message)) as caught:
        check_fields(check_prompt_text(prompt), has_work=False, field="prompt")
    assert caught.value.field == "prompt"
    assert hint is None or hint in (caught.value.hint or "")
