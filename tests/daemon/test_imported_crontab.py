"""A crontab that is imported into a daemon whose home is in the user's own folder, as it is by default."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from house import PATIENCE_S, House

CRONTAB = "0 9 * * * pwd\n"


def in_a_home(house: Callable[..., House], folder: Path) -> House:
    (folder / "ada/.local/share").mkdir(parents=True)
    return house(home="ada/.local/share/matins", HOME=str(folder / "ada")).up()


def imported(house: House, *words: str) -> str:
    command = [sys.executable, "-m", "matins", "import", "crontab", "-", "--isolation", "none", *words]
    done = subprocess.run(command, env=house.environment, input=CRONTAB, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def findings(house: House, agent: str) -> list[tuple[bool | None, str]]:
    found: list[dict[str, Any]] = house.client.document("system.doctor")
    return [(one["ok"], one["fix"]) for one in found if one["what"] == f"agent {agent}"]


def test_b11_an_imported_command_runs(house: Callable[..., House], tmp_path: Path) -> None:
    """B11: from stdin, in a folder in which its runs start; the import says which"""
    one = in_a_home(house, tmp_path)
    for words in ((), ("--apply",)):
        text = imported(one, *words)
        assert "+ agent cron-pwd (stdin, line 1)" in text
        assert "note: It works in its own directory (agents/cron-pwd), not in ~." in text
    run, output = one.fire("pwd")
    assert run.state == "succeeded", run.outcome
    assert output.strip() == str(one.home / "agents/cron-pwd")
    assert findings(one, "cron-pwd") == [(True, None)]


def test_doctor_checks_what_a_run_checks(house: Callable[..., House], tmp_path: Path) -> None:
    """A folder in which no run starts is no good agent, and the fix works as it is printed"""
    one = in_a_home(house, tmp_path)
    one.shell("pwd", "pwd", workdir="~")
    one.ask("agents.edit", name="pwd", isolation="none")
    run, _ = one.fire("pwd")
    assert run.state == "failed"
    ((ok, fix),) = findings(one, "pwd")
    assert ok is False
    program, *words = shlex.split(fix)
    assert program == "matins"
    one.matins(*words)
    assert findings(one, "pwd") == [(True, None)]
    assert one.client.runs.wait(one.client.run("pwd").id, timeout=PATIENCE_S).state == "succeeded"


def test_the_fix_of_a_record_of_the_file_is_its_line(house: Callable[..., House], tmp_path: Path) -> None:
    """The file's records are changed in the file; a command would be refused"""
    home = tmp_path / "ada/.local/share/matins"
    home.mkdir(parents=True, mode=0o700)
    text = "agents:\n  pwd:\n    runner: shell\n    command: [pwd]\n    workdir: ~\n    isolation: none\n"
    (home / "matins.yaml").write_text(text.replace("~", '"~"'))
    one = house(home="ada/.local/share/matins", HOME=str(tmp_path / "ada")).up()
    ((ok, fix),) = findings(one, "pwd")
    assert (ok, fix) == (False, f"in {home / 'matins.yaml'}, line 2, remove workdir")
