"""What all commands share: help, `--json`, places, exit codes, colours, errors that say what to do next."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import pytest
from cli_user import User
from click.testing import CliRunner

from matins.api.use_case import UseCase
from matins.errors import Conflict, InvalidInput, MatinsError, NotAllowed, StoreUnavailable
from matins.surfaces.cli import cli
from matins.surfaces.cli.command_index import ALIASES, sections
from matins.surfaces.cli.context import EXIT_CODES, CliContext
from matins.testing import Sandbox

ROOT = click.Context(cli, info_name="matins")


def commands() -> Iterator[tuple[str, ...]]:
    """Every command, and every verb of a noun."""
    for name in (*cli.list_commands(ROOT), *ALIASES):
        yield (name,)
        command = cli.get_command(ROOT, name)
        if isinstance(command, click.Group):
            for verb in command.commands:
                yield name, verb


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_every_command_has_help_and_json(words: tuple[str, ...]) -> None:
    """P4: at 80 columns, with a sentence that says what it does"""
    result = CliRunner().invoke(cli, [*words, "--help"], env={"COLUMNS": "80"})
    text = result.stdout
    assert result.exit_code == 0, result.stderr
    assert all(len(line) <= 80 for line in text.splitlines())
    assert len(text.split("\n\n")[1].strip()) > 6
    command: Any = cli.get_command(ROOT, words[0])
    command = command.commands[words[1]] if len(words) == 2 else command
    assert isinstance(command, click.Group) or "--json" in text


@pytest.mark.parametrize("words", [(), *commands()], ids=" ".join)
def test_p4_help_of_every_option_stands_alone(words: tuple[str, ...]) -> None:
    """P4: whole sentences, each with its option on one line in a pipe: `matins … --help | grep`"""
    command: Any = cli if not words else cli.get_command(ROOT, words[0])
    command = command.commands[words[1]] if len(words) == 2 else command
    context = click.Context(command, info_name=" ".join(words), parent=ROOT)
    lines = CliRunner().invoke(cli, [*words, "--help"], env={"COLUMNS": None}).stdout.splitlines()
    for option in command.get_params(context):
        if isinstance(option, click.Option) and not option.hidden:
            name, text = option.get_help_record(context) or ("", "")
            assert [line for line in lines if line.startswith(f"  {name}  ") and line.endswith(f"  {text}")], name
            text = text.removesuffix("  [required]")
            assert re.fullmatch(r"[A-Z].*\.", text), (option.name, text)
            assert not re.search(r"  |[^.]\. [a-z]", text), (option.name, text)
            assert str(option.help) == text


def test_root_help(user: User) -> None:
    """P4: all commands in their sections, the exit codes too"""
    text = user.says("--help")
    for section, found in sections().items():
        assert f"\n{section}:\n" in text
        assert all(f"\n  {name} " in text for name in found)
    assert "8 waiting for approval" in text
    assert "..." not in text.partition("\nOptions:")[2]
    assert user.says("-h") == text
    assert EXIT_CODES.startswith("\b")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["lst"], 'There is no command "lst". Did you mean "list"?'),
        (["qiet-hours"], 'Did you mean "quiet-hours"?'),
        (["xyzzy"], 'There is no command "xyzzy".'),
        (["list", "--agnt", "x"], "--agent"),
        (["agents", "shw", "x"], 'There is no command "agents shw". Did you mean "show"?'),
        (["runs", "shw", "3"], 'There is no command "runs shw". Did you mean "show"?'),
        (["budgets", "xyzzy"], 'There is no command "budgets xyzzy".'),
        (["show"], "Missing argument 'NAME'"),
        (["run", "s", "--timeout", "soon"], '"soon" is not a length of time'),
        (["completion", "tcsh"], "'tcsh' is not one of"),
    ],
)
def test_a_slip_of_the_hand(user: User, words: list[str], says: str) -> None:
    """Exit code 2: what is wrong, and what to do next"""
    said = user.complains(*words)
    assert says in said
    assert "--help' for help." in said


UNDERSTOOD = {
    "ls": "list", "remove x": "rm", "delete x": "rm", "new": "add", "create": "add", "unpause x": "resume",
    "get x": "show", "describe x": "show", "info x": "show", "ps": "status", "schedule list": "schedules",
    "agent list": "agents", "job": "jobs", "token": "tokens", "approval": "approvals", "budget": "budgets",
    "incident": "incidents", "event": "events", "mission": "missions", "log 1": "logs",
    "trigger x": "run", "run-now x": "run", "update x": "edit", "enable x": "resume", "disable x": "pause",
    "serve": "up", "daemon": "up", "start": "up", "webhook": "webhooks", "person": None, "limit": "limits",
}  # fmt: skip
"""What people type, and the command that it is; None where there is none."""


@pytest.mark.parametrize("typed", UNDERSTOOD)
def test_b10_what_people_type_is_understood(typed: str) -> None:
    """B10"""
    command, meant = cli.get_command(ROOT, typed.split()[0]), UNDERSTOOD[typed]
    assert command is (None if meant is None else cli.get_command(ROOT, meant))


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("lst", 'Did you mean "list"?'),
        ("aprove 1", 'Did you mean "approve"?'),
        ("cancle 1", 'Did you mean "cancel"?'),
        ("stop", "Ctrl-C"),
        ("stop", "matins pause NAME"),
        ("start nightly", "matins run nightly"),
        ("version", "matins --version"),
        ("down", "Ctrl-C"),
        ("quit", "Ctrl-C"),
        ("shutdown", "Ctrl-C"),
        ("cron", "matins import crontab"),
        ("at 9am", 'matins add "at 9am"'),
        ("reload", "matins apply"),
        ("tail", "matins logs RUN --follow"),
        ("reject 1", "matins approvals"),
        ("task", "matins list"),
        ("tasks", "matins list"),
        ("test x", "preview"),
        ("server", 'Did you mean "serve"?'),
        ("purge", ""),
        ("reset", ""),
        ("clean", ""),
        ("wipe", ""),
        ("drop x", ""),
        *((word, "") for word in ("rmv", "prove", "dent", "candle", "r")),
        ("rmm x", ""),
        ("dny 1", ""),
        ("aply", ""),
        ("rest", ""),
        ("demon", 'Did you mean "daemon"?'),
        ("pasue", 'Did you mean "pause"?'),
        ("top", ""),
        ("set", "matins edit NAME --set"),
        ("resme x", 'Did you mean "resume"?'),
        ("agents shwo x", 'Did you mean "show"?'),
        ("tokens revok x", 'Did you mean "revoke"?'),
        ("agents rn x", ""),
    ],
)
def test_b10_a_hint_is_near_and_never_dangerous(user: User, typed: str, hint: str) -> None:
    """B10: a slip of the hand leads to the command; another word leads to advice, or to nothing"""
    said = user.complains(*typed.split())
    error = next(line for line in said.splitlines() if line.startswith("Error: "))
    assert hint in " ".join(said.split())
    assert hint or error.endswith('".'), error


def test_b10_verbs_of_nouns_have_other_words_too(user: User) -> None:
    user.types("limits", "create", "agent:scout", "2")
    assert "agent:scout" in user.says("limits", "ls")
    assert user.json("limits", "get", "agent:scout")["size"] == 2
    user.types("limits", "delete", "agent:scout")
    assert user.json("limits") == []


def test_json_before_or_after(user: User) -> None:
    """One JSON value, wherever it is asked for"""
    assert user.says("--json", "list") == user.says("list", "--json") == "[]\n"
    assert json.loads(user.says("--json", "stats"))["running"] is True


def test_nouns_are_the_same_commands() -> None:
    """P4: `matins runs list` is `matins runs`"""
    nouns: Any = {name: cli.get_command(ROOT, name) for name in ("schedules", "runs", "approvals")}
    for noun, verb, short in [
        ("schedules", "list", "list"),
        ("schedules", "add", "add"),
        ("schedules", "rm", "rm"),
        ("runs", "logs", "logs"),
        ("runs", "cancel", "cancel"),
        ("approvals", "deny", "deny"),
    ]:
        assert nouns[noun].commands[verb] is cli.get_command(ROOT, short)


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (["--store", "sqlite:///x", "--url", "u", "--token", "t", "--home", "h", "list"], {}),
        (["list", "--store", "sqlite:///x", "--url", "u", "--token", "t", "--home", "h"], {}),
        (
            ["list"],
            {"MATINS_STORE": "sqlite:///x", "MATINS_URL": "u", "MATINS_TOKEN": "t", "MATINS_HOME": "h"},
        ),
        (["--home", "no", "--url", "u", "list", "--home", "h", "--token", "t"], {"MATINS_STORE": "sqlite:///x"}),
    ],
)
def test_where_the_store_is(
    user: User, monkeypatch: pytest.MonkeyPatch, words: list[str], environment: dict[str, str]
) -> None:
    """B10: before the command, behind it, or in the environment; the nearest counts"""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    user.types(*words)
    assert user.app.asked == [{"store": "sqlite:///x", "url": "u", "token": "t", "home": "h"}]


def test_up_and_service(user: User) -> None:
    """V2"""
    node = ("--name", "build-1", "--label", "gpu", "--label", "eu", "--max-runs", "8", "--agents", "trainer, reviewer")
    where = ("--file", "m.yaml", "--host", "0.0.0.0", "--port", "0", "--store", "sqlite:///x", "--log", "json")
    user.types("up", *where, *node, "--output-url", "s3://runs/x")
    assert user.app.asked.pop() == {
        "store": "sqlite:///x", "file": "m.yaml", "host": "0.0.0.0", "port": 0, "home": None, "log": "json",
        "node": {
            "name": "build-1", "labels": ("gpu", "eu"), "agents": ["trainer", "reviewer"], "max_runs": 8,
            "output_url": "s3://runs/x",
        },
    }  # fmt: skip
    assert f"--home {Path.cwd()}/h up\n" in user.says("service", "install", "--print", "--home", "h")
    assert user.app.asked.pop() == {"store": None, "file": None, "home": "h"}
    assert "[Unit]" in user.json("service", "install", "--print")["text"]


class Failing:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def document(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
        raise self.error


@pytest.mark.parametrize(
    ("error", "code", "hint"),
    [
        (InvalidInput("no", hint="mend it"), 2, "mend it"),
        (InvalidInput("no"), 2, "See the options: --help"),
        (Conflict("no"), 1, "Check its state: "),
        (NotAllowed("no"), 4, "--token"),
        (StoreUnavailable("no"), 1, "matins doctor"),
        (MatinsError("no"), 1, "matins doctor"),
        (RuntimeError("no"), 1, "MATINS_DEBUG=1"),
        (KeyError(), 1, "MATINS_DEBUG=1"),
        (RecursionError("no"), 1, "MATINS_DEBUG=1"),
    ],
)
def test_every_error_says_what_to_do_next(
    user: User, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int, hint: str
) -> None:
    """Exit codes 1, 2, 4; never a traceback"""
    monkeypatch.setattr(user.app, "transport", lambda **location: Failing(error))
    said = user.complains("list", code=code)
    assert said.startswith("Error: ")
    assert hint in said


def test_an_error_cannot_move_the_cursor(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    error = InvalidInput("a\x1b[2Jb", hint="c\rd\x07")
    monkeypatch.setattr(user.app, "transport", lambda **location: Failing(error))
    assert user.complains("list") == "Error: a\\x1b[2Jb\nHint: c\nd\\x07\n"


def test_ctrl_c(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """130, and no word of it"""
    monkeypatch.setattr(user.app, "transport", lambda **location: Failing(KeyboardInterrupt()))
    result = user.types("list", code=130)
    assert (result.stdout, result.stderr.strip()) == ("", "")


def test_debug_shows_where(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user.app, "transport", lambda **location: Failing(RuntimeError("here")))
    result = CliRunner().invoke(cli, ["list"], obj=user.app, env={"MATINS_DEBUG": "1"})
    assert isinstance(result.exception, RuntimeError)


HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\u202e\u200b\x9b31m\u2028\U000e0041<b>日本"


def test_no_word_of_others_reaches_the_terminal(user: User, bench: Sandbox) -> None:
    """B7: prompts, notes, payloads, reasons, outcomes; in every view, and in JSON"""
    bench.agents.set("x", runner="demo", model="m")
    bench.job("echo")(lambda run: {HOSTILE: HOSTILE})
    bench.add(
        "s", when="1h", job="echo", payload={HOSTILE: HOSTILE}, agent="x", approval="owner_approve", prompt=HOSTILE
    )
    bench.run("s")
    bench.settle()
    views = [["approvals", "show", "1"], ["events"], ["show", "s"], ["why", "s"]]
    seen = [user.types(*view) for view in views] + [user.types("approve", "1")]
    bench.settle()
    bench.pause("s", note=HOSTILE)
    bench.throttles.set("p", resets_at=bench.clock.now_ms() + 60_000, reason=HOSTILE)
    views += [
        ["list"],
        ["runs"],
        ["runs", "show", "1"],
        ["throttles"],
        ["stats"],
        ["agents"],
        ["preview", "s"],
        ["next"],
    ]
    seen += [user.types(*view) for view in views]
    for result in seen:
        assert not unsafe(result.stdout + result.stderr)
    for view in views:
        text = user.says(*view, "--json")
        assert not unsafe(text)
        json.loads(text)
    assert json.loads(user.says("show", "s", "--json"))["note"] == HOSTILE


def unsafe(text: str) -> list[str]:
    bad = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return [repr(c) for c in text if c != "\n" and unicodedata.category(c) in bad]


@pytest.fixture
def failed(user: User, bench: Sandbox) -> User:
    user.types("add", "every day at 9am", "--job", "fail", "-n", "s")
    user.types("run", "s")
    bench.settle()
    return user


def test_colours_on_a_terminal(failed: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """B12: and never alone; not for programs, not where nobody wants them"""
    assert "\x1b" not in failed.says("list")
    monkeypatch.setattr(CliContext, "on_terminal", True)
    assert "\x1b[31m✗ failed now" in failed.says("list")
    assert "\x1b" not in failed.says("list", "--json")
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in failed.says("list")


def test_no_color(failed: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """B12"""
    monkeypatch.setattr(CliContext, "on_terminal", True)
    result = CliRunner().invoke(cli, ["list"], obj=failed.app, env={"NO_COLOR": "1", "COLUMNS": "80"})
    assert "✗ failed" in result.stdout
    assert "\x1b" not in result.stdout


def test_what_is_piped_is_not_cut(user: User) -> None:
    user.types("add", "every weekday at 9am, 10am, 11am, 12pm, 1pm, 2pm and 3pm", "--job", "work", "-n", "s" * 60)
    assert "…" in user.types("list").stdout
    whole = user.types("list", columns=None).stdout
    assert "…" not in whole
    assert "15:00" in whole


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(user: User, shell: str) -> None:
    text = user.says("completion", shell)
    assert "_MATINS_COMPLETE" in text
    assert user.json("completion", shell)["shell"] == shell


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("matins sh", ["show"]),
        ("matins approva", ["approvals"]),
        ("matins show mor", ["morning", "mortal"]),
        ("matins add --overl", ["--overlap"]),
        ("matins add --overlap c", ["cancel_other"]),
        ("matins agents s", ["set", "show"]),
        ("matins agents show sc", ["scout"]),
        ("matins add --agent sc", ["scout"]),
        ("matins pause --agent sc", ["scout"]),
    ],
)
def test_completion_of_a_line(user: User, line: str, found: list[str]) -> None:
    """Commands, options, choices, and the names of schedules and agents"""
    user.types("agents", "set", "scout", "--runner", "demo")
    user.types("add", "5m", "--job", "work", "-n", "morning")
    user.types("add", "5m", "--job", "work", "-n", "mortal")
    environment = {"_MATINS_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
    result = CliRunner().invoke(cli, [], obj=user.app, env=environment, prog_name="matins")
    assert [answer.partition(",")[2] for answer in result.stdout.split()] == found


def test_completion_where_nobody_answers(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user.app, "transport", lambda **location: Failing(StoreUnavailable("gone")))
    environment = {"_MATINS_COMPLETE": "bash_complete", "COMP_WORDS": "matins show m", "COMP_CWORD": "2"}
    result = CliRunner().invoke(cli, [], obj=user.app, env=environment, prog_name="matins")
    assert (result.stdout.strip(), result.stderr) == ("", "")
