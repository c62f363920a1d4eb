"""What would keep an agent from being woken is found before its hour, all of it, with how to mend it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from matins.engine.policies import NO_POLICIES
from matins.engine.settings import ParseContext, parse_settings
from matins.errors import InvalidInput
from matins.executors.agent_checks import AgentProblem, agent_problems
from matins.executors.registry import runners
from matins.model.agent import Agent
from matins.model.settings import settings_of
from matins.testing import Sandbox
from standin_path import standin_path

HERE = str(Path(__file__).parent)
"""A folder that this user can write; nothing is written."""


@pytest.fixture
def on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", standin_path())


def ann(runner: str, **settings: Any) -> Agent:
    """Also where there is no such runner any more."""
    given = {"runner": runner, **settings}
    return Agent("ann", **parse_settings("An agent", settings_of(Agent), given, ParseContext(0)))


def problems(runner: str, **settings: Any) -> list[AgentProblem]:
    return agent_problems(ann(runner, **settings), runners(), workdir=HERE)


@pytest.mark.usefixtures("on_path")
@pytest.mark.parametrize("runner", ["claude", "codex", "gemini", "goose", "opencode", "qwen", "demo", "shell"])
def test_b4_nothing_is_wrong(runner: str) -> None:
    """B4"""
    assert problems(runner) == []


@pytest.mark.parametrize(
    ("words", "what", "fix"),
    [
        ({"runner": "claude", "environment": {"PATH": "/nowhere"}}, '"claude" is not on PATH', "Install it"),
        ({"runner": "shell", "command": ["no-such-tool"]}, '"no-such-tool" is not on PATH', "full path"),
        ({"runner": "demo", "workdir": "/no/such/place"}, "/no/such/place is not a folder", "mkdir -p /no/such/place"),
        ({"runner": "demo", "environment": {"K": "env:NOT_SET_HERE"}}, "the environment has no NOT_SET_HERE", "Put "),
        ({"runner": "demo", "environment": {"K": "file:/no/key"}}, "/no/key cannot be read", "Check the path"),
        ({"runner": "demo", "url": "http://169.254.169.254/v1"}, "metadata", ""),
        ({"runner": "demo", "url": "gopher://example.org"}, "gopher", ""),
        ({"runner": "demo", "model": "m"}, 'does not support "model"', "Omit it"),
        ({"runner": "sorcery"}, 'There is no runner "sorcery".', "Known: claude"),
    ],
)
def test_b4_each_thing_that_is_wrong(words: dict[str, Any], what: str, fix: str) -> None:
    """B4"""
    (finding,) = problems(**words)
    assert what in finding.message
    assert fix in finding.fix
    assert finding.fix


def test_b4_everything_that_is_wrong_at_once(tmp_path: Path) -> None:
    """B4: and what is right is not told"""
    (tmp_path / "key").write_text("tok-4711")
    environment = {"A": "env:NOT_SET_HERE", "B": "file:/no/key", "C": f"file:{tmp_path}/key", "PATH": str(tmp_path)}
    found = problems("codex", workdir=f"{tmp_path}/gone", environment=environment, url="http://127.0.0.1/")
    assert len(found) == 5
    assert "tok-4711" not in str(found)
    assert all(what and fix for what, fix in found)


@pytest.mark.usefixtures("on_path")
@pytest.mark.parametrize(
    ("runner", "model", "what"),
    [
        ("codex", "gpt-5.5", None),
        ("codex", "my-own-7b", 'codex reports only tokens, and "my-own-7b" has no price'),
        ("codex", None, "codex reports only tokens, without the model"),
        ("goose", None, "goose reports only tokens, without the model"),
        ("gemini", None, None),
        ("gemini", "my-own-7b", 'gemini reports only tokens, and "my-own-7b" has no price'),
        ("claude", "my-own-7b", None),
        ("shell", None, "shell does not report what it spends"),
    ],
)
def test_b4_a_limit_of_money_that_cannot_hold(runner: str, model: str | None, what: str | None) -> None:
    """B4"""
    words = {"model": model} if model else {"command": ["cat"]} if runner == "shell" else {}
    agent = ann(runner, **words)
    limited = replace(agent, max_cost=2_000_000)
    assert agent_problems(agent, runners(), workdir=HERE, prices=NO_POLICIES.prices) == []
    found = agent_problems(limited, runners(), workdir=HERE, prices=NO_POLICIES.prices)
    assert [finding.message for finding in found] == (
        [] if what is None else [f'"max_cost" cannot be enforced: {what}.']
    )
    assert all(finding.fix for finding in found)


def test_an_owners_own_hosts_are_allowed() -> None:
    """B4"""
    agent = ann("demo", url="http://127.0.0.1:9000/")
    assert len(agent_problems(agent, runners(), workdir=HERE)) == 1
    assert agent_problems(agent, runners(), workdir=HERE, allowed_hosts=["127.0.0.1:9000"]) == []


@pytest.mark.usefixtures("on_path")
def test_nothing_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B4: to look costs nothing"""
    tool = tmp_path / "canary"
    tool.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    tool.chmod(0o755)
    assert problems("shell", command=[str(tool)]) == []
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("runner", ["claude", "codex", "qwen", "shell", "http"])
def test_b4_an_option_that_the_runner_does_not_have_is_refused_at_once(runner: str) -> None:
    """B4: not when its first run is prepared, or never"""
    with closing(Sandbox()) as bench:
        with pytest.raises(InvalidInput, match='The runner has no option "temprature"'):
            bench.agents.set("scout", runner=runner, options={"temprature": 1})
        with pytest.raises(InvalidInput, match='The runner has no option "temprature"'):
            bench.agents.set("scout", runner="openai", model="m", url="https://x.test", options={"temprature": 1})
        bench.agents.set("scout", runner="openai", model="m", url="https://x.test", options={"temperature": 1})
