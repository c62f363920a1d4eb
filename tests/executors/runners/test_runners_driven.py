"""Every runner against the program that stands in for its tool: real processes, each fault that tools have shown."""

from __future__ import annotations

import contextlib
import os
import signal
import uuid

import pytest
from driving import TOOLS, Driver, read

from matins.executors.processes.output import matches
from matins.executors.runners.protocol import Limit, Runner, RunnerResult

PROMPT = "Water the plants"
FRESH = {name: str(uuid.UUID(int=7)) if name in ("claude", "goose", "qwen") else None for name in TOOLS}
SPENT = {  # tokens in, out, cached; dollars
    "claude": (110, 40, 1_000, 0.0123),
    "codex": (200, 50, 800, None),
    "gemini": (300, 60, 700, None),
    "goose": (400, 50, 100, None),
    "opencode": (800, 50, 1_400, 0.008),
    "qwen": (400, 40, 600, None),
}
TURNS = {"claude": 2, "codex": None, "gemini": None, "goose": None, "opencode": 2, "qwen": 1}
RESETS_AT = 1_900_000_000_000


def text_of(driver: Driver, prompt: str = PROMPT, before: str = "nothing") -> str:
    return f"I was asked: {prompt}\nBefore that: {before}\nIn: {driver.workdir}"


def spent(result: RunnerResult) -> tuple[int, int, int, float | None]:
    return result.tokens_in, result.tokens_out, result.tokens_cached, result.cost_usd


def test_b4_one_vocabulary_for_what_every_tool_tells(tool: Runner, driver: Driver) -> None:
    driven = driver.run(tool, new_session=FRESH[tool.name])
    result = driven.told
    assert (result.executed, result.succeeded, result.error, result.limit) == (True, True, None, None)
    assert result.text == text_of(driver)
    assert spent(result) == SPENT[tool.name]
    assert result.cost_reported == (SPENT[tool.name][3] is not None)
    assert result.turns == TURNS[tool.name]
    assert (result.denials, result.declared, result.reason, result.structured) == ((), None, None, None)
    assert driven.exit_code == 0


@pytest.mark.parametrize(
    "prompt",
    [
        "[Scheduled Task] Water the plants",
        '--version -p "it\'s $HOME" `whoami` $(touch canary); & | > canary\\\ntwo\r\n\t lines 🪴 \u202e\x07\n',
        "-" + "x" * 300_000,
    ],
    ids=["plain", "hostile", "long"],
)
def test_a_prompt_arrives_as_it_is_and_never_in_the_arguments(prompt: str, tool: Runner, driver: Driver) -> None:
    """C3: the prompt, with its prefix, is the agent's whole input."""
    command = tool.command(driver.call(prompt))
    assert command.stdin == prompt.encode()
    assert command.argv == tool.command(driver.call("something else")).argv
    result = driver.run(tool, prompt).told
    assert result.succeeded
    assert result.text == text_of(driver, prompt)
    assert list(driver.workdir.iterdir()) == []


def test_success_needs_the_final_event_not_the_exit_code(tool: Runner, driver: Driver) -> None:
    """B4"""
    driven = driver.run(tool, fault="no_final")
    assert driven.exit_code == 0
    assert (driven.told.executed, driven.told.succeeded) == (False, False)
    assert driven.told.error == f"{tool.name} ended with exit code 0 before its final event"
    assert driven.told.text == text_of(driver)


@pytest.mark.parametrize("fault", ["fails", "exit0_failed"])
def test_b4_a_failure_is_one_whatever_the_exit_code(fault: str, tool: Runner, driver: Driver) -> None:
    driven = driver.run(tool, fault=fault)
    assert not driven.told.succeeded
    assert driven.told.limit is None
    assert any(
        word in (driven.told.error or "") for word in ("400", "too long", "closed the connection", "disconnected")
    )
    assert fault == "fails" or driven.exit_code == 0


@pytest.mark.parametrize("fault", ["garbage", "floods", "big_line", "repeats_final"])
def test_noise_changes_nothing_that_is_told(fault: str, tool: Runner, driver: Driver) -> None:
    """B4, B9: nor is anything counted twice."""
    driven = driver.run(tool, fault=fault)
    result = driven.told
    assert (result.succeeded, result.text, spent(result)) == (True, text_of(driver), SPENT[tool.name])
    assert (result.turns, result.denials, result.limit) == (TURNS[tool.name], (), None)
    finals = tool.command(driver.call(PROMPT)).finals
    assert sum(any(matches(pattern, line) for pattern in finals) for line in driven.lines) == 1 + (
        fault == "repeats_final"
    )


def test_bytes_that_are_not_utf8_stay_inside_their_text(tool: Runner, driver: Driver) -> None:
    driven = driver.run(tool, fault="partial_utf8")
    assert b"\xff\xfe\xe2\x82" in b"".join(driven.lines)
    assert driven.told.succeeded
    assert "In: \ufffd\ufffd\ufffd " in driven.told.text
    assert spent(driven.told) == SPENT[tool.name]


def test_b6_a_provider_that_refuses_is_a_limit(tool: Runner, driver: Driver) -> None:
    result = driver.run(tool, fault="rate_limit").told
    assert not result.succeeded
    assert result.limit is not None
    assert result.limit.provider == tool.provider
    assert result.limit.reason
    if tool.name == "opencode":  # it is told how long to wait, not until when
        assert result.limit.until(1_000) == 91_000
    else:
        assert result.limit.until(1_000) == result.limit.resets_at == RESETS_AT


def test_what_was_denied_is_listed(tool: Runner, driver: Driver) -> None:
    result = driver.run(tool, fault="denial").told
    assert result.succeeded
    assert len(result.denials) == 1
    assert "rm -rf build" in result.denials[0]
    assert result.text == text_of(driver)


@pytest.mark.parametrize(
    ("fault", "succeeded", "declared", "reason"),
    [
        ("declares_failed", False, "failed", "the tests do not pass"),
        ("declares_nothing", True, "nothing", "no new mail"),
    ],
)
def test_b4_an_agent_declares_how_it_went(
    fault: str, succeeded: bool, declared: str, reason: str, tool: Runner, driver: Driver
) -> None:
    result = driver.run(tool, fault=fault).told
    assert (result.executed, result.succeeded) == (True, succeeded)
    assert (result.declared, result.reason) == (declared, reason)
    assert result.error == (None if succeeded else reason)
    assert result.text == text_of(driver)


def test_a_tool_that_never_exits_has_told_everything(tool: Runner, driver: Driver) -> None:
    """B9: the patterns find the final event, and no other line."""
    finals = tool.command(driver.call(PROMPT)).finals
    lines: list[bytes] = []
    with driver.running(tool, PROMPT, "never_exits") as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if any(matches(pattern, line) for pattern in finals):
                break
        assert process.poll() is None
        result = read(tool.reader(), lines, None)
    assert result.succeeded
    assert spent(result) == SPENT[tool.name]


def test_a_tool_that_hangs_is_not_executed(tool: Runner, driver: Driver) -> None:
    with driver.running(tool, PROMPT, "hang") as process:
        assert process.stdout is not None
        first = process.stdout.readline()
    result = read(tool.reader(), [first], None)
    assert (result.executed, result.succeeded) == (False, False)
    assert result.error == f"{tool.name} was ended before its final event"


def test_a_child_may_fork_away(tool: Runner, driver: Driver) -> None:
    """B9: the stand-in leaves a process behind, in a session of its own, for whoever owns the tree to find."""
    result = driver.run(tool, fault="forks_away").told
    assert result.succeeded
    daemon = int((driver.home / "daemon.pid").read_text(encoding="ascii"))
    try:
        assert os.getsid(daemon) not in (os.getsid(0), daemon)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(daemon, signal.SIGKILL)


def test_a_slow_tool_is_read_like_a_quick_one(driver: Driver) -> None:
    assert driver.run(TOOLS["codex"], fault="slow").told.succeeded


# -- sessions


def test_b4_a_session_goes_on(tool: Runner, driver: Driver) -> None:
    first = driver.run(tool, "My name is Ada", new_session=FRESH[tool.name]).told
    session = first.session or FRESH[tool.name]
    assert session is not None
    assert FRESH[tool.name] in (None, session)
    second = driver.run(tool, "What is my name?", session=session).told
    assert second.succeeded
    assert second.text == text_of(driver, "What is my name?", before="My name is Ada")
    assert second.session in (None, session)


def test_fresh_sessions_know_nothing_of_each_other(tool: Runner, driver: Driver) -> None:
    driver.run(tool, "My name is Ada")
    assert driver.run(tool, "What is my name?").told.text == text_of(driver, "What is my name?")


def test_a_session_that_is_gone_is_a_failure(tool: Runner, driver: Driver) -> None:
    """opencode exits with 0 then, and says nothing on stdout."""
    driven = driver.run(tool, session="ses_00000000-0000-4000-8000-000000000000")
    assert not driven.told.succeeded
    assert driven.told.error
    assert driven.exit_code != 0 or tool.name == "opencode"
    assert "ses_00000000" in driven.errors + driven.told.error


def test_tokens_of_a_whole_session_are_told_as_such(tool: Runner, driver: Driver) -> None:
    """B4: some count what earlier runs spent; what this run spent is the difference."""
    first = driver.run(tool, new_session=FRESH[tool.name]).told
    second = driver.run(tool, session=first.session or FRESH[tool.name]).told
    totals = {"claude": {"cost"}, "codex": {"tokens"}, "goose": {"tokens"}, "qwen": {"tokens"}}
    assert first.cumulative == second.cumulative == totals.get(tool.name, set())
    assert spent(second.of_run(first.session_usage)) == SPENT[tool.name]
    assert not second.of_run(first.session_usage).cumulative


# -- what the tool itself refuses


def test_an_unknown_flag_is_a_usage_error(tool: Runner, driver: Driver) -> None:
    driven = driver.run(tool, extra_args=("--no-such-flag",))
    assert driven.exit_code != 0
    assert not driven.told.executed
    assert "--no-such-flag" in driven.errors


@pytest.mark.parametrize("name", ["claude", "goose"])
def test_a_limit_of_turns_says_what_stopped_it(name: str, driver: Driver) -> None:
    result = driver.run(TOOLS[name], "use a tool", max_turns=1).told
    assert (result.executed, result.succeeded, result.stopped_by) == (True, False, "turns")
    assert result.error


def test_goose_may_tell_only_a_total(driver: Driver) -> None:
    result = driver.run(TOOLS["goose"], model="only-a-total").told
    assert spent(result) == (550, 0, 0, None)


def test_limits_add_to_now_or_stand_for_themselves() -> None:
    """B6"""
    assert Limit("p", 5_000, "r", 9).until(1_000) == 5_000
    assert Limit("p", None, "r", 9).until(1_000) == 1_009
    assert Limit("p", None, "r").until(1_000) is None
