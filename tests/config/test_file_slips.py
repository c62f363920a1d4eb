"""Slips of people who write the file by hand: each gets the advice that helps. Row C7."""

from __future__ import annotations

import re

import pytest
from config_steps import entries, wrong
from hypothesis import given
from hypothesis import strategies as st

HEAD = "agents:\n  a: {runner: demo}\nschedules:\n  s:\n    agent: a\n"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("when", "*/5 * * * *"),
        ("when", "* * * * *"),
        ("when", "*/5 * * * *  # every five minutes"),
        ("when", "@daily"),
        ("prompt", "Note: check the door"),
        ("prompt", "Do this:"),
        ("prompt", "{{slot}} is over"),
        ("prompt", "[Task] Check the door"),
        ("prompt", "%done today"),
        ("prompt", "`ls` it"),
        ("prompt", "&x is lost otherwise"),
        ("prompt", "!important is lost otherwise"),
        ("prompt", '"Now" is the time'),
        ("prompt", "'don't do it'"),
    ],
)
def test_c7_a_value_that_needs_quotes(name: str, value: str) -> None:
    """C7: the hint is the line as it should be, and that line is read as what was meant"""
    other = "" if name == "when" else "    when: 5m\n"
    (problem,) = wrong(f"{HEAD}{other}    {name}: {value}\n")
    assert f'the value of "{name}" needs quotes' in problem
    corrected = problem.partition("Put it in quotes: ")[2].removesuffix(")")
    found = entries(f"{HEAD}{other}    {corrected}\n")["schedule", "a/s"].settings[name]
    assert found == (value[1:-1] if value[0] == value[-1] == "'" else value.partition("  #")[0])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("prompt", "#1 thing"),
        ("prompt", "# Weekly report"),
        ("prompt", "Mend issue #12 today"),
        ("description", "#1 thing"),
    ],
)
def test_c7_a_value_that_a_comment_ends(name: str, value: str) -> None:
    """C7: # begins a comment: the error says so, and the corrected line is read as what was meant"""
    (problem,) = wrong(f"{HEAD}    when: 5m\n    {name}: {value}\n")
    assert f"schedules.s.{name}: the value " in problem
    assert "because # begins a comment" in problem
    corrected = problem.partition("Put it in quotes: ")[2].removesuffix(")")
    assert entries(f"{HEAD}    when: 5m\n    {corrected}\n")["schedule", "a/s"].settings[name] == value


def test_c7_a_comment_in_place_of_a_value_is_one_error() -> None:
    """C7: also where the setting is required, in a step, and in a list"""
    for text in (
        "    when: #daily\n",
        "    when: 5m\n    steps:\n      - title: #1\n",
        "    when: 5m\n    notify:\n      - #ops\n",
    ):
        (problem,) = wrong(f"{HEAD}{text}")
        assert "because # begins a comment" in problem


def test_c7_a_comment_that_is_meant() -> None:
    """The control: a comment after a value, and one with a space in place of a setting that may be empty"""
    text = "    when: 5m  #often\n    prompt: Look  # once more\n    description: # none yet\n    # prompt: #1\n"
    assert wrong(f"{HEAD}{text}") == []


def test_c7_within_braces() -> None:
    (star,) = wrong("schedules:\n  s: {when: */5 * * * *, job: work}\n")
    assert 'Put it in quotes: when: "…"' in star
    (comma,) = wrong("schedules:\n  s: {when: 0 9 * * 1,3, job: work}\n")
    assert 'A comma ends a value here: put the value of "when" in quotes.' in comma


def test_c7_an_alias_stays_one() -> None:
    """The control: where quotes are not what is missing, they are not the advice"""
    assert "Write it out." in wrong(f"{HEAD}    when: *often\n")[0]
    assert "quotes:" not in wrong("schedules:\n  s: [\n")[0]


@given(st.text(st.characters(codec="utf-8", exclude_categories=("C", "Zl", "Zp")), min_size=1, max_size=40))
def test_c7_no_advice_is_wrong(value: str) -> None:
    """C7: whatever the prompt is: it is read as it was written, or the corrected line is"""
    text = f"{HEAD}    when: 5m\n    prompt: {value}\n"
    for problem in wrong(text):
        if "Put it in quotes: prompt:" in problem:
            corrected = problem.partition("Put it in quotes: ")[2].removesuffix(")")
            meant = entries(f"{HEAD}    when: 5m\n    {corrected}\n")["schedule", "a/s"].settings["prompt"]
            assert meant in value


@pytest.mark.parametrize("section", ["schedules", "budgets", "quiet_hours"])
def test_c7_a_list_with_names(section: str) -> None:
    """C7: `- name:` where the name is a key"""
    (problem,) = wrong(f"{section}:\n  - name: morning\n    when: 5m\n")
    assert "Write morning: in place of - name: morning, with its settings below it." in problem
    assert "in place of each dash" in wrong(f"{section}:\n  - when: 5m\n")[0]


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("schedule: 5m", 'Did you mean "when"?'),
        ("every: 5m", 'Did you mean "when"?'),
        ("task: Check it", 'Did you mean "prompt"?'),
        ("tz: UTC", 'Did you mean "timezone"?'),
        ("retry-delay: 5m", 'Did you mean "retry_delay"?'),
        ("run: ls", 'Did you mean "command"?'),
        ("cwd: /srv", 'Did you mean "workdir"?'),
        ("name: s", "remove this line"),
    ],
)
def test_c7_names_of_other_programs(line: str, advice: str) -> None:
    """C7: what is meant, not the list of everything"""
    when = "" if line.endswith("5m") and "retry" not in line else "    when: 5m\n"
    problems = wrong(f"{HEAD}{when}    {line}\n")
    named = [problem for problem in problems if "there is no" in problem]
    assert len(named) == 1
    assert advice in named[0]
    assert "Known:" not in named[0]


@pytest.mark.parametrize(
    ("setting", "place"),
    [
        ("retries: many", "line 10, column 18: schedules.s.steps[2].retries: "),
        ("timeout: 5x", "line 10, column 18: schedules.s.steps[2].timeout: "),
        ("retrys: 1", "line 10, column 17: schedules.s.steps[2].retrys: "),
        ("after: [Nowhere]", "schedules.s.steps"),
    ],
)
def test_p6_a_wrong_setting_in_a_step(setting: str, place: str) -> None:
    """P6 C7: one error, about that setting, at its place"""
    (problem,) = wrong(f"""\
{HEAD}    when: 5m
    steps:
      - title: Build
      - title: Deploy
        {setting}
""")
    assert place in problem
    assert not re.search(r"A schedule needs|\{\"title\"", problem)
