"""The exact command of each runner, and what is refused before anything is started."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from driving import TOOLS, ask_here

from matins.errors import InvalidInput
from matins.executors.runners.builtin import Shell
from matins.executors.runners.openai import OpenAI
from matins.executors.runners.protocol import MatinsServer, Runner, RunnerRequest
from matins.executors.runners.session_files import folder_of
from standin_path import STANDINS

URL = "https://example.com"
SESSION = "0b5c1f6e-3d2a-4c47-9d57-0a1b2c3d4e5f"


def call(prompt: str = "Water the plants", **words: Any) -> RunnerRequest:
    return RunnerRequest(prompt=prompt, workdir="/work", **words)


def argv(name: str, **words: Any) -> str:
    TOOLS[name].check(call(**words))
    return " ".join(TOOLS[name].command(call(**words)).argv)


def test_claude() -> None:
    assert argv("claude") == "claude -p --output-format=stream-json --verbose"
    assert argv("claude", new_session=SESSION).endswith(f"--verbose --session-id={SESSION}")
    assert argv(
        "claude",
        model="opus",
        session=SESSION,
        permission_mode="acceptEdits",
        allowed_tools=("Read", "Bash(git *)"),
        max_turns=5,
        max_cost_usd=0.5,
        extra_args=("--append-system-prompt=-be brief",),
    ) == (
        f"claude -p --output-format=stream-json --verbose --model=opus --resume={SESSION} "
        "--permission-mode=acceptEdits --allowedTools=Read,Bash(git *) --max-turns=5 --max-budget-usd=0.5 "
        "--append-system-prompt=-be brief"
    )


@pytest.mark.parametrize(
    ("cost", "written"), [(2, "2"), (10.0, "10"), (0.000_001, "0.000001"), (1e-5, "0.00001"), (12.345, "12.345")]
)
def test_money_is_written_plainly(cost: float, written: str) -> None:
    assert argv("claude", max_cost_usd=cost).endswith(f" --max-budget-usd={written}")


def test_codex_takes_its_options_before_resume() -> None:
    assert argv("codex") == "codex exec --json --skip-git-repo-check --sandbox=workspace-write -"
    assert argv(
        "codex",
        model="gpt-6-sol",
        session=SESSION,
        permission_mode="read-only",
        extra_args=("-c", "effort=low"),
    ) == (
        "codex exec --json --skip-git-repo-check --sandbox=read-only --model=gpt-6-sol -c effort=low "
        f"resume {SESSION} -"
    )


def test_gemini() -> None:
    assert argv("gemini") == "gemini --output-format=stream-json --approval-mode=auto_edit"
    assert argv(
        "gemini", model="flash", session=SESSION, permission_mode="yolo", allowed_tools=("a", "b"), extra_args=("-d",)
    ) == (
        "gemini --output-format=stream-json --approval-mode=yolo --model=flash "
        f"--resume={SESSION} --allowed-tools=a,b -d"
    )
    assert TOOLS["gemini"].command(call()).env_add == {"GEMINI_CLI_TRUST_WORKSPACE": "true"}


def test_goose_is_given_its_session_by_name_and_its_mode_by_environment() -> None:
    begin = "goose run --instructions=- --quiet --output-format=stream-json"
    assert argv("goose") == f"{begin} --no-session"
    assert argv("goose", new_session="mornings") == f"{begin} --name=mornings"
    assert argv("goose", session="mornings", model="m", max_turns=9, extra_args=("--no-profile",)) == (
        f"{begin} --name=mornings --resume --model=m --max-turns=9 --no-profile"
    )
    assert TOOLS["goose"].command(call()).env_add == {}
    assert TOOLS["goose"].command(call(permission_mode="chat")).env_add == {"GOOSE_MODE": "chat"}


def test_opencode_is_told_its_folder() -> None:
    begin = "opencode run --format=json --print-logs --log-level=ERROR"
    assert argv("opencode") == begin
    assert argv(
        "opencode", model="anthropic/opus", session="ses_1", permission_mode="auto", extra_args=("--agent=plan",)
    ) == (f"{begin} --model=anthropic/opus --session=ses_1 --auto --agent=plan")
    assert argv("opencode", permission_mode="default") == begin
    assert TOOLS["opencode"].command(call()).env_add == {"PWD": "/work"}


def test_what_tells_a_tool_that_it_is_nested_is_dropped() -> None:
    drops = {name: tool.command(call()).env_remove for name, tool in TOOLS.items()}
    assert {"CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT"} <= set(drops["claude"])
    assert all(drops.values())


def test_only_some_tools_take_the_id_of_a_fresh_session() -> None:
    taken = {
        name: any(SESSION in word for word in tool.command(call(new_session=SESSION)).argv)
        for name, tool in TOOLS.items()
    }
    assert taken == {name: tool.chooses_session for name, tool in TOOLS.items()}


# -- refusals that every tool has in common


@pytest.mark.parametrize(
    ("words", "field", "message"),
    [
        ({"prompt": ""}, "prompt", "The prompt is empty"),
        ({"prompt": " \n\t"}, "prompt", "The prompt is empty"),
        ({"prompt": "a\x00b"}, "prompt", "NUL character at position 1"),
        ({"prompt": "a\ud83d"}, "prompt", "lone surrogate"),
        ({"prompt": "x" * 4_000_001}, "prompt", "4,000,001 characters"),
        ({"model": "-rf"}, "model", '"model" must have'),
        ({"model": "a\nb"}, "model", '"model" must have'),
        ({"model": ""}, "model", '"model" must have'),
        ({"session": "--last"}, "session", '"session" must have'),
        ({"session": "a\x00"}, "session", '"session" must have'),
        ({"new_session": "x" * 501}, "new_session", '"new_session" must have'),
        ({"session": "ses_1", "new_session": SESSION}, "new_session", "not both"),
        ({"permission_mode": "yes"}, "permission_mode", 'no permission mode "yes"'),
        ({"extra_args": ("a\x00b",)}, "extra_args", "a NUL or a lone surrogate"),
        ({"extra_args": ("--",)}, "extra_args", "Matins already passes"),
        ({"extra_args": ("-",)}, "extra_args", "Matins already passes"),
        ({"max_turns": 0}, "max_turns", "at least 1"),
        ({"max_cost_usd": 0.0}, "max_cost_usd", "above 0"),
        ({"max_cost_usd": float("nan")}, "max_cost_usd", "above 0"),
        ({"max_cost_usd": float("inf")}, "max_cost_usd", "above 0"),
        ({"allowed_tools": ("--all",)}, "allowed_tools", '"allowed_tools" must have'),
    ],
)
def test_what_no_tool_takes(words: dict[str, Any], field: str, message: str, tool: Runner) -> None:
    with pytest.raises(InvalidInput, match=re.escape(message)) as refused:
        tool.check(call(**words))
    assert refused.value.field == field
    assert refused.value.hint


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("claude", "--output-format=text"),
        ("claude", "--resume=x"),
        ("codex", "resume"),
        ("codex", "--sandbox=danger-full-access"),
        ("gemini", "--prompt=x"),
        ("gemini", "-y"),
        ("goose", "--text=x"),
        ("goose", "--interactive"),
        ("opencode", "--format=default"),
        ("opencode", "--attach=http://example.org"),
    ],
)
def test_further_arguments_cannot_undo_what_matins_gives(name: str, argument: str) -> None:
    with pytest.raises(InvalidInput, match="Matins already passes") as refused:
        TOOLS[name].check(call(extra_args=("--ok", argument)))
    assert (refused.value.field, refused.value.value) == ("extra_args", argument)


@pytest.mark.parametrize(
    ("name", "words", "field", "hint"),
    [
        ("claude", {"permission_mode": "accept_edits"}, "permission_mode", 'Did you mean "acceptEdits"?'),
        ("claude", {"new_session": "mornings"}, "new_session", "UUID"),
        ("claude", {"new_session": SESSION.replace("-", "")}, "new_session", "UUID"),
        ("codex", {"allowed_tools": ("shell",)}, "allowed_tools", "permission_mode"),
        ("codex", {"max_turns": 5}, "max_turns", "Use a timeout"),
        ("codex", {"permission_mode": "auto"}, "permission_mode", "workspace-write"),
        ("gemini", {"max_turns": 5}, "max_turns", "maxSessionTurns"),
        ("goose", {"allowed_tools": ("developer",)}, "allowed_tools", "--with-builtin"),
        ("goose", {"permission_mode": "approve"}, "permission_mode", "cannot ask a person"),
        ("goose", {"permission_mode": "autos"}, "permission_mode", 'Did you mean "auto"?'),
        ("opencode", {"model": "opus"}, "model", "anthropic/opus"),
        ("opencode", {"session": SESSION}, "session", "opencode session list"),
        ("opencode", {"max_turns": 5}, "max_turns", "Use a timeout"),
        ("opencode", {"allowed_tools": ("bash",)}, "allowed_tools", "opencode.json"),
    ],
)
def test_what_one_tool_cannot_do(name: str, words: dict[str, Any], field: str, hint: str) -> None:
    """Found before anything is spent, with the way to mend it."""
    with pytest.raises(InvalidInput) as refused:
        TOOLS[name].check(call(**words))
    assert refused.value.field == field
    assert hint in (refused.value.hint or "")


def test_money_is_not_refused_where_only_matins_can_hold_it(tool: Runner) -> None:
    tool.check(call(max_cost_usd=2.0))


# -- those without a tool


@pytest.mark.parametrize("field", ["model", "session", "permission_mode", "allowed_tools", "max_turns"])
def test_a_command_has_no_use_for_an_agents_words(field: str) -> None:
    value = {"allowed_tools": ("a",), "max_turns": 3}.get(field, "word")
    with pytest.raises(InvalidInput, match="does not support") as refused:
        Shell().check(call(extra_args=("true",), **{field: value}))
    assert refused.value.field == field


def test_a_command_may_be_given_the_id_of_a_new_session_like_the_others() -> None:
    Shell().check(call(extra_args=("true",), new_session=SESSION))


@pytest.mark.parametrize("arguments", [(), ("",), (" ",)])
def test_a_command_needs_a_program(arguments: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput, match="needs a program"):
        Shell().check(call(extra_args=arguments))


def test_an_endpoint_needs_a_model_and_takes_no_tools() -> None:
    with pytest.raises(InvalidInput, match="needs a model"):
        OpenAI().check(call(url=URL))
    for words in ({"allowed_tools": ("a",)}, {"max_turns": 3}, {"permission_mode": "auto"}, {"extra_args": ("-x",)}):
        with pytest.raises(InvalidInput, match="endpoint") as refused:
            OpenAI().check(call(model="m", url=URL, **words))
        assert refused.value.field in words
    OpenAI().check(call(model="m", url=URL))


@pytest.mark.parametrize(
    ("version", "options"), [("1", "--auto"), ("2", "--standalone --dangerously-skip-permissions")], ids=["1", "2"]
)
def test_opencode_is_asked_which_options_it_has(version: str, options: str, tmp_path: Path) -> None:
    """B15: version 2 needs what version 1 does not know; its help is asked once for each program"""
    calls = tmp_path / "calls"
    program = tmp_path / "bin" / "opencode"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho asked >> {calls}\nexec {STANDINS}/opencode "$@"\n')
    program.chmod(0o755)
    (tmp_path / ".opencode-version").write_text(version)
    environment = {"PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    for _ in range(2):
        asking = call(permission_mode="auto", environment=environment, ask=ask_here(environment))
        command = TOOLS["opencode"].command(asking)
        assert " ".join(command.argv).endswith(options)
    assert calls.read_text() == "asked\n"


SERVER = MatinsServer("http://127.0.0.1:7411/mcp/run", ("/usr/bin/python3", "-m", "matins", "mcp"))


@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "goose", "opencode", "qwen"])
def test_c13_the_tool_is_given_the_server_of_matins_and_no_secret(name: str) -> None:
    """C13 B16: in the form that it takes; the token is a variable, which is named and never written"""
    plain, given = TOOLS[name].command(call()), TOOLS[name].command(call(server=SERVER))
    added = [word for word in given.argv if word not in plain.argv]
    said = " ".join([*added, *given.env_add.values(), json.dumps(given.settings)])
    assert SERVER.url in said or " ".join(SERVER.program) in said
    assert ("MATINS_TOKEN" in said) is (name != "goose")  # its process inherits the variable
    assert "matins" not in " ".join([*plain.argv, *plain.env_add.values()])
    assert plain.settings is None


def test_opencode_keeps_the_settings_that_the_agent_gives_inline() -> None:
    own = {"OPENCODE_CONFIG_CONTENT": '{"model": "a/b", "mcp": {"other": {"type": "local"}}}'}
    config = json.loads(
        TOOLS["opencode"].command(call(server=SERVER, environment=own)).env_add["OPENCODE_CONFIG_CONTENT"]
    )
    assert (config["model"], sorted(config["mcp"])) == ("a/b", ["matins", "other"])


def test_files_of_sessions_are_looked_for_where_the_agent_has_them() -> None:
    """The folder that the variable names, or else the usual one in the home directory."""
    home = {"HOME": "/home/ann"}
    assert folder_of(home, "CODEX_HOME", ".codex") == Path("/home/ann/.codex")
    assert folder_of({**home, "CODEX_HOME": "/srv/codex"}, "CODEX_HOME", ".codex") == Path("/srv/codex")
