"""Limits of a process tree: rlimits, and sampling of its processes and memory."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Generator
from typing import Any

from matins.executors.processes import proc

BUDGET_GRACE_MS = 1_000
"""The grace after a budget is spent: a tool that ignores TERM continues to spend."""
_CPU_GRACE_S = 2
_QUICK_CHECK_MS = 50
_FULL_CHECK_MS = 500
_SPARE_THREADS = 500
_UNUSED_BYTES = 1 << 30
"""Tools reserve memory that they never use: with 512 MB of data most of them do not start."""
_THREADS_EACH, _MORE_THREADS = 4, 64


@contextlib.contextmanager
def inherited(limits: dict[str, Any]) -> Generator[None]:
    """Set the limits on this process, so that a command started now has them from its first instruction.

    Only the soft limits: they can be raised again. A function between fork and exec would prevent vfork.
    """
    wanted = _by_system(limits)
    before = {which: resource.getrlimit(which) for which in wanted}
    try:
        for which, (soft, _) in wanted.items():
            resource.setrlimit(which, (_within(soft, before[which][1]), before[which][1]))
        yield
    finally:
        for which, pair in before.items():
            resource.setrlimit(which, pair)


def harden(pid: int, limits: dict[str, Any], *, counted_alone: bool) -> None:
    """Set the hard limits too, so that the command cannot raise them. `counted_alone`: the kernel counts the processes
    of this tree apart from the user's others, because it has a user namespace of its own."""
    if not hasattr(resource, "prlimit"):
        return
    wanted = _by_system(limits)
    if limits["processes"] is not None:
        maximum = _THREADS_EACH * limits["processes"] + _MORE_THREADS
        if not counted_alone:  # all threads of the user count, so it only slows the tree down until the next check
            maximum = proc.thread_count() + 2 * limits["processes"] + _SPARE_THREADS
        wanted[resource.RLIMIT_NPROC] = maximum, maximum
    with contextlib.suppress(ProcessLookupError, PermissionError):
        for which, (soft, hard) in wanted.items():
            maximum = resource.prlimit(pid, which)[1]
            resource.prlimit(pid, which, (_within(soft, maximum), _within(hard, maximum)))


def _by_system(limits: dict[str, Any]) -> dict[int, tuple[int, int]]:
    wanted: dict[int, tuple[int, int]] = {}
    if limits["memory_bytes"] is not None:
        maximum = limits["memory_bytes"] + _UNUSED_BYTES
        wanted[resource.RLIMIT_DATA] = maximum, maximum
    if limits["files"] is not None:
        wanted[resource.RLIMIT_NOFILE] = limits["files"], limits["files"]
    if limits["cpu_s"] is not None:
        wanted[resource.RLIMIT_CPU] = limits["cpu_s"], limits["cpu_s"] + _CPU_GRACE_S
    if limits["file_bytes"] is not None:
        wanted[resource.RLIMIT_FSIZE] = limits["file_bytes"], limits["file_bytes"]
    return wanted


def _within(wanted: int, maximum: int) -> int:
    return wanted if maximum == resource.RLIM_INFINITY else min(wanted, maximum)


class TreeWatch:
    """Checks the tree twice a second, and sooner when the number of threads rises quickly."""

    def __init__(self, limits: dict[str, Any], now: int) -> None:
        self._memory: int | None = limits["memory_bytes"]
        self._processes: int | None = limits["processes"]
        self.next_check = None if self._memory is None and self._processes is None else now + _QUICK_CHECK_MS
        self._next_full_check = now + _FULL_CHECK_MS
        self._thread_count = 0 if self.next_check is None else proc.thread_count()

    def exceeded(self, now: int) -> str | None:
        """The limit that the tree exceeds."""
        if self.next_check is None or now < self.next_check:
            return None
        self.next_check = now + _QUICK_CHECK_MS
        threads = proc.thread_count()
        if now < self._next_full_check and threads - self._thread_count <= (self._processes or threads) // 2:
            return None
        self._next_full_check, self._thread_count = now + _FULL_CHECK_MS, threads
        return self._full_check()

    def _full_check(self) -> str | None:
        tree = proc.descendants(os.getpid())
        if self._processes is not None and len(tree) > self._processes:
            return "processes"
        if self._memory is not None and proc.anonymous_bytes(tree) > self._memory:
            return "memory"
        return None
