"""How each runner passes the effort to its tool."""

from __future__ import annotations

import pytest

from matins.errors import InvalidInput
from matins.executors.registry import runners
from matins.executors.runners.openai import OpenAI
from matins.executors.runners.protocol import EndpointRunner, RunnerRequest
from matins.executors.runners.request_checks import check_effort


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("claude", ("--effort=high",)),
        ("codex", ("-c", 'model_reasoning_effort="high"')),
        ("opencode", ("--variant=high",)),
        ("goose", ()),
    ],
)
def test_b22_the_effort_is_passed_as_the_tool_expects_it(name: str, words: tuple[str, ...]) -> None:
    """B22: and without one, nothing of it is there"""
    runner = runners()[name]
    assert not isinstance(runner, EndpointRunner)
    plain = runner.command(RunnerRequest("Look", "/tmp"))
    command = runner.command(RunnerRequest("Look", "/tmp", effort="high"))
    added = [word for word in command.argv if word not in plain.argv]
    assert [*added] == [word for word in words if word not in plain.argv]
    assert command.env_add.get("GOOSE_THINKING_EFFORT") == ("high" if name == "goose" else None)
    assert "GOOSE_THINKING_EFFORT" not in plain.env_add


def test_b22_an_endpoint_gets_the_effort_over_the_option() -> None:
    """B22: what is chosen for a run goes over the agent's options"""
    call = RunnerRequest("Look", "/tmp", "gpt-5", "high", options={"reasoning_effort": "low"})
    assert OpenAI().request(call, [])["reasoning_effort"] == "high"


@pytest.mark.parametrize("name", ["gemini", "qwen", "shell", "demo"])
def test_b22_a_runner_without_efforts_refuses_them(name: str) -> None:
    with pytest.raises(InvalidInput, match="has no setting for the effort"):
        check_effort(runners()[name], "high")
