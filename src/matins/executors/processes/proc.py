"""Processes and clocks of this machine. Standalone processes use it, so it imports only the standard library.

Pids are reused within seconds, so a process is identified by pid and start time.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Container, Iterable, Iterator
from typing import NamedTuple

_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_MAX_ENVIRONMENT_BYTES = 4 * 1024 * 1024
HAS_PROC = sys.platform == "linux"


class Process(NamedTuple):
    pid: int
    start: int
    """Start time, in ticks since boot."""
    parent: int
    is_zombie: bool
    """It has ended and is not reaped yet. A process whose first thread alone has ended looks so too, and lives."""


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def boot_ms() -> int:
    """A clock that continues during sleep and cannot be set."""
    return time.clock_gettime_ns(_BOOT_CLOCK) // 1_000_000


def boot_id() -> str:
    """Identifies this boot and this container: pids have no meaning outside."""
    text = _read("/proc/sys/kernel/random/boot_id")
    if text is None:
        return "unknown"
    return f"{text.decode().strip()} {os.stat('/proc/self/ns/pid').st_ino}"  # noqa: PTH116 - avoids importing pathlib


def kernel_boot_id() -> str:
    """Identifies this boot of the machine, in every container: files that were written and not synced survive in it."""
    return boot_id().partition(" ")[0]


def read_process(pid: int) -> Process | None:
    stat = _read(f"/proc/{pid}/stat")
    if not stat:
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()  # the name before it may contain anything
    return Process(pid, int(fields[19]), int(fields[1]), fields[0] in b"ZX" and int(fields[17]) <= 1)


def start_of(pid: int) -> int:
    """The start time; 0 where the system does not provide it."""
    process = read_process(pid)
    return 0 if process is None else process.start


def find(pid: int, start: int) -> Process | None:
    """The process with this pid and start time, while it lives."""
    process = read_process(pid)
    return process if process and process.start == start and not process.is_zombie else None


def state_of(process: Process) -> str:
    """The letter of its state in /proc; empty when the process is gone."""
    stat = _read(f"/proc/{process.pid}/stat")
    if not stat:
        return ""
    fields = stat[stat.rindex(b")") + 2 :].split()
    return fields[0].decode() if int(fields[19]) == process.start else ""


def is_stopped(process: Process) -> bool:
    """Whether a signal or a debugger has stopped the process."""
    return state_of(process) in ("T", "t")


def living() -> Iterator[Process]:
    if not HAS_PROC:
        return
    with os.scandir("/proc") as entries:
        pids = [int(entry.name) for entry in entries if entry.name.isdigit()]
    for pid in pids:
        process = read_process(pid)
        if process is not None and not process.is_zombie:
            yield process


def descendants(*roots: int, sparing: Container[int] = ()) -> list[Process]:
    """Parents before children. Excludes the roots, and every spared process with its descendants."""
    by_parent: dict[int, list[Process]] = {}
    for process in living():
        if process.pid not in sparing:
            by_parent.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    ahead = list(roots)
    while ahead:
        children = by_parent.pop(ahead.pop(), [])
        found += children
        ahead += [child.pid for child in children]
    return found


def send(processes: Iterable[Process], number: int) -> None:
    """Signal exactly these processes. A reused pid is not signalled."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            handle = os.pidfd_open(process.pid)
            try:
                if start_of(process.pid) == process.start:
                    signal.pidfd_send_signal(handle, number)
            finally:
                os.close(handle)


def stop_all(found: Callable[[], Iterable[Process]], max_rounds: int | None = None) -> tuple[set[Process], bool]:
    """Stop the found processes until no new one appears: stopped ones cannot fork. The second value is False when new
    ones still appeared after `max_rounds`."""
    stopped: set[Process] = set()
    rounds = 0
    while fresh := set(found()) - stopped:
        if rounds == max_rounds:
            return stopped, False
        send(fresh, signal.SIGSTOP)
        stopped |= fresh
        rounds += 1
    return stopped, True


def kill_all(found: Callable[[], Iterable[Process]], max_rounds: int | None = None) -> set[Process]:
    """Kill and return the found processes. They are stopped first."""
    stopped, _ = stop_all(found, max_rounds)
    send(stopped, signal.SIGKILL)
    return stopped


def with_variable(variable: str) -> list[Process]:
    """Processes with exactly this `NAME=value` in their environment."""
    wanted = os.fsencode(variable)
    return [process for process in living() if wanted in _environment(process.pid)]


def _environment(pid: int) -> list[bytes]:
    return (_of_process(pid, "environ", b"", _MAX_ENVIRONMENT_BYTES) or b"").split(b"\0")


def anonymous_bytes(processes: Iterable[Process]) -> int:
    """Memory of the processes that no file backs."""
    pages = 0
    for process in processes:
        statm = _of_process(process.pid, "statm", b"0 0 0 0 0 0 0\n")
        if statm:
            _, resident, shared, *_ = map(int, statm.split())
            pages += resident - shared
    return pages * _PAGE_BYTES


def _of_process(pid: int, name: str, ended: bytes, max_bytes: int = 4096) -> bytes | None:
    """A file of a process in /proc. Where its first thread has ended, it is empty or says `ended`, and that of another
    thread tells."""
    found = _read(f"/proc/{pid}/{name}", max_bytes)
    if found and found != ended:
        return found
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - avoids importing pathlib
            other = _read(f"/proc/{pid}/task/{thread}/{name}", max_bytes)
            if other and other != ended:
                return other
    return found


def thread_count() -> int:
    """Number of threads on the machine; cheap to read."""
    text = _read("/proc/loadavg")
    return int(text.split()[3].partition(b"/")[2]) if text else 0


def _read(path: str, max_bytes: int = 4096) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        return os.read(fd, max_bytes)
    except ProcessLookupError:
        return None
    finally:
        os.close(fd)


def wait_gone(process: Process, limit_ms: int) -> bool:
    """Wait for the end of the process. False when the limit passes first."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        return find(process.pid, process.start) is None or bool(poll.poll(limit_ms))
    finally:
        os.close(handle)
