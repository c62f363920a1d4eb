"""Short commands at their limit and past their end: they may clean up, and nobody is left."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import commanding
import pytest
from commanding import LIMIT_MS, PATIENCE, run, wait_until_gone

from matins.executors import commands
from matins.runtime.clock import SystemClock

held = commanding.held
gate = commanding.gate
limit_strikes = commanding.limit_strikes
long_grace = commanding.long_grace
script = commanding.script


@pytest.mark.usefixtures("long_grace")
def test_c6_at_the_limit_it_may_clean_up_and_end(limit_strikes: Path) -> None:
    text = f"trap 'echo cleaned; exit 0' TERM; echo begun; touch {limit_strikes}; sleep 300 & wait"
    assert run(text) == (None, True, "begun\ncleaned\n", "", None, LIMIT_MS)


@pytest.mark.usefixtures("long_grace")
def test_c6_it_may_clean_up_without_its_outputs(limit_strikes: Path, held: int, tmp_path: Path) -> None:
    text = f"trap 'echo cleaned >&3; exit' TERM; exec 3>held >&- 2>&-; touch {limit_strikes}; sleep 300 & wait"
    assert run(text, folder=tmp_path).timed_out
    assert os.read(held, 100) == b"cleaned\n"


@pytest.mark.usefixtures("long_grace")
def test_c6_its_children_may_clean_up_too(limit_strikes: Path, script: Callable[..., Path], tmp_path: Path) -> None:
    """The shell ends with the signal at once, which its child sees; the child still has its second."""
    os.mkfifo(tmp_path / "shell")
    clean_up = "cat <&6; yes | head -c 300000; echo cleaned; exit"
    child = script(f"trap '{clean_up}' TERM; touch {limit_strikes}; sleep 300 & wait")
    result = run(f"exec 5<>shell; /bin/sh {child} 6<shell 5<&-; true", folder=tmp_path)
    assert result.output.endswith("y\ncleaned\n")


@pytest.mark.parametrize("outputs", ["", ">/dev/null 2>&1"])
def test_c6_who_ignores_the_signal_is_killed_with_its_children(
    outputs: str, limit_strikes: Path, held: int, tmp_path: Path
) -> None:
    text = f"trap '' TERM; echo begun; exec 3>held {outputs}; sleep 300 & touch {limit_strikes}; wait; sleep 300"
    assert run(text, folder=tmp_path) == (None, True, "begun\n", "", None, LIMIT_MS)
    wait_until_gone(held)


@pytest.mark.parametrize("child", ["sleep 300", "sleep 300 >/dev/null 2>&1", "yes"])
def test_p7_a_child_left_behind_is_not_waited_for_and_goes(child: str, held: int, tmp_path: Path) -> None:
    result = run(f"echo begun; exec 3>held; {child} & exit 7", folder=tmp_path)
    assert result[:2] == (7, False)
    assert result.output.startswith("begun\n")
    wait_until_gone(held)


@pytest.mark.skipif(shutil.which("setsid") is None, reason="no setsid here")
def test_p7_a_child_in_a_session_of_its_own_is_not_waited_for(
    held: int, gate: Callable[[int], int], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "escaped")
    text = "exec 3>held 4<gate; setsid sh -c 'echo >escaped; read _ <&4; yes' & read _ <escaped; echo done"
    assert run(text, folder=tmp_path)[:3] == (0, False, "done\n")
    gate(1)
    wait_until_gone(held)  # nobody reads what it prints now, so it ends


def test_p7_who_never_stops_printing_does_not_hold_us(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands._Streams, "drain", lambda streams, wait_ms: True)
    assert run("true").exit_code == 0


def test_who_cannot_be_signalled_is_left_and_reaped_later(
    limit_strikes: Path, gate: Callable[[int], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C6: a program that runs as another user does not hold us."""

    def refuse(group: int, number: int) -> None:
        raise PermissionError(group, number)

    monkeypatch.setattr(os, "killpg", refuse)
    result = run(f"echo $$; touch {limit_strikes}; read _ <gate", folder=tmp_path)
    assert (result.exit_code, result.timed_out) == (None, True)
    [reaper] = [thread for thread in threading.enumerate() if thread.name == f"matins-reap-{result.output.strip()}"]
    gate(1)
    reaper.join(PATIENCE)
    assert not reaper.is_alive()


def test_an_interrupt_takes_the_command_with_it(held: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P7: Ctrl-C in a terminal does not reach another session by itself."""

    def interrupted_once() -> int:
        if (tmp_path / "ready").exists():
            (tmp_path / "ready").unlink()
            raise KeyboardInterrupt
        return SystemClock().boot_ms()

    monkeypatch.setattr(commands, "_boot_ms", interrupted_once)
    with pytest.raises(KeyboardInterrupt):
        run("exec 3>held; touch ready; sleep 300", folder=tmp_path)
    wait_until_gone(held)
