"""What people type every day: prompts from files, settings without effect, errors for programs, narrow terminals."""

from __future__ import annotations

import json
import traceback
from pathlib import Path

import pytest
from cli_user import User

from matins.errors import InvalidInput


def test_b10_a_prompt_comes_from_a_file_or_from_stdin(user: User, tmp_path: Path) -> None:
    """B10: `@file`, `-`; an empty one is refused, and nothing is added"""
    (tmp_path / "prompt.md").write_text("Review the docs.\n")
    user.types("add", "5m", "-a", "demo", "-n", "a", f"@{tmp_path}/prompt.md")
    user.types("add", "5m", "-a", "demo", "-n", "b", "-", typed="Read the news.\n")
    assert [item["prompt"] for item in user.json("list")] == ["Review the docs.\n", "Read the news.\n"]
    for prompt, message in (("", "must be text that is not blank"), ("@none.md", "none.md cannot be read")):
        assert message in user.complains("add", "5m", "-a", "demo", prompt)
    assert len(user.json("list")) == 2


@pytest.mark.parametrize("payload", ["NaN", '{"a": [Infinity]}', "-Infinity", "1e999"])
def test_b10_a_number_that_json_does_not_have_is_refused(user: User, payload: str) -> None:
    """B10 S7: and nothing is added"""
    assert "payload" in user.complains("add", "5m", "--job", "work", f"--payload={payload}")
    assert user.json("list") == []


@pytest.mark.parametrize(
    ("options", "note"),
    [
        (["--retry-delay", "5s"], '"retry_delay" has no effect: it needs retries.'),
        (["--catch-up-limit", "3"], '"catch_up_limit" has no effect: it needs catch_up: run_all_capped.'),
        (["--anchor", "start"], '"anchor" has no effect: it needs an interval, such as every 5 minutes.'),
        (["--retry-delay", "5s", "--retries", "2"], None),
        (["--catch-up-limit", "3", "--catch-up", "run_all_capped"], None),
    ],
)
def test_b10_a_setting_without_effect_is_said(user: User, options: list[str], note: str | None) -> None:
    """B10"""
    said = user.types("add", "every day at 9am", "--job", "work", *options).stderr
    assert ("has no effect" in said) is (note is not None)
    assert note is None or note in said


def test_b10_an_edit_says_what_has_no_effect_and_what_loses_it(user: User) -> None:
    """B10"""
    user.types("add", "every day at 9am", "--job", "work", "-n", "s", "--retries", "2", "--retry-delay", "5s")
    said = user.types("edit", "s", "--anchor", "start").stderr
    assert said.splitlines()[0] == '"anchor" has no effect: it needs an interval, such as every 5 minutes.'
    assert '"retry_delay" has no effect: it needs retries.' in user.types("edit", "s", "--retries", "0").stderr
    assert "has no effect" not in user.types("edit", "s", "--timeout", "5m").stderr
    assert "has no effect" not in user.types("edit", "s", "--when", "5m").stderr


def test_b10_a_limit_on_an_agent_that_is_not_there_is_said(user: User) -> None:
    """B10: the limit is kept, for the agent may come; `show` says it as well"""
    user.types("agents", "set", "scout", "--runner", "demo")
    note = 'The limit has no effect: there is no agent "scuot". Did you mean "scout"?'
    assert user.types("limits", "set", "agent:scuot", "2").stderr.splitlines()[0] == note
    assert user.json("limits", "show", "agent:scuot")["notes"] == [note]
    for scope in ("agent:scout", "global"):
        assert "no effect" not in user.types("limits", "set", scope, "2").stderr


def test_b10_how_a_time_was_read_is_said_when_it_is_added(user: User) -> None:
    """B10"""
    said = user.types("add", "every day at 9", "--job", "work").stderr
    assert '"at 9" read as 09:00 (24-hour clock)' in said


def test_b10_errors_are_documents_under_json(user: User) -> None:
    """B10: one JSON value on stderr, with the stable code, the field and the hint"""
    failed = user.types("show", "nothing", "--json", code=2)
    assert failed.stdout == ""
    assert json.loads(failed.stderr)["error"]["code"] == "not_found"
    usage = json.loads(user.types("--json", "list", "--stat", "x", code=2).stderr)["error"]
    assert usage["code"] == "usage"
    wrong = json.loads(user.types("add", "evry day at 9am", "--job", "work", "--json", code=2).stderr)["error"]
    assert (wrong["field"], wrong["hint"]) == ("when", 'Did you mean "every day at 9am"?')


def test_b10_a_pipe_needs_a_shell(user: User) -> None:
    """B10: and the command that has one is offered"""
    said = user.complains("agents", "set", "x", "--runner", "shell", "--command", "cat log.txt | grep -c 'a b'")
    assert '"|" would be an argument' in said
    assert """Start a shell for it: sh -c 'cat log.txt | grep -c '"'"'a b'"'"''""" in said


def test_p10_a_long_name_keeps_its_end_and_the_row_its_hour(user: User) -> None:
    """P10: at 80 columns"""
    for end in ("alpha", "omega"):
        name = f"summarise-all-the-open-pull-requests-of-the-team-{end}"
        user.types("add", "every weekday at 9am and 5pm", "--job", "work", "-n", name)
    lines = user.says("list").splitlines()[1:]
    rows = [line for line in lines if not line.startswith(" ")]  # the others continue WHEN
    assert all(len(line) <= 80 for line in lines)
    assert all("(09:00)" in row for row in rows)
    assert [row.split()[0][-5:] for row in rows] == ["alpha", "omega"]


@pytest.mark.parametrize(
    ("when", "rate"),
    [
        ("every weekday at 9am", "5 runs a week"),
        ("every monday at 9am", "1 run a week"),
        ("every day at 9am", "1 run a day"),
        ("every 1 hour", "24 runs a day"),
        ("on the 1st of every month at 9am", "1 run a month"),
    ],
)
def test_p10_counts_are_whole_numbers(user: User, when: str, rate: str) -> None:
    """P10: not 0.7 runs a day"""
    user.types("add", when, "--job", "work", "-n", "s")
    assert user.says("preview", "s").splitlines()[-1].startswith(f"{rate}, cost ")


def test_h12_a_traceback_shows_the_hint() -> None:
    """H12"""
    shown = traceback.format_exception(InvalidInput("It is wrong.", hint="Write it so."))
    assert shown[-1] == "Hint: Write it so.\n"


def test_s6_why_names_the_zone_of_its_dates(user: User) -> None:
    """S6: in the sentences themselves, so on every surface"""
    user.types("add", "every day at 9am", "--job", "work", "-n", "s", "--timezone", "Asia/Tokyo")
    assert user.says("why", "s").startswith(
        "The schedule has not been due yet. Its first slot is 2026-03-28 09:00 JST."
    )
