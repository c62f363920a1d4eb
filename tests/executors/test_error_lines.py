"""What a tool says only on stderr is told too: whoever reads a failed run must not have to look for the file."""

from __future__ import annotations

from pathlib import Path

import office as offices
import pytest
from office import Office

from matins.coding_tools.gemini import Gemini
from matins.executors.runners.outcomes import with_stderr_reason
from matins.executors.runners.protocol import RunnerResult

office = offices.office


def test_b4_a_tool_that_refuses_its_arguments_says_which(office: Office, tmp_path: Path) -> None:
    """B4: found before anything is spent, and told in its own words"""
    m = office.matins
    m.agents.set("ann", runner="codex", arguments=["--no-such-flag"], environment={"STANDIN_HOME": str(tmp_path)})
    m.add("s", when="1d", agent="ann", prompt="Hello")
    run = office.fire("s")
    reason = "codex ended with exit code 2 before its final event: error: unrecognized arguments: --no-such-flag"
    assert run.state == "failed"
    assert run.outcome["error"].startswith(reason)
    assert run.outcome["result"]["tokens"] == {"in": 0, "out": 0, "cached": 0}


def test_b4_a_command_that_fails_says_why(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """B4: without secrets"""
    m = office.matins
    monkeypatch.setenv("MY_TOKEN", "tok-4711-very-secret")
    command = ["sh", "-c", "echo fine; echo no access with $KEY >&2; exit 3"]
    m.agents.set("sh", runner="shell", command=command, environment={"KEY": "env:MY_TOKEN"})
    m.add("s", when="1d", agent="sh", prompt="Hello")
    error = office.fire("s").outcome["error"]
    assert error == "the command ended with exit code 3: no access with [redacted]"


def test_b6_a_limit_that_is_told_on_stderr() -> None:
    """B6: not the agent's failure there either; but whose limit a command of one's own speaks of, nobody knows"""
    reader = Gemini().reader()
    reader.feed_error(b"error: status 429, try again in 30s\n")
    result = reader.close(1)
    assert result.limit is not None
    assert (result.limit.provider, result.limit.until(1_000)) == ("google", 31_000)
    assert with_stderr_reason(FAILED, b"error: status 429, try again in 30s\n").limit is None


FAILED = RunnerResult(False, False, error="it ended")


@pytest.mark.parametrize(
    ("stderr", "error"),
    [
        (b"", "it ended"),
        (b"\n \n", "it ended"),
        (
            b"warning: old\nError: not logged in\n    at main (cli.js:1)\nNode.js v24\n",
            "it ended: Error: not logged in",
        ),
        (b"\x1b[31mfatal\x1b[0m\n", "it ended: fatal"),
        (b"one\ntwo\n", "it ended: two"),
        (b"\xff\xfe broken\n", "it ended: \ufffd\ufffd broken"),
        (b"x" * 10_000, "it ended: " + "x" * 499 + "…"),
    ],
)
def test_the_line_that_tells_most(stderr: bytes, error: str) -> None:
    """B4"""
    assert with_stderr_reason(FAILED, stderr).error == error


def test_what_went_well_has_no_complaint() -> None:
    """B4"""
    result = RunnerResult(True, True)
    assert with_stderr_reason(result, b"warning: something\n") is result
