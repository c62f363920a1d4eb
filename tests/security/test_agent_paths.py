"""An isolated agent changes what the engine reads for it. Nothing of Matins or of another agent comes out."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from house import House, Ordinary
from matins import InvalidInput, Matins
from matins.coding_tools.demo import Demo
from matins.executors.runners.protocol import RunnerRequest


def test_b16_a_secret_does_not_become_the_owner_s_token(house: House) -> None:
    """B16: the agent puts a link in the place of its secret; the next run must not get what it leads to"""
    key = house.home.parent / "key"
    key.write_text("ordinary\n")
    os.chown(key, house.home.stat().st_uid, house.home.stat().st_gid)
    script = f'printf %s "$S" | cut -c1-4; rm -f {key}; ln -s {house.home}/token {key}'
    house.shell("thief", script, environment={"S": f"file:{key}"}, isolation="required")
    run, output = house.fire("thief")
    assert (run.state, output.strip()) == ("succeeded", "ordi"), run.outcome  # control: an honest secret arrives
    assert key.read_text() == (house.home / "token").read_text()  # the link is there, and leads to it
    run, output = house.fire("thief")
    assert (run.state, output) == ("failed", "")
    error = f"S refers to file:{key}, but it leads into the directory of Matins."
    assert error in str(run.outcome), run.outcome


VIEW = """
import os, sys
from matins.executors.processes.walls import Layout, Walls
home, kept, scratch = sys.argv[1:]
with Walls(scratch).entered(Layout((home,), (kept,))):
    print(*sorted(os.listdir(kept)))
"""


def view(account: Ordinary, home: Path, kept: Path) -> subprocess.CompletedProcess[str]:
    """What a command would see of a kept folder."""
    scratch = account.home / "scratch"
    scratch.mkdir(exist_ok=True)
    command = [sys.executable, "-c", VIEW, str(home), str(kept), str(scratch)]
    return subprocess.run(command, capture_output=True, text=True, cwd="/", **account.process)


def test_b16_a_kept_folder_is_not_another_agent_s(account: Ordinary) -> None:
    """B16: a folder above a workdir is exchanged for a link after the run was prepared, before its view is made"""
    home = account.home / "walls"
    for name in ("other/below", "robin/proj/below"):
        (home / "agents" / name).mkdir(parents=True)
        (home / "agents" / name / name.partition("/")[0]).touch()
    kept = home / "agents" / "robin" / "proj" / "below"
    honest = view(account, home, kept)
    assert (honest.stdout, honest.returncode) == ("robin\n", 0), honest.stderr
    (home / "agents" / "robin" / "proj").rename(home / "agents" / "robin" / "moved")
    (home / "agents" / "robin" / "proj").symlink_to("../other")
    assert [path.name for path in kept.iterdir()] == ["other"]  # control: the path leads there
    swapped = view(account, home, kept)
    assert (swapped.stdout, swapped.returncode) == ("", 1)
    assert "it is a link, or below one" in swapped.stderr


def test_b16_a_workdir_does_not_become_another_agent_s(house: House) -> None:
    """B16: a folder above the workdir is exchanged for a link before the next run is prepared"""
    house.shell("other", "mkdir -p below; echo private > below/secret")
    assert house.fire("other")[0].state == "succeeded"
    (house.home / "agents" / "robin" / "proj" / "below").mkdir(parents=True)
    for path in (house.home / "agents" / "robin", *(house.home / "agents" / "robin").rglob("*")):
        os.chown(path, house.home.stat().st_uid, house.home.stat().st_gid)
    script = "cat secret; cd ../..; [ -L proj ] || { mv proj moved && ln -s ../other proj && echo exchanged; }"
    house.shell("robin", script, workdir="agents/robin/proj/below", isolation="required")
    run, output = house.fire("robin")
    assert output.splitlines()[-1] == "exchanged", (run.outcome, output)
    secret = house.home / "agents" / "robin" / "proj" / "below" / "secret"
    assert secret.read_text() == "private\n"  # control: the path leads there
    run, output = house.fire("robin")
    assert (run.state, output) == ("failed", "")
    assert "is in the home of Matins" in str(run.outcome)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has agents of another account")
def test_b16_records_of_a_session_are_looked_for_in_the_home_of_the_account(
    account: Ordinary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B16: not in that of root, and only files of the account count"""
    seen: list[tuple[str | None, int | None]] = []

    def check(self: Demo, call: RunnerRequest) -> None:
        seen.append((call.environment.get("HOME"), call.owner))
        raise InvalidInput("seen")

    monkeypatch.setattr(Demo, "check", check)
    with closing(Matins(f"sqlite:///{tmp_path}/matins.db")) as matins, matins:
        for name, user in (("robin", account.name), ("own", None)):
            matins.agents.set(name, runner="demo", user=user)
            matins.add(name, when="every day at 09:00", agent=name, prompt="Hello")
            matins.runs.wait(matins.run(name).id, timeout=60)
    home = pwd.getpwnam(account.name).pw_dir
    assert seen == [(home, account.uid), (os.environ["HOME"], None)]
