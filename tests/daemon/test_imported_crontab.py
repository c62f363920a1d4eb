"""A crontab that is imported into a daemon: twelve lines as people have them, and every run of them succeeds."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from house import PATIENCE_S, House, Ordinary, ordinary_account

CRONTAB = r"""
# m h dom mon dow command
SHELL=/bin/sh
PATH=/usr/local/bin:/usr/bin:/bin
MAILTO=ada@example.org
HOME={home}
0 3 * * *     tar czf $HOME/notes-$(date +\%F).tgz -C $HOME notes
*/5 * * * *   find $HOME/notes -name '*.tmp' -mtime +7 -delete
17 * * * *    cd $HOME && sh tidy.sh > /dev/null 2>&1
30 2 1 * *    df -P | awk 'NR>1 {{print $5, $6}}' | sort -rn | head -3 >> $HOME/disk.log
@daily        $HOME/bin/report --all >> $HOME/report.log 2>&1
0 9 * * 1-5   echo "stand-up at $(date +\%H)" | tee -a $HOME/notes/log > /dev/null
15 4 * * 0    test -d $HOME/notes && flock -n $HOME/lock -c 'du -s notes'
0 0 1 1 *     cat >> $HOME/wishes%Happy new year%and {{{{good}}}} backups
*/10 * * * *  [ -e /no/such/file ] || : nothing to do
GREETING="hello there"
5 5 * * *     nice -n 5 printf '\%s\n' "$GREETING" > $HOME/greeting
45 23 * * *   ls -la . | wc -l; umask
SHELL=/bin/bash
0 12 * * *    [[ -n $BASH_VERSION ]] && echo "${{BASH_VERSION\%\%.*}}" > bash-version
"""
NAMES = ("tar", "find", "tidy", "df", "report", "echo", "flock", "cat", "job", "printf", "ls", "echo-2")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of another account")


@pytest.fixture
def account() -> Iterator[Ordinary]:
    with ordinary_account() as made:
        yield made


def folder_of(account: Ordinary) -> Path:
    """The home that the crontab names, with what its lines need."""
    folder = account.home / "ada"
    (folder / "notes").mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "tidy.sh").write_text("rm -f old\n")
    (folder / "bin/report").write_text("#!/bin/sh\necho report $1\n")
    (folder / "bin/report").chmod(0o755)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, account.uid, account.gid)
    return folder


def imported(house: House, folder: Path, *words: str) -> str:
    command = [sys.executable, "-m", "matins", "import", "crontab", "-", *words]
    text, process = CRONTAB.format(home=folder), house.user.process if house.user else {}
    done = subprocess.run(
        command, env=house.environment, input=text, capture_output=True, text=True, timeout=60, **process
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("who", ["ordinary", pytest.param("root", marks=as_root)])
def test_b11_every_line_of_a_crontab_runs(account: Ordinary, tmp_path: Path, who: str, isolated: bool) -> None:
    """B11 B22: from stdin; unisolated as cron runs them, and behind the walls of an agent that runs shell"""
    folder = folder_of(account)
    tmp_path.chmod(0o755)
    if who == "ordinary":
        one = House(account.home / "home", user=account).up()
    else:
        one = House(tmp_path / "home").up()
    try:
        words = ["--user", account.name] if isolated and who == "root" else []
        assert "To import from crontab: +" in imported(one, folder, *words)
        text = imported(one, folder, "--apply", *words)
        assert "refused" not in text, text
        agent = f"shell-{account.name}" if words else "shell"
        if isolated:
            one.ask("agents.edit", name=agent, isolation="required")
        assert sorted(item["name"] for item in one.ask("schedules.list")) == sorted(NAMES)
        runs = {name: one.client.run(name).id for name in NAMES}
        ended = {name: one.client.runs.wait(run, timeout=PATIENCE_S) for name, run in runs.items()}
        assert {name: run.outcome for name, run in ended.items() if run.state != "succeeded"} == {}
        assert {run.outcome["result"]["isolated"] for run in ended.values()} == {isolated}
    finally:
        one.kill()
    assert (folder / "wishes").read_text() == "Happy new year\nand {{good}} backups\n"
    assert (folder / "greeting").read_text() == "hello there\n"
    assert (folder / "report.log").read_text() == "report --all\n"
    assert (folder / "bash-version").read_text().strip().isdecimal()
    assert [path.stat().st_uid for path in folder.glob("notes-*.tgz")] == [
        account.uid if words or who == "ordinary" else 0
    ]


def in_a_home(house: Callable[..., House], folder: Path) -> House:
    (folder / "ada/.local/share").mkdir(parents=True)
    return house(home="ada/.local/share/matins", HOME=str(folder / "ada")).up()


def findings(house: House, agent: str) -> list[tuple[bool | None, str]]:
    found: list[dict[str, Any]] = house.client.document("system.doctor")
    return [(one["ok"], one["fix"]) for one in found if one["what"] == f"agent {agent}"]


def test_b22_a_command_runs_in_the_home_that_holds_that_of_matins(house: Callable[..., House], tmp_path: Path) -> None:
    """B22: a plain command is the owner's own program: as root and unisolated it runs at once, in ~"""
    one = in_a_home(house, tmp_path)
    one.ask("schedules.add", when="0 9 * * *", command="pwd")
    run, output = one.fire("pwd")
    assert run.state == "succeeded", run.outcome
    assert output.strip() == str(tmp_path / "ada")
    assert findings(one, "shell") == [(True, None)]


def test_b11_an_agent_is_not_let_into_the_home_that_governs_it(house: Callable[..., House], tmp_path: Path) -> None:
    """B11: it works in its own directory instead, and the import says so"""
    one = in_a_home(house, tmp_path)
    command = [sys.executable, "-m", "matins", "import", "crontab", "-", "--isolation", "none"]
    line = "0 9 * * * claude -p 'Tidy up'\n"
    done = subprocess.run(command, env=one.environment, input=line, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "+ agent cron-claude (stdin, line 1)" in done.stdout
    assert "note: It works in its own directory (agents/cron-claude), not in ~." in done.stdout


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
