"""Machines as namespaces: each has a name, a boot id, processes, a disk and a cable of its own. What is cut is cut."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

_INIT = """
import os, subprocess, sys, time
name, boot, disk, mounted = sys.argv[1:]
for command in (
    ["hostname", name],
    ["mount", "--bind", boot, "/proc/sys/kernel/random/boot_id"],
    ["mount", "--bind", disk, mounted],
):
    subprocess.run(command, check=True)
print("up", flush=True)
while True:  # as every first process does, it waits for those whose parents have ended
    try:
        os.wait()
    except ChildProcessError:
        time.sleep(0.05)
"""


def refusal() -> str | None:
    """Why there can be no machines here; None if there can."""
    missing = [name for name in ("ip", "unshare", "nsenter", "hostname", "flock") if shutil.which(name) is None]
    if missing:
        return (
            f"Machines are namespaces of Linux, and {', '.join(missing)} is missing: install iproute2 and util-linux."
        )
    if os.geteuid() != 0:
        return "Machines are namespaces of Linux with a network of their own, which only root can make."
    tried = subprocess.run(
        ["unshare", "-n", "-m", "-u", "-p", "-f", "--mount-proc", "ip", "link", "add", "a0", "type", "veth"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return f"This kernel makes no namespaces with a network: {tried.stderr.strip()}" if tried.returncode else None


class LocalNetwork:
    """A switch to which machines are connected. The first address is that of this machine."""

    def __init__(self) -> None:
        number = os.getpid() % 250
        self._bridge = f"mtb{os.getpid()}"[:15]
        self._prefix = f"10.231.{number}"
        self.address = self.address_of(1)
        _run("ip", "link", "add", self._bridge, "type", "bridge")
        _run("ip", "addr", "add", f"{self.address}/24", "dev", self._bridge)
        _run("ip", "link", "set", self._bridge, "up")

    def address_of(self, number: int) -> str:
        return f"{self._prefix}.{number}"

    def connect(self, namespace: str, cable: str, number: int) -> None:
        inside = ("ip", "-n", namespace)
        _run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        _run("ip", "link", "set", cable, "master", self._bridge, "up")
        _run(*inside, "addr", "add", f"{self.address_of(number)}/24", "dev", "eth0")
        for device in ("eth0", "lo"):
            _run(*inside, "link", "set", device, "up")

    def close(self) -> None:
        _run("ip", "link", "del", self._bridge)


class Machine:
    """One machine. `mounted` is the same path on all of them, and on each its own disk."""

    def __init__(self, network: LocalNetwork, number: int, name: str, folder: Path, mounted: Path) -> None:
        self.name = name
        self.boots = self.disks = 0
        self.is_cut = False
        self._folder = folder
        self._mounted = mounted
        self._namespace = f"mt{os.getpid()}-{number}"
        self._cable = f"mt{os.getpid()}c{number}"[:15]
        self._init: subprocess.Popen[bytes] | None = None
        self._engine: subprocess.Popen[bytes] | None = None
        folder.mkdir()
        mounted.mkdir(exist_ok=True)
        self.replace_disk()
        _run("ip", "netns", "add", self._namespace)
        network.connect(self._namespace, self._cable, number)

    @property
    def is_on(self) -> bool:
        return self._init is not None

    @property
    def engine_runs(self) -> bool:
        return self._engine is not None and self._engine.poll() is None

    @property
    def log(self) -> Path:
        return self._folder / "log"

    def boot(self) -> None:
        """Start it, with another boot id than before."""
        self.boots += 1
        boot = self._folder / "boot_id"
        boot.write_text(f"{uuid.uuid4()}\n")
        self._init = subprocess.Popen(
            ["ip", "netns", "exec", self._namespace, "unshare", "-m", "-u", "-p", "-f", "--kill-child", "--mount-proc",
             sys.executable, "-c", _INIT, self.name, boot, self._disk, self._mounted],
            stdout=subprocess.PIPE, stderr=self.log.open("ab"),
        )  # fmt: skip
        assert self._init.stdout is not None
        assert self._init.stdout.readline() == b"up\n", self.log.read_text()

    def start(self, program: Sequence[str], environment: dict[str, str]) -> None:
        """Start the engine, in all namespaces of the machine."""
        assert self._init is not None
        first = str(_children(self._init.pid)[0])
        with self.log.open("ab") as output:
            self._engine = subprocess.Popen(
                ["nsenter", "-t", first, "-m", "-u", "-p", "-n", *program],
                env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip

    def kill_engine(self) -> None:
        """kill -9 of the engine: what it started goes on."""
        engine, self._engine = self._engine, None
        if engine is not None and engine.poll() is None:
            for child in _children(engine.pid):
                os.kill(child, signal.SIGKILL)
            engine.wait()

    def power_off(self) -> None:
        """Every process is gone at once."""
        init, self._init = self._init, None
        if init is not None:
            for child in _children(init.pid):
                os.kill(child, signal.SIGKILL)
            init.wait()
        self.kill_engine()

    def cut(self) -> None:
        """Pull the cable: nobody is told."""
        self.is_cut = True
        _run("ip", "link", "set", self._cable, "down")

    def mend(self) -> None:
        self.is_cut = False
        _run("ip", "link", "set", self._cable, "up")

    def replace_disk(self) -> None:
        """Put an empty disk in, while it is off."""
        assert self._init is None
        self.disks += 1
        self._disk = self._folder / f"disk{self.disks}"
        self._disk.mkdir()

    def close(self) -> None:
        self.power_off()
        _run("ip", "netns", "del", self._namespace)


def _children(pid: int) -> list[int]:
    """The children of a process of this machine."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
