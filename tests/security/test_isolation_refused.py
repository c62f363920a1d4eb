"""A kernel that refuses namespaces: everything still runs, and says "not isolated" wherever somebody relies on it."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import pytest

from house import House, Ordinary

LAUNCHER = """
import os, sys
from matins.executors.processes import walls
uid, gid = os.getuid(), os.getgid()
walls.unshare(walls.NEW_USER)
walls.map_to_self(uid, gid)
with open("/proc/sys/user/{name}", "w") as file:
    file.write("0")
os.execv(sys.argv[1], sys.argv[1:])
"""
"""In a namespace of its own the user may set the limit that root sets for all."""
REFUSE = """
import ctypes, os, struct, sys
number, first, error = map(int, sys.argv[1:4])
steps = [(0x20, 0, 0, 0), (0x15, 0, 3, number), (0x20, 0, 0, 16), (0x15, 0, 1, first), (0x06, 0, 0, 0x00050000 | error),
         (0x06, 0, 0, 0x7FFF0000)]
if first < 0:
    steps[2:4] = []
    steps[1] = (0x15, 0, 1, number)
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, program) == 0, os.strerror(ctypes.get_errno())
os.execv(sys.argv[4], sys.argv[4:])
"""
"""A filter of the kernel: a system call, or one with this first argument, is not permitted, as in a container. With
error 0 it seems to succeed, and does nothing."""
MAPPED = """
import ctypes, os, struct, sys
from matins.executors.processes import walls
uid, admin = os.getuid(), 21
walls.unshare(walls.NEW_USER)
with open("/proc/self/uid_map", "w") as file:
    file.write(f"{uid} {uid} 1")
libc = ctypes.CDLL(None, use_errno=True)
header, sets = ctypes.create_string_buffer(struct.pack("II", 0x20080522, 0)), ctypes.create_string_buffer(24)
assert libc.capget(header, sets) == 0
low, high = struct.unpack("III", sets.raw[:12]), sets.raw[12:]
sets = ctypes.create_string_buffer(struct.pack("III", low[0], low[1], 1 << admin) + high)
assert libc.capset(header, sets) == 0, os.strerror(ctypes.get_errno())
assert libc.prctl(47, 2, admin, 0, 0) == 0, os.strerror(ctypes.get_errno())
os.execv(sys.argv[1], sys.argv[1:])
"""
"""A namespace that has its map and takes no other: where `unshare` does nothing, writing `uid_map` is not permitted, as
under Ubuntu's AppArmor, which lets the first succeed and refuses the second."""
CALLS = {
    "x86_64": {"mount": 165, "prctl": 157, "unshare": 272},
    "aarch64": {"mount": 40, "prctl": 167, "unshare": 97},
}[platform.machine()]
PROBE = "import json, sys; from matins.executors.processes.walls import probe; print(json.dumps(probe(sys.argv[1])))"
FIX = "sudo sysctl user.max_user_namespaces=10000"
PROBLEM = "unshare: No space left on device"


@pytest.fixture(scope="module")
def house(account: Ordinary) -> Iterator[House]:
    """A daemon of an ordinary user whose kernel makes no user namespaces."""
    up = (sys.executable, "-m", "matins", "up", "--port", "0")
    program = (sys.executable, "-c", LAUNCHER.format(name="max_user_namespaces"), *up)
    one = House(account.home / "home", program=program, user=account).up()
    yield one
    one.kill()


def probed(account: Ordinary, *launcher: str) -> list[object]:
    """What the probe says in a process of its own, started by this launcher."""
    with tempfile.TemporaryDirectory(dir=account.home) as folder:
        os.chown(folder, account.uid, account.gid)
        command = [*launcher, sys.executable, "-c", PROBE, folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False, **account.process)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def limited(name: str) -> tuple[str, ...]:
    return (sys.executable, "-c", LAUNCHER.format(name=name))


def refused(call: str, first: int = -1, error: int = 1) -> tuple[str, ...]:
    return (sys.executable, "-c", REFUSE, str(CALLS[call]), str(first), str(error))


IDLE = refused("unshare", error=0)
WITHOUT_MAP = (sys.executable, "-c", MAPPED, *IDLE)
NO_MAP = "uid_map: Operation not permitted"

REFUSALS = [
    (limited("max_user_namespaces"), PROBLEM, "unshare"),
    (limited("max_mnt_namespaces"), PROBLEM, "unshare"),
    (refused("mount"), "mount /: Operation not permitted", "mount"),
    (refused("prctl", 4), "prctl: Operation not permitted", "prctl"),
    (IDLE, "setgroups: Permission denied", "setgroups"),
    (WITHOUT_MAP, NO_MAP, "uid_map"),
]


@pytest.mark.parametrize(
    ("launcher", "problem", "step"), REFUSALS, ids=["user", "mnt", "mount", "dumpable", "setgroups", "uid_map"]
)
def test_b16_the_probe_names_the_step_that_the_kernel_refuses(
    account: Ordinary, launcher: tuple[str, ...], problem: str, step: str
) -> None:
    """B16: and works where nothing is refused"""
    assert probed(account, *launcher)[:3] == [False, problem, step]
    assert probed(account)[0] is True


def test_b16_the_greeting_says_it_with_the_fix(house: House) -> None:
    """B16"""
    (line,) = [line for line in house.said if line.startswith("  agents ")]
    assert line == f"  agents  not isolated: {PROBLEM}. {FIX}"


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


def test_b16_a_system_that_refuses_the_map_runs_agents_and_says_so(account: Ordinary) -> None:
    """B16: Ubuntu's AppArmor, played: `auto` runs and says it with the fix, `required` refuses"""
    up = (sys.executable, "-m", "matins", "up", "--port", "0")
    folder = account.home / "without-map"
    folder.mkdir()
    os.chown(folder, account.uid, account.gid)
    one = House(folder / "home", program=(*WITHOUT_MAP, *up), user=account).up()
    try:
        (line,) = [line for line in one.said if line.startswith("  agents ")]
        assert line.startswith(f"  agents  not isolated: {NO_MAP}. On Ubuntu: sudo sysctl")
        assert "kernel.apparmor_restrict_unprivileged_userns=0" in line
        one.shell("plain", "echo ran")
        run, output = one.fire("plain")
        assert (run.state, output, run.outcome["result"]["isolated"]) == ("succeeded", "ran\n", False)
        one.shell("must", "echo ran", isolation="required")
        run, output = one.fire("must")
        assert (run.state, output) == ("failed", "")
        assert f"It cannot be isolated: {NO_MAP}" in run.outcome["error"]
    finally:
        one.kill()
