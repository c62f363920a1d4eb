"""A kernel that refuses namespaces: everything still runs, and says "not isolated" wherever somebody relies on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from house import House, Ordinary, ordinary_account

LAUNCHER = """
import os, sys
from matins.executors.processes import namespaces
uid, gid = os.getuid(), os.getgid()
namespaces.unshare(namespaces.NEW_USER)
namespaces.map_to_self(uid, gid)
with open("/proc/sys/user/{name}", "w") as file:
    file.write("0")
os.execv(sys.argv[1], sys.argv[1:])
"""
"""In a namespace of its own the user may set the limit that root sets for all."""
PROBE = "import json, sys; from matins.executors.processes.walls import probe; print(json.dumps(probe(sys.argv[1])))"
FIX = "sudo sysctl user.max_user_namespaces=10000"
PROBLEM = "unshare: No space left on device"


@pytest.fixture(scope="module")
def account() -> Iterator[Ordinary]:
    with ordinary_account() as made:
        yield made


@pytest.fixture(scope="module")
def house(account: Ordinary) -> Iterator[House]:
    """A daemon of an ordinary user whose kernel makes no user namespaces."""
    up = (sys.executable, "-m", "matins", "up", "--port", "0")
    program = (sys.executable, "-c", LAUNCHER.format(name="max_user_namespaces"), *up)
    one = House(account.home / "home", program=program, user=account).up()
    yield one
    one.kill()


def probed(account: Ordinary, limit: str | None) -> list[object]:
    """What the probe says in a process of its own, where a limit of the kernel is 0."""
    folder = account.home / f"probe-{limit}"
    folder.mkdir(exist_ok=True)
    os.chown(folder, account.uid, account.gid)
    command = [sys.executable, "-c", PROBE, str(folder)]
    if limit is not None:
        command = [sys.executable, "-c", LAUNCHER.format(name=limit), *command]
    done = subprocess.run(command, capture_output=True, text=True, check=True, **account.process)

    return json.loads(done.stdout)


@pytest.mark.parametrize("limit", ["max_user_namespaces", "max_mnt_namespaces"])
def test_b16_the_probe_names_the_step_that_the_kernel_refuses(account: Ordinary, limit: str) -> None:
    """B16: and works where nothing is refused"""
    works, problem, step, *_ = probed(account, limit)
    assert (works, problem, step) == (False, PROBLEM, "unshare")
    assert probed(account, None)[0] is True


def test_b16_the_greeting_says_it_with_the_fix(house: House) -> None:
    """B16"""
    (line,) = [line for line in house.said if line.startswith("  agents ")]
    assert line == f"  agents not isolated: {PROBLEM}. {FIX}"


def test_b16_doctor_says_it_with_the_command_that_fixes_it(house: House) -> None:
    """B16"""
    house.ask("agents.set", name="doc", runner="demo")
    (found,) = [one for one in house.ask("system.doctor") if "The agent doc is" in one["sentence"]]
    assert found["sentence"].startswith(f"The agent doc is not isolated: {PROBLEM}")
    assert found["fix"] == FIX


def test_b16_every_run_says_it(house: House) -> None:
    """B16: the run starts all the same; `required` refuses before anything is spent"""
    house.shell("plain", "echo ran")
    run, output = house.fire("plain")
    assert (run.state, output, run.outcome["result"]["isolated"]) == ("succeeded", "ran\n", False)
    assert "no: the run was not isolated" in house.matins("runs", "show", run.id)
    house.shell("must", "echo ran", isolation="required")
    run, output = house.fire("must")
    assert (run.state, output) == ("failed", "")
    assert f"It cannot be isolated: {PROBLEM}" in run.outcome["error"]
    assert FIX in run.outcome["error"]


def test_b16_every_approval_says_it(house: House) -> None:
    """B16 B7"""
    house.ask("agents.set", name="asks", runner="demo")
    house.ask("schedules.add", name="asks", when="every 1 day", agent="asks", prompt="Go.", approval="owner_approve")
    assert house.client.runs.wait(house.client.run("asks").id, timeout=60).status == "awaiting_approval"
    (asked,) = [one for one in house.ask("approvals.list") if one["schedule"] == "asks"]
    request = house.ask("approvals.get", approval_id=asked["id"])["request"]
    assert request["isolation"] == f"not isolated: {PROBLEM}"
    assert f"not isolated: {PROBLEM}" in house.matins("approvals", "show", asked["id"])
