"""Starts a command as another user. A warden of root uses it; it has one thread, so a fork is safe."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterable, Mapping, Sequence

_EXEC_FAILED = 127


def spawn_as(
    account: tuple[int, int, list[int]],
    program: str,
    argv: list[str],
    env: Mapping[str, str],
    files: Sequence[int],
    defaults: Iterable[signal.Signals],
) -> int:
    """The process id of the command, in its own session. Raises OSError if it cannot be started."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _become(account, files, defaults)
            os.execve(program, argv, env)
        except OSError as error:
            os.write(writing, b"%d" % (error.errno or errno.EIO))
        finally:
            os._exit(_EXEC_FAILED)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        failed = pipe.read()
    if failed:
        os.waitpid(pid, 0)
        raise OSError(int(failed), os.strerror(int(failed)), program)
    return pid


def _become(account: tuple[int, int, list[int]], files: Sequence[int], defaults: Iterable[signal.Signals]) -> None:
    uid, gid, groups = account
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in (*defaults, signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    copies = [os.dup(fd) for fd in files]  # a target may be one of the sources
    for number, fd in enumerate(copies):
        os.dup2(fd, number)
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
