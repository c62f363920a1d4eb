"""One command and its descendants, from the first line of the journal to the last, inside a warden.

Starts a command as another user. A warden of root uses it; it has one thread, so a fork is safe.

Limits of a process tree: rlimits, and sampling of its processes and memory.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import shutil
import signal
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any

from matins.executors.processes import proc
from matins.executors.processes import run_folder as journal
from matins.executors.processes.output import CHUNK, ERR, OUT, LineWatch, Output, OutputFile, file_names
from matins.executors.processes.run_folder import RunFolder
from matins.executors.processes.walls import Layout, Walls

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
        tree = proc.descendants(os.getpid())
        if self._processes is not None and len(tree) > self._processes:
            return "processes"
        if self._memory is not None and proc.anonymous_bytes(tree) > self._memory:
            return "memory"
        return None


_LINGER_MS = 200
"""Time for leftover processes to end by themselves before TERM."""
_REPEAT_KILL_MS = 100
_FILE_MS = 100
"""How often a file is read; unlike a pipe, it does not say when there is more."""
_IGNORED_BY_US = [signal.SIGPIPE, signal.SIGXFSZ, signal.SIGXCPU]
_BY_SIGNAL = {int(signal.SIGXCPU): "cpu", int(signal.SIGXFSZ): "file_size"}
"""Limits that the kernel enforces, by the signal that ends a command."""
_MAX_READS = 64
_MAX_PARTS = 64


class ProcessTree:
    def __init__(
        self,
        launch: dict[str, Any],
        stdin: int | None,
        run_folder: RunFolder,
        warden: list[int],
        walls: Walls | None = None,
    ) -> None:
        self.key: str = launch["key"]
        self.attached: bool = launch["attached"]
        """Whether it ends with its engine."""
        self.failed: str | None = None
        self._errno: int | None = None
        """Why the command could not be started."""
        self.outputs: dict[int, Output] = {}
        """Outputs, by the pipe that each reads from."""
        self._file: OutputFile | None = None
        """Instead of the pipe of stdout, for a command that needs one."""
        self._has_more = False
        """Whether the file has a part that was not read."""
        self._launch = launch
        self._walls = walls
        self._layout = None if launch["layout"] is None else Layout(*map(tuple, launch["layout"]))
        self._limits: dict[str, Any] = launch["limits"]
        self._stdin = stdin
        self._run_folder = run_folder
        self._mark = {journal.WARDEN: journal.warden_name(*warden)}
        self._journal = journal.open_run(run_folder.runs_fd, self.key)
        self._out, self._err = (self._output(suffix) for suffix in (OUT, ERR))
        retries = launch["retries"]
        self._lines = {self._out: LineWatch(launch["finals"], retries), self._err: LineWatch([], retries)}
        self._pid: int | None = None
        self._status: int | None = None
        self._usage = [0, 0.0, 0.0]
        self._others: set[int] = set()
        self._ended_by: str | None = None
        self._started_boot_ms = self._last_output_at = proc.boot_ms()
        self._started_at = proc.wall_ms()
        self._leased_at: int = launch["leased_at"] or self._started_boot_ms
        self._finished = False
        """Whether the final event was seen."""
        self._term_at: int | None = None
        self._kill_at: int | None = None
        self._watch = TreeWatch(self._limits, self._started_boot_ms)

    def _output(self, suffix: str) -> Output:
        secrets = [secret.encode("latin-1") for secret in self._launch["secrets"]]
        sizes = self._launch["head_bytes"], self._launch["tail_bytes"]
        return Output(self._run_folder.runs_fd, self.key + suffix, *sizes, secrets)

    # -- the journal

    def claim(self, owner: journal.Record) -> bool:
        """Whether this warden owns the run: its line is the first complete one."""
        self.append(owner)
        if self._launch["fsync"]:  # only the first line: without the last one, the outcome is unknown
            os.fsync(self._journal)
            os.fsync(self._run_folder.runs_fd)
        return journal.records(self._journal)[0] == owner

    def append(self, record: journal.Record) -> None:
        journal.append(self._journal, record)

    def close(self) -> None:
        os.close(self._journal)

    def delete_files(self) -> None:
        for name in (self.key, *file_names(self.key)):
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=self._run_folder.runs_fd)

    # -- life of the command

    def begin(self) -> None:
        """Start the command; `failed` has the reason when that is impossible."""
        with contextlib.ExitStack() as ours:
            try:
                self._start([self._piped(output, ours) for output in (self._out, self._err)])
            except (OSError, ValueError, MemoryError) as error:
                self.failed = _error_text(error)
                self._errno = errno.ENOMEM if isinstance(error, MemoryError) else getattr(error, "errno", None)

    def _piped(self, output: Output, ours: contextlib.ExitStack) -> int:
        """The command's end of a new pipe or file; our copy closes after the start."""
        if output is self._out and self._launch["stdout_file"]:
            self._file = OutputFile()
            ours.callback(os.close, self._file.writing_end)
            return self._file.writing_end
        reading, writing = os.pipe()
        ours.callback(os.close, writing)
        os.set_blocking(reading, False)
        self.outputs[reading] = output
        return writing

    def _start(self, ends: list[int]) -> None:
        argv, env = self._launch["argv"], self._launch["env"] | self._mark
        files = [0 if self._stdin is None else self._stdin, *ends]  # descriptor 0 of the warden is /dev/null
        with self._view():
            os.chdir(self._launch["cwd"])  # in the view: a folder that was entered before leads out of it by `..`
            program = _find_program(argv[0], env)
            with inherited(self._limits):
                self._pid = self._spawn(program, argv, env, files)
        alone = self._walls is not None and self._walls.counts_alone
        harden(self._pid, self._limits, counted_alone=alone)
        with contextlib.suppress(OSError):  # a full disk: the command can run and be ended without this line
            journal.append(self._journal, {"pid": [self._pid, proc.start_of(self._pid)]})

    def _spawn(self, program: str, argv: list[str], env: dict[str, str], files: list[int]) -> int:
        if (account := self._launch["account"]) is not None:  # another user cannot signal its warden
            return spawn_as(account, program, argv, env, files, _IGNORED_BY_US)

        def spawn() -> int:
            return os.posix_spawn(
                program,
                argv,
                env,
                file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(files)],
                setsid=True,
                setsigdef=_IGNORED_BY_US,
            )

        return spawn() if self._walls is None else self._walls.spawn(spawn)

    @contextlib.contextmanager
    def _view(self) -> Generator[None]:
        """What the command sees, while it is started."""
        if self._walls is not None and self._layout is not None:
            with self._walls.entered(self._layout):
                yield
            return
        try:
            yield
        finally:
            os.chdir("/")

    def read(self, pipe: int) -> bool:
        """Read one chunk. False at the end of the output, when the pipe is closed."""
        try:
            chunk = os.read(pipe, CHUNK)
        except BlockingIOError:
            return True
        output = self.outputs[pipe]
        if not chunk:
            os.close(pipe)
            del self.outputs[pipe]
            return False
        self._take(output, chunk)
        return True

    def _take(self, output: Output, chunk: bytes) -> None:
        output.write(chunk)
        seen = self._lines[output].feed(chunk)
        self._finished = self._finished or seen.final
        if seen.progress:
            self._last_output_at = proc.boot_ms()

    def _read_file(self, file: OutputFile) -> None:
        """Read a part: a command can make its file too large to read in one turn."""
        for _ in range(_MAX_READS):
            if not (chunk := file.read(CHUNK)):
                self._has_more = False
                return
            self._take(self._out, chunk)
        self._has_more = True

    def _read_rest(self, file: OutputFile) -> None:
        """Read the rest; of a very long one the end, as after a flood through a pipe."""
        for _ in range(_MAX_PARTS):
            self._read_file(file)
            if not self._has_more:
                return
        self._out.total_bytes += file.skip_to_last(_MAX_READS * CHUNK // 2)
        self._read_file(file)

    def advance(self, now: int) -> bool:
        """Whether the command and everything it started are over."""
        if self._file is not None:
            self._read_file(self._file)
        if self._reap():
            return True
        if self._status is not None and self._term_at is None:
            self._term_at = now + _LINGER_MS
        reason = None if self._status is not None or self._kill_at is not None else self._exceeded(now)
        if reason is not None:
            self.end(reason)
        elif self._kill_at is not None and now >= self._kill_at:
            self._kill(now)
        elif self._kill_at is None and self._term_at is not None and now >= self._term_at:
            self._terminate(now)
        return False

    def next_check_at(self) -> int | None:
        """When the next `advance` is due, even without an event."""
        instants = [self._term_at if self._kill_at is None else None, self._kill_at]
        if self._file is not None:
            instants.append(proc.boot_ms() + (0 if self._has_more else _FILE_MS))
        if self._kill_at is None and self._status is None:
            instants += [at for _, at in self._deadlines()]
            instants.append(self._watch.next_check)
        return min((at for at in instants if at is not None), default=None)

    def remaining_ms(self, now: int) -> int | None:
        """Until the timeout; None without one."""
        timeout_ms: int | None = self._limits["timeout_ms"]
        return None if timeout_ms is None else self._started_boot_ms + timeout_ms - now

    @property
    def grace_ms(self) -> int:
        return self._limits["grace_ms"]

    def renew(self, leased_at: int) -> None:
        """Let the lease count since then, in boot time."""
        self._leased_at = max(self._leased_at, leased_at)

    def end(self, reason: str) -> None:
        """Send TERM to all processes, and KILL to the rest after the grace."""
        if self._kill_at is None:
            self._ended_by = self._ended_by or (reason if self._status is None else None)
            self._terminate(proc.boot_ms())

    # -- the end

    def _deadlines(self) -> list[tuple[str, int]]:
        after_final = self._finished and self._limits["exit_timeout_ms"] is not None
        since = {
            "timeout": self._started_boot_ms,
            "lease": self._leased_at,
            "exit_timeout" if after_final else "idle_timeout": self._last_output_at,
        }
        limits = ((name, at, self._limits[f"{name}_ms"]) for name, at in since.items())
        return [(name, at + limit) for name, at, limit in limits if limit is not None]

    def _exceeded(self, now: int) -> str | None:
        late = [name for name, at in self._deadlines() if now >= at]
        return late[0] if late else self._watch.exceeded(now)

    def _terminate(self, now: int) -> None:
        grace_ms = self.grace_ms
        self._kill_at = now + (min(grace_ms, BUDGET_GRACE_MS) if self._ended_by == "budget" else grace_ms)
        tree = proc.descendants(os.getpid())
        self._others.update(process.pid for process in tree)
        proc.send(tree, signal.SIGTERM)
        proc.send(tree, signal.SIGCONT)  # a stopped process would not handle it
        self._signal_group(signal.SIGTERM)

    def _kill(self, now: int) -> None:
        self._kill_at = now + _REPEAT_KILL_MS
        self._others.update(process.pid for process in proc.kill_all(lambda: proc.descendants(os.getpid())))
        self._signal_group(signal.SIGKILL)

    def _signal_group(self, number: int) -> None:
        """Signal the process group: the only way where descendants are unknown."""
        if not proc.HAS_PROC and self._pid is not None and self._status is None:
            os.killpg(self._pid, number)

    def _reap(self) -> bool:
        """Reap dead children. True when none is left; without children there are no descendants."""
        try:
            while True:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
                if pid == 0:
                    return False
                self._count(pid, status, usage)
        except ChildProcessError:
            return True

    def _count(self, pid: int, status: int, usage: Any) -> None:
        rss, user, system = self._usage
        self._usage = [max(rss, usage.ru_maxrss), user + usage.ru_utime, system + usage.ru_stime]
        if pid == self._pid and self._status is None:
            self._status = os.waitstatus_to_exitcode(status)

    def drain(self) -> None:
        """Read the rest of the pipes. Bounded: another process may hold the other end."""
        for pipe, output in self.outputs.items():
            with contextlib.suppress(BlockingIOError):
                for _ in range(_MAX_READS):
                    chunk = os.read(pipe, CHUNK)
                    if not chunk:
                        break
                    output.write(chunk)
            os.close(pipe)
        self.outputs = {}
        if self._file is not None:
            self._read_rest(self._file)
            self._file.close()
        self._out.close()
        self._err.close()

    def _limit_of(self, status: int) -> str | None:
        """The limit of the kernel that ended the command."""
        cpu_s = self._limits["cpu_s"]
        if status == -signal.SIGKILL and cpu_s is not None and self._usage[1] + self._usage[2] >= cpu_s:
            return "cpu"
        return _BY_SIGNAL.get(-status)

    def last_record(self) -> journal.Record:
        if self.failed is not None:
            return {"failed": self.failed, "errno": self._errno, "at": proc.wall_ms()}
        status = self._status
        assert status is not None
        rss, user, system = self._usage
        return {
            "exit": status if status >= 0 else None,
            "signal": -status if status < 0 else None,
            "ended_by": self._ended_by or self._limit_of(status),
            "isolated": self._layout is not None,
            "from": self._started_at,
            "at": proc.wall_ms(),
            "usage": [int(rss), round(1000 * user), round(1000 * system)],
            "bytes": [self._out.total_bytes, self._err.total_bytes],
            "truncated": self._out.truncated,
            "leftovers": len(self._others - {self._pid}),
        }


def _find_program(program: str, env: Mapping[str, str]) -> str:
    """Find the program by the command's PATH, not by the warden's."""
    if "/" in program:
        return program
    program_path = shutil.which(program, path=os.pathsep.join(os.get_exec_path(env)))
    if program_path is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    return program_path


def _error_text(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.strerror}: {os.fsdecode(error.filename)}"
    return str(error) or type(error).__name__
