"""Short commands at their limit and past their end: they may clean up, and nobody is left."""

from __future__ import annotations

import os
import select
import shutil
from collections.abc import Callable
from pathlib import Path

import commanding
import pytest
from commanding import LIMIT_MS, run, wait_until_gone, wait_until_held

from matins.executors import commands as short_commands
from matins.executors.commands import Commands

commands = commanding.commands
held = commanding.held
gate = commanding.gate
limit_strikes = commanding.limit_strikes
long_grace = commanding.long_grace
script = commanding.script


def _sleeper(ready: Path) -> str:
    """A child that ends with TERM, also at once: between fork and exec a shell's own child would lose the signal."""
    return f'sh -c "echo >{ready}; exec sleep 300"'


@pytest.mark.usefixtures("long_grace")
def test_c6_at_the_limit_it_may_clean_up_and_end(limit_strikes: Path) -> None:
    text = f"trap 'echo cleaned; exit 0' TERM; echo begun; {_sleeper(limit_strikes)} & wait"
    assert run(text) == (None, True, "begun\ncleaned\n", "", None, LIMIT_MS)


@pytest.mark.usefixtures("long_grace")
def test_c6_it_may_clean_up_without_its_outputs(limit_strikes: Path, held: int, tmp_path: Path) -> None:
    text = f"trap 'echo cleaned >&3; exit' TERM; exec 3>held >&- 2>&-; {_sleeper(limit_strikes)} & wait"
    assert run(text, folder=tmp_path).timed_out
    assert os.read(held, 100) == b"cleaned\n"


@pytest.mark.usefixtures("long_grace")
def test_c6_its_children_may_clean_up_too(limit_strikes: Path, script: Callable[..., Path], tmp_path: Path) -> None:
    """The shell ends with the signal at once, which its child sees; the child still has its second."""
    os.mkfifo(tmp_path / "shell")
    clean_up = "cat <&6; yes | head -c 300000; echo cleaned; exit"
    child = script(f"trap '{clean_up}' TERM; {_sleeper(limit_strikes)} & wait")
    result = run(f"exec 5<>shell; /bin/sh {child} 6<shell 5<&-; true", folder=tmp_path)
    assert result.output.endswith("y\ncleaned\n")


@pytest.mark.parametrize("outputs", ["", ">/dev/null 2>&1"])
def test_c6_who_ignores_the_signal_is_killed_with_its_children(
    outputs: str, limit_strikes: Path, held: int, tmp_path: Path
) -> None:
    text = f"trap '' TERM; echo begun; exec 3>held {outputs}; sleep 300 & echo >{limit_strikes}; wait; sleep 300"
    assert run(text, folder=tmp_path) == (None, True, "begun\n", "", None, LIMIT_MS)
    wait_until_gone(held)


@pytest.mark.parametrize("child", ["sleep 300", "sleep 300 >/dev/null 2>&1", "yes"])
def test_p7_a_child_left_behind_is_not_waited_for_and_goes(child: str, held: int, tmp_path: Path) -> None:
    result = run(f"echo begun; exec 3>held; {child} & exit 7", folder=tmp_path)
    assert result[:2] == (7, False)
    assert result.output.startswith("begun\n")
    wait_until_gone(held)


DAEMON = "exec 3>held; setsid sh -c 'trap \"\" TERM; (echo begun >&4; exec sleep 300) & exit' 4>begun; read _ <begun"
"""It leaves the session, loses its parent, and ignores TERM."""


@pytest.mark.skipif(shutil.which("setsid") is None, reason="no setsid here")
@pytest.mark.parametrize("outputs", ["", ">/dev/null 2>&1"])
def test_b16_a_daemon_that_is_left_behind_is_gone_when_the_command_ends(
    outputs: str, held: int, tmp_path: Path
) -> None:
    """B16: whatever session and parent it has"""
    os.mkfifo(tmp_path / "begun")
    both = os.open(tmp_path / "begun", os.O_RDWR)
    assert run(f"{DAEMON} {outputs}; echo done", folder=tmp_path)[:3] == (0, False, "done\n")
    assert select.select([held], [], [], 0)[0]
    assert os.read(held, 1) == b""
    os.close(both)


def test_c6_the_limit_is_that_of_the_command() -> None:
    """C6"""
    result = run("exec sleep 300", limit_ms=200)
    assert (result.exit_code, result.timed_out, result.duration_ms) == (None, True, 200)


def test_nothing_is_left_in_the_folder_of_runs(commands: Commands) -> None:
    """B16: not even the output"""
    run("yes | head -c 100000; yes | head -c 100000 >&2; exit 3")
    run(["/no/such/program"])
    supervisor = commands._supervisor()
    assert os.listdir(supervisor._run_folder.runs_fd) == []  # noqa: PTH208 - by a descriptor


def test_an_interrupt_takes_the_command_with_it(held: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P7: Ctrl-C in a terminal does not reach another session by itself."""

    class Interrupted:
        """The queue in which the command waits for its end."""

        def put(self, outcome: object) -> None:
            """Nobody waits for it any more."""

        def get(self, timeout: float) -> None:
            wait_until_held(held)
            raise KeyboardInterrupt

    monkeypatch.setattr(short_commands, "SimpleQueue", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        run("exec 3>held; echo >&3; sleep 300", folder=tmp_path)
    wait_until_gone(held)
