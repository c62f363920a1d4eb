"""What an agent tries in order to free itself. A program without dependencies: it runs inside a run, and prints which
attacks succeeded.

Usage: attacks.py HOME ENGINE KEEPER OUTSIDER OTHER NEIGHBOUR WARDEN, where OUTSIDER is a plain process of the same
user, OTHER the name of another agent, NEIGHBOUR a process of another agent's run, and WARDEN the one that guards it.
"""
# ruff: noqa: PTH115, PTH119, PTH120, PTH123, PTH208, T201

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable

HOME, ENGINE, KEEPER, OUTSIDER, OTHER, NEIGHBOUR, WARDEN = sys.argv[1:8]
LIBC = ctypes.CDLL(None, use_errno=True)


def read(path: str) -> bool:
    with open(path, "rb") as file:
        return len(file.read(16)) > 0


def tried(attack: Callable[[], object]) -> bool:
    try:
        return bool(attack())
    except (OSError, subprocess.SubprocessError):
        return False


def connect(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(path)
        return True


def signalled(pid: str) -> bool:
    os.kill(int(pid), 0)
    return True


def appended(path: str) -> bool:
    with open(path, "a") as file:
        file.write("# changed\n")
        return True


def listed(path: str) -> bool:
    return set(os.listdir(path)) - {"agents", "none", "walled"} != set()


def in_namespaces(script: str) -> bool:
    """Whether a script prints the token, in namespaces of its own with all their capabilities."""
    done = subprocess.run(["unshare", "-Urm", "sh", "-c", script], capture_output=True, timeout=20)
    return b"mtn_" in done.stdout


def covers() -> str:
    return f"umount -l {HOME}; umount {HOME}; mount -o remount,rw,bind {HOME}"


def traced(pid: str) -> bool:
    """PTRACE_SEIZE, which stops nobody."""
    if LIBC.ptrace(0x4206, int(pid), None, None) != 0:
        return False
    return LIBC.ptrace(17, int(pid), None, None) is not None


def entered(pid: str) -> bool:
    """A mount namespace, from a user namespace in which this process may do everything."""
    script = f"nsenter --mount=/proc/{pid}/ns/mnt cat {HOME}/token"
    return in_namespaces(script)


def nsentered(pid: str) -> bool:
    """The same without a namespace of its own, and by the system call."""
    namespace = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
    return LIBC.setns(namespace, 0) == 0 and read(f"{HOME}/token")


def taken(pid: str) -> bool:
    """A descriptor of another process."""
    handle = os.pidfd_open(int(pid))
    return any(LIBC.syscall(438, handle, number, 0) >= 0 for number in range(64))


def parent_of(path: str) -> str:
    return os.path.dirname(path)


def linked(path: str) -> bool:
    """A second name for a file, in the agent's own folder."""
    os.link(path, "linked")
    return read("linked")


def opened_by_handle(path: str) -> bool:
    """A file by the number that its file system gives it, past every mount."""
    handle = ctypes.create_string_buffer((128).to_bytes(4, sys.byteorder) + bytes(132))
    mount = ctypes.c_int()
    if LIBC.name_to_handle_at(-100, path.encode(), handle, ctypes.byref(mount), 0) != 0:
        return False
    folder = os.open("/", os.O_RDONLY)
    return LIBC.open_by_handle_at(folder, handle, os.O_RDONLY) >= 0


def inspected(pid: str) -> bool:
    """The maps of a process, what its descriptors are, or its folder."""
    links = [f"/proc/{pid}/fd/{number}" for number in range(8)]
    return any(
        (
            tried(lambda: read(f"/proc/{pid}/maps")),
            tried(lambda: os.listdir(f"/proc/{pid}/cwd")),
            *(tried(lambda link=link: os.readlink(link)) for link in links),
        )
    )


ATTACKS: dict[str, Callable[[], object]] = {
    "read the token": lambda: read(f"{HOME}/token"),
    "read the store": lambda: read(f"{HOME}/matins.db"),
    "read a backup": lambda: read(f"{HOME}/backup.db"),
    "connect to the owner's socket": lambda: connect(f"{HOME}/matins.db.sock"),
    "connect to the keeper": lambda: connect(f"{HOME}/matins.db.runs/keeper.sock"),
    "write the file": lambda: appended(f"{HOME}/matins.yaml"),
    "list the home": lambda: listed(HOME),
    "read another agent's folder": lambda: read(f"{HOME}/agents/{OTHER}/secret"),
    "read another agent's output": lambda: any(
        tried(lambda name=name: read(f"{HOME}/matins.db.runs/runs/{name}"))
        for name in os.listdir(f"{HOME}/matins.db.runs/runs")
    ),
    "leave by ..": lambda: read("../../token"),
    "leave by the folder of its process": lambda: read("/proc/self/cwd/../../token"),
    "link the token": lambda: linked(f"{HOME}/token"),
    "inspect an outsider": lambda: inspected(OUTSIDER),
    "root of an outsider": lambda: read(f"/proc/{OUTSIDER}/root{HOME}/token"),
    "folder of an outsider": lambda: read(f"/proc/{OUTSIDER}/cwd/token"),
    "environment of an outsider": lambda: read(f"/proc/{OUTSIDER}/environ"),
    "memory of an outsider": lambda: os.open(f"/proc/{OUTSIDER}/mem", os.O_RDONLY),
    "trace an outsider": lambda: traced(OUTSIDER),
    "descriptors of an outsider": lambda: taken(OUTSIDER),
    "environment of another run": lambda: read(f"/proc/{NEIGHBOUR}/environ"),
    "memory of another run": lambda: os.open(f"/proc/{NEIGHBOUR}/mem", os.O_RDONLY),
    "trace another run": lambda: traced(NEIGHBOUR),
    "descriptors of another run": lambda: taken(NEIGHBOUR),
    "folder of another run": lambda: os.listdir(f"/proc/{NEIGHBOUR}/cwd"),
    "signal another run": lambda: signalled(NEIGHBOUR),
    "signal another run's warden": lambda: signalled(WARDEN),
    "signal its warden": lambda: signalled(str(os.getppid())),
    "signal the engine": lambda: signalled(ENGINE),
    "signal the keeper": lambda: signalled(KEEPER),
    "remove the cover": lambda: in_namespaces(f"{covers()}; cat {HOME}/token"),
    "bind the parent": lambda: in_namespaces(
        f"mkdir -p p; mount --rbind {parent_of(HOME)} p; umount -l p/{os.path.basename(HOME)};"
        f"cat p/{os.path.basename(HOME)}/token"
    ),
    "bind the parent alone": lambda: in_namespaces(
        f"mkdir -p q; mount --bind {parent_of(HOME)} q; cat q/{os.path.basename(HOME)}/token"
    ),
    "overlay the parent": lambda: in_namespaces(
        f"mkdir -p o u w; mount -t overlay overlay -o lowerdir={parent_of(HOME)},upperdir=u,workdir=w o;"
        f"cat o/{os.path.basename(HOME)}/token {HOME}/token"
    ),
    "move the cover": lambda: in_namespaces(f"mkdir -p m; mount --move {HOME} m; cat {HOME}/token"),
    "another proc": lambda: in_namespaces(
        f"unshare -p -f --mount-proc cat {HOME}/token; cat /proc/{OUTSIDER}/root{HOME}/token"
    ),
    "enter an outsider's mounts": lambda: in_namespaces(f"cat {HOME}/token") or entered(OUTSIDER),
}
SHUT = {
    "root of the engine": lambda: read(f"/proc/{ENGINE}/root{HOME}/token"),
    "environment of the engine": lambda: read(f"/proc/{ENGINE}/environ"),
    "memory of the engine": lambda: os.open(f"/proc/{ENGINE}/mem", os.O_RDONLY),
    "trace the engine": lambda: traced(ENGINE),
    "descriptors of the engine": lambda: taken(ENGINE),
    "inspect the engine": lambda: inspected(ENGINE),
    "enter the engine's mounts": lambda: nsentered(ENGINE),
    "open by handle": lambda: opened_by_handle(HOME) and opened_by_handle(f"{HOME}/token"),
    "root of the keeper": lambda: read(f"/proc/{KEEPER}/root{HOME}/token"),
    "memory of the keeper": lambda: os.open(f"/proc/{KEEPER}/mem", os.O_RDONLY),
    "trace the keeper": lambda: traced(KEEPER),
    "descriptors of the keeper": lambda: taken(KEEPER),
    "inspect the keeper": lambda: inspected(KEEPER),
    "enter the keeper's mounts": lambda: nsentered(KEEPER),
    "root of another run's warden": lambda: read(f"/proc/{WARDEN}/root{HOME}/token"),
    "environment of another run's warden": lambda: read(f"/proc/{WARDEN}/environ"),
    "memory of another run's warden": lambda: os.open(f"/proc/{WARDEN}/mem", os.O_RDONLY),
    "trace another run's warden": lambda: traced(WARDEN),
    "descriptors of another run's warden": lambda: taken(WARDEN),
    "inspect another run's warden": lambda: inspected(WARDEN),
    "enter another run's warden's mounts": lambda: nsentered(WARDEN),
    "memory of its warden": lambda: os.open(f"/proc/{os.getppid()}/mem", os.O_RDONLY),
    "descriptors of its warden": lambda: taken(str(os.getppid())),
    "inspect its warden": lambda: inspected(str(os.getppid())),
    "enter its warden's mounts": lambda: nsentered(str(os.getppid())),
    "environment of the keeper": lambda: read(f"/proc/{KEEPER}/environ"),
    "environment of its warden": lambda: read(f"/proc/{os.getppid()}/environ"),
    "root of its warden": lambda: read(f"/proc/{os.getppid()}/root{HOME}/token"),
    "trace its warden": lambda: traced(str(os.getppid())),
}
"""Refused with walls and without: these processes are not dumpable."""

if __name__ == "__main__":
    signal.alarm(100)
    tables = {"open": ATTACKS, "shut": SHUT}
    print(json.dumps({table: {name: tried(run) for name, run in found.items()} for table, found in tables.items()}))
