"""Commands when they are defined: what is taken, and what is refused in words."""

from __future__ import annotations

import shlex
import stat
from collections.abc import Callable
from pathlib import Path

import commanding
import pytest
from commanding import run

from matins.errors import InvalidInput
from matins.executors.secrets import check_command

commands = commanding.commands
script = commanding.script


SHELL_TEXTS = r"""
test -f ~/.cortex/data/schedules.json
[ $(cat /proc/loadavg | cut -d' ' -f1 | cut -d. -f1) -lt 8 ]
  ls "python train.py" || true
/bin/sh -c true
A=1 no-such; true
(cd / && ls)
{ :; }
! false
. ./env
cd /
# why
f () { :; }; f
if true; then false; fi
for x in 1 2; do echo $x; done
case x in x) ;; esac
while false; do :; done
"""


@pytest.mark.parametrize("text", [*SHELL_TEXTS.strip("\n").splitlines(), "true " + "x" * 7_995])
def test_c6_a_text_that_a_shell_can_run_is_taken(text: str) -> None:
    assert check_command(text, "preCheck") == text


def test_p7_a_list_is_taken_as_a_tuple(script: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = script("#!/bin/sh\n")
    monkeypatch.setenv("HOME", str(path.parent))
    assert check_command(["sh", "", "$(oops", "\n"], "hook") == ("sh", "", "$(oops", "\n")
    assert check_command((str(path), "x"), "hook") == (str(path), "x")
    assert check_command(["~/check.sh"], "hook") == ("~/check.sh",)
    assert check_command("~/check.sh now", "hook") == "~/check.sh now"
    assert check_command(["./check.sh"], "hook", workdir="~") == ("./check.sh",)
    assert run(["./check.sh"], folder=path.parent).exit_code == 0
    with pytest.raises(InvalidInput):
        check_command(["./check.sh"], "hook", workdir="/")


@pytest.mark.parametrize(
    ("command", "message", "hint"),
    [
        ("", "must be a command, or a list", "test -f"),
        (" \n", "must be a command, or a list", "test -f"),
        ([""], "must be a command, or a list", "test -f"),
        ([], "must be a command, or a list", "test -f"),
        (None, "must be a command, or a list", "test -f"),
        ({"command": "true"}, "must be a command, or a list", "test -f"),
        (["test", 1], "must be a command, or a list", "/usr/bin/test"),
        ("true \0", "contains a NUL", "Remove it"),
        (["true", "a\0b"], "contains a NUL", "Remove it"),
        ("true \ud800", "lone surrogate", "Remove it"),
        ("true " + "x" * 7_996, "at most 8,000 characters, not 8,001", "script"),
        (["true", "x" * 7_997], "at most 8,000 characters, not 8,001", "script"),
        ("matins-no-such check", '"matins-no-such" is not on PATH', "full path"),
        (["matins-no-such"], '"matins-no-such" is not on PATH', "full path"),
        ("/no/such/program -x", "/no/such/program cannot be used: No such file", "full path"),
        (["/no/such/program"], "/no/such/program cannot be used: No such file", "full path"),
        (["./" + "x" * 300], "File name too long", "full path"),
        (["~nobody-of-this-name/x"], "No such file", "full path"),
        (["/tmp/"], "/tmp is a folder", "a program in it"),
        ("if true", "the shell cannot read it: ", "sh -n"),
        ("echo 'open", "the shell cannot read it: ", "sh -n"),
    ],
)
def test_bad_commands_are_refused_in_words(command: object, message: str, hint: str) -> None:
    """C6, P7: what is wrong, where, and how to mend it."""
    with pytest.raises(InvalidInput) as caught:
        check_command(command, "preCheck")
    error = caught.value
    assert error.message.startswith('"preCheck"')
    assert error.message.endswith(".")
    assert message in error.message
    assert hint in (error.hint or "")
    assert error.field == "preCheck"
    assert (error.value is None) == (command is None)
    str(error.value).encode()  # it can be sent on


@pytest.mark.parametrize("as_text", [True, False])
def test_p7_a_hook_that_is_not_executable_says_how_to_mend_it(script: Callable[..., Path], as_text: bool) -> None:
    path = script("#!/bin/sh\n", mode=0o644, name="not yet.sh" if not as_text else "not-yet.sh")
    with pytest.raises(InvalidInput, match="may not be executed") as caught:
        check_command(str(path) if as_text else [str(path)], "hooks")
    assert caught.value.hint == f"chmod +x {shlex.quote(str(path))}"
    assert caught.value.value == str(path)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    check_command(str(path) if as_text else [str(path)], "hooks")


def test_the_shell_says_what_is_wrong_and_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C6: a text is only read at definition time."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match=r"[Ss]yntax error"):
        check_command("touch canary; if $(touch canary)", "preCheck")
    check_command("touch canary; : $(touch canary)", "preCheck")
    assert list(tmp_path.iterdir()) == []
