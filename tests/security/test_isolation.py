"""An agent in a real process tree, as an ordinary user and as root, tries to free itself. Each attack is first shown to
succeed without walls, so that none is refused by accident."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from house import House, Ordinary
from matins.executors.processes.walls import SIGNAL_VERSION, landlock_version

ATTACKS = Path(__file__).with_name("attacks.py")
SIGNALS = {
    "signal the engine",
    "signal the keeper",
    "signal another run",
    "signal another run's warden",
    "signal its warden",
}
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of another account")


@pytest.fixture(scope="module")
def house(house: House) -> House:
    return furnished(house)


def furnished(one: House) -> House:
    """With what an agent must not reach: another agent's folder and output, and a backup."""
    one.shell("other", "echo private > secret; echo my output")
    assert one.fire("other")[0].state == "succeeded"
    one.ask("system.backup", path=str(one.home / "backup.db"))
    return one


@contextmanager
def outsider(user: Ordinary | None, folder: Path) -> Iterator[int]:
    """A plain process of the same user, as a shell or an editor is."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, cwd=folder, **(user.process if user else {})) as process:
        yield process.pid


@contextmanager
def neighbour(one: House, name: str, **settings: object) -> Iterator[tuple[int, int]]:
    """A run of another agent, while it works: its process, and its warden."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        told = Path(folder, "told")
        os.mkfifo(told)
        told.chmod(0o666)
        one.shell(name, f"echo private > secret; echo $$ $PPID > {told}; exec sleep 1000", **settings)
        run = one.client.run(name)
        process, warden = map(int, told.read_text().split())
    yield process, warden
    one.client.runs.cancel(run.id)
    one.client.runs.wait(run.id, timeout=60)


def tried(one: House, name: str, **settings: object) -> dict[str, dict[str, bool]]:
    """Which attacks succeeded, in a run of an agent with these settings."""
    keeper = int((one.home / "matins.db.runs/keeper.lock").read_text().split()[0])
    with outsider(one.user, one.home) as pid, neighbour(one, f"beside-{name}", **settings) as (process, warden):
        words = f"{one.home} {one.process.pid} {keeper} {pid} other {process} {warden}"
        command = f"{sys.executable} -I {ATTACKS} {words}"
        one.shell(name, f"exec {command}", **settings)
        run, output = one.fire(name)
    assert run.state == "succeeded", (run.outcome, output)
    assert run.outcome["result"]["isolated"] is (settings.get("isolation") != "none")
    return json.loads(output)


def test_b16_an_ordinary_user_s_agent_is_kept_from_all_that_governs_it(house: House) -> None:
    """B16: token, store, socket, file, backups, other agents' folders and output; by every way round"""
    without = tried(house, "none", isolation="none")
    assert [name for name, succeeded in without["open"].items() if not succeeded] == []
    assert [name for name, succeeded in without["shut"].items() if succeeded] == []
    within = tried(house, "walled")
    signals = SIGNALS if landlock_version() < SIGNAL_VERSION else set()
    assert {name for name, succeeded in within["open"].items() if succeeded} <= signals
    assert [name for name, succeeded in within["shut"].items() if succeeded] == []


APPROVE = "env -i PATH=$PATH HOME=$HOME {python} -P -m matins --home {home} approve {approval} --yes"


def approved_itself(house: House, name: str, **settings: object) -> bool:
    """Whether an agent with these settings approves a waiting run with the owner's token. With its own it never can."""
    house.ask("agents.set", name=name, runner="demo")
    house.ask("schedules.add", name=name, when="every 1 day", agent=name, prompt="Go.", approval="owner_approve")
    assert house.client.runs.wait(house.client.run(name).id, timeout=60).status == "awaiting_approval"
    (asked,) = [one for one in house.ask("approvals.list") if one["schedule"] == name]
    own = f"{sys.executable} -P -m matins approve {asked['id']} --yes; echo $?"
    script = APPROVE.format(python=sys.executable, home=house.home, approval=asked["id"])
    house.shell(f"approver-{name}", f"{own}; {script}; echo $?", **settings)
    _, output = house.fire(f"approver-{name}")
    by_itself, by_the_owner = [line for line in output.splitlines() if line.isdigit()]
    assert by_itself == "4", output
    answered = house.ask("approvals.get", approval_id=asked["id"])["state"] != "pending"
    assert (by_the_owner == "0") is answered, output
    return answered


def test_b16_an_agent_cannot_approve_itself(house: House) -> None:
    """B16 B7: not with the owner's token, nor with its own; without walls it can"""
    assert approved_itself(house, "unwalled", isolation="none")
    assert not approved_itself(house, "walled-in", isolation="required")


def test_b16_what_an_agent_needs_still_works_inside(house: House, account: Ordinary) -> None:
    """B16: its own folder, the user's other files, git, ssh with included files, and namespaces of its own"""
    (account.home / "notes").mkdir(exist_ok=True)
    os.chown(account.home / "notes", account.uid, account.gid)
    script = f"""
        set -e
        echo mine > made; cat made
        echo note > {account.home}/notes/note; cat {account.home}/notes/note
        git init -q repository; cd repository; git -c user.name=a -c user.email=b commit -q --allow-empty -m empty
        git log --format=%s
        cd ..; git clone -q --bare repository bare.git; git clone -q bare.git clone; ls -d clone/.git
        ssh -G example.org > config; head -1 config
        unshare -Ur id -u
        sh -c 'kill -TERM $$' || echo signals inside
        """
    house.shell("worker", script, isolation="required")
    run, output = house.fire("worker")
    assert run.state == "succeeded", (run.outcome, house.ask("runs.output", run_id=run.id, stream="stderr"))
    assert output.splitlines() == [
        "mine", "note", "empty", "clone/.git", "host example.org", "0", "signals inside"
    ]  # fmt: skip
    assert (house.home / "agents/worker/made").read_text() == "mine\n"


@pytest.mark.parametrize("where", ["home", "agents", "elsewhere in it"])
def test_b16_a_workdir_in_the_home_is_refused(house: House, where: str) -> None:
    """B16: with walls and without"""
    workdir = {"home": house.home, "agents": house.home / "agents", "elsewhere in it": house.home / "matins.db.runs"}
    for isolation in ("auto", "none"):
        house.shell("inside", "true", workdir=str(workdir[where]), isolation=isolation)
        run, _ = house.fire("inside")
        assert run.state == "failed"
        assert "is in the home of Matins" in run.outcome["error"]
        house.ask("schedules.delete", name="inside")


def test_b16_a_workdir_that_holds_the_home_is_seen_without_it(house: House, account: Ordinary) -> None:
    """B16: and is refused without walls"""
    house.shell("around", "ls home; touch here", workdir=str(account.home))
    run, output = house.fire("around")
    assert (run.state, output) == ("succeeded", "agents\n") or (run.state, output) == ("succeeded", "")
    assert (account.home / "here").exists()
    house.ask("agents.edit", name="around", isolation="none")
    run, _ = house.fire("around")
    assert run.state == "failed"
    assert "holds the home of Matins" in run.outcome["error"]


# -- as root


@pytest.fixture(scope="module")
def root_house(root_house: House) -> House:
    return furnished(root_house)


@as_root
def test_b16_root_s_agent_with_an_account_of_its_own_is_kept_out(root_house: House, account: Ordinary) -> None:
    """B16: the only full answer; test_isolation_root.py has agents without an account"""
    without = tried(root_house, "none", isolation="none")
    assert [name for name, succeeded in without["open"].items() if not succeeded] == []
    within = tried(root_house, "walled", user=account.name)
    assert [name for name, succeeded in {**within["open"], **within["shut"]}.items() if succeeded] == []
    assert approved_itself(root_house, "of-root", isolation="none")
    assert not approved_itself(root_house, "of-an-account", user=account.name)
    root_house.shell("plain", "id -un; pwd", user=account.name)
    _, output = root_house.fire("plain")
    assert output.splitlines() == [account.name, str(root_house.home / "agents/plain")]
    assert (root_house.home / "agents/plain").stat().st_uid == account.uid
