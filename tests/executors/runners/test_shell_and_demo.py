"""The runners that need no agent: a command of one's own, and the one that comes with Matins."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from driving import Driver, read

from matins.coding_tools.demo import Demo, report
from matins.errors import InvalidInput
from matins.executors.processes.output import matches
from matins.executors.runners.builtin import Shell

PYTHON = sys.executable
ECHO = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"


@pytest.mark.parametrize("prompt", ["Water the plants", "", "-n", 'a "b" $HOME\n', "schön\n\n🪴"])
def test_a_command_reads_the_prompt_and_its_output_is_the_text(prompt: str, driver: Driver) -> None:
    result = driver.run(Shell(), prompt, extra_args=(PYTHON, "-c", ECHO)).told
    assert (result.executed, result.succeeded, result.error) == (True, True, None)
    assert result.text.strip("\n") == prompt.strip("\n")
    assert (result.session, result.turns, result.cost_usd, result.limit) == (None, None, None, None)


def test_b4_the_exit_code_of_a_command_decides(driver: Driver) -> None:
    result = driver.run(Shell(), extra_args=("sh", "-c", "echo half; exit 3")).told
    assert (result.executed, result.succeeded) == (True, False)
    assert (result.error, result.text) == ("the command ended with exit code 3", "half\n")


def test_a_command_that_was_killed_is_not_executed(driver: Driver) -> None:
    driven = driver.run(Shell(), extra_args=("sh", "-c", "kill -9 $$"))
    assert driven.exit_code == -9
    assert (driven.told.executed, driven.told.succeeded) == (False, False)
    assert not read(Shell().reader(), [b"x"], None).executed


def test_a_script_file_runs_in_the_workdir(driver: Driver) -> None:
    script = driver.workdir / "report.sh"
    script.write_text("pwd; cat", encoding="utf-8")
    result = driver.run(Shell(), "hello", extra_args=("sh", "report.sh")).told
    assert result.text == f"{driver.workdir}\nhello\n"


def test_no_shell_reads_the_words_of_a_command(driver: Driver) -> None:
    hostile = "$(touch canary) `touch canary`; touch canary & > canary"
    result = driver.run(Shell(), extra_args=("printf", "%s", hostile)).told
    assert result.text == hostile + "\n"
    assert list(driver.workdir.iterdir()) == []


@pytest.mark.parametrize(
    ("outcome", "code", "succeeded"), [("failed", 0, False), ("nothing", 0, True), ("nothing", 1, False)]
)
def test_b4_a_command_declares_too(outcome: str, code: int, succeeded: bool, driver: Driver) -> None:
    words = f'echo did it; echo \'{{"matins": {{"outcome": "{outcome}"}}}}\'; exit {code}'
    result = driver.run(Shell(), extra_args=("sh", "-c", words)).told
    assert (result.executed, result.succeeded, result.declared) == (True, succeeded, outcome)
    assert (result.text, bool(result.error)) == ("did it", not succeeded)


def test_output_that_is_json_is_structured(driver: Driver) -> None:
    assert driver.run(Shell(), extra_args=("echo", '{"n": [1, 2]}')).told.structured == {"n": [1, 2]}


def test_b9_a_flood_keeps_its_end(driver: Driver) -> None:
    words = "i=0; while [ $i -lt 3000 ]; do printf '%01000d\\n' $i; i=$((i+1)); done; echo the end"
    result = driver.run(Shell(), extra_args=("sh", "-c", words)).told
    assert len(result.text) == 1_000_000
    assert result.text.endswith("2999\nthe end\n")


def test_bytes_that_are_not_utf8_are_shown_as_such(driver: Driver) -> None:
    assert driver.run(Shell(), extra_args=("printf", r"a\377b\000c\nd")).told.text == "a\ufffdb\ufffdc\nd\n"


# -- the agent that comes with Matins


def test_the_demo_agent_runs_without_any_tool(driver: Driver) -> None:
    """C3, B4: it is woken with the prompt, and reports."""
    driven = driver.run(Demo(), "[Scheduled Task] Water the plants")
    result = driven.told
    assert (driven.exit_code, driven.errors) == (0, "")
    assert (result.executed, result.succeeded, result.turns) == (True, True, 1)
    assert (result.tokens_in, result.tokens_out, result.tokens_cached, result.cost_usd, result.cost_reported) == (
        0,
        0,
        0,
        0,
        True,
    )
    assert "“[Scheduled Task] Water the plants”" in result.text
    assert result.session
    assert driver.run(Demo(), "[Scheduled Task] Water the plants").told == result


def test_the_demo_agent_keeps_the_session_it_is_given(driver: Driver) -> None:
    assert driver.run(Demo(), new_session="mornings").told.session == "mornings"
    assert driver.run(Demo(), session="mornings").told.session == "mornings"


def test_the_last_line_of_the_demo_agent_is_its_final_event(driver: Driver) -> None:
    finals = Demo().command(driver.call("x")).finals
    lines = driver.run(Demo(), "x").lines
    assert [any(matches(pattern, line) for pattern in finals) for line in lines] == [False, False, True]


def test_nothing_in_the_workdir_stands_in_for_the_demo_agent(driver: Driver) -> None:
    for name in ("matins.py", "json.py", "argparse.py"):
        Path(driver.workdir / name).write_text("raise SystemExit(9)", encoding="utf-8")
    assert driver.run(Demo()).told.succeeded


def test_what_the_demo_agent_says() -> None:
    assert report("hello").startswith("Good to be awake. I was given one word: “hello”")
    assert "I was given 40 words" in report("word\n" * 40)
    assert max(map(len, report("word " * 1_000).splitlines())) < 140
    assert "There was no prompt" in report(" \n")


@pytest.mark.parametrize("word", ["model", "permission_mode", "extra_args"])
def test_the_demo_agent_has_no_use_for_the_words_of_others(word: str, driver: Driver) -> None:
    with pytest.raises(InvalidInput, match="does not support") as refused:
        Demo().check(driver.call("x", **{word: ("x",) if word == "extra_args" else "x"}))
    assert refused.value.field == word
