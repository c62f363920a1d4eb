"""Short commands that decide whether a run may start: pre-checks and hooks."""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import re
import selectors
import shlex
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import orjson

from matins.engine.validation import invalid
from matins.errors import Example, InvalidInput
from matins.executors.secrets import inherited
from matins.runtime.clock import SystemClock

MAX_STDOUT_BYTES = 8 * 1024
MAX_STDERR_BYTES = 4 * 1024
MAX_COMMAND_LENGTH = 8_000
MAX_REASON_LENGTH = 500
_GRACE_MS = 1_000
_TICK_MS = 20
_CHUNK = 64 * 1024
_MAX_READS = 64
_SYNTAX_TIMEOUT_MS = 5_000
_OMITTED = "bytes left out]…"
_MAX_MARK_BYTES = 64
_CONTINUATION = bytes(range(0x80, 0xC0))
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_PLAIN_PROGRAM = re.compile(r"\s*([A-Za-z0-9._/~+-]+)(?!\S)(?!\s*\()")
_SHELL_BUILTINS = (
    ". alias bg break case cd command continue echo eval exec exit export false fg for getopts hash if jobs kill local "
    "printf pwd read readonly return set shift test times trap true type ulimit umask unalias unset until wait while"
)
_boot_ms = SystemClock().boot_ms


class CommandResult(NamedTuple):
    exit_code: int | None
    """Negative for a signal. None when the command was ended or not started."""
    timed_out: bool
    output: str
    """The start and the end of stdout."""
    errors: str
    """The start and the end of stderr."""
    error: str | None
    """Why the command could not be started."""
    duration_ms: int
    """Until the end of the command, or its time limit."""


def run_command(
    command: str | Sequence[str],
    *,
    context: Mapping[str, Any],
    variables: Mapping[str, str],
    workdir: str | None,
    limit_ms: int,
    stopped: Callable[[], bool] = lambda: False,
) -> CommandResult:
    """Run a command: a string by the shell, a list without. The context goes only into environment and stdin."""
    started = _boot_ms()
    try:
        process = _start(command, context, variables, workdir)
    except (OSError, ValueError) as error:
        return CommandResult(None, False, "", "", _error_text(error), _boot_ms() - started)
    with contextlib.closing(_Streams(process)) as streams:
        try:
            in_time = _wait_for_end(process, streams, started + limit_ms, stopped)
        except BaseException:  # Ctrl-C does not reach another session
            _end(process)
            raise
        output, errors = streams.output.text(), streams.errors.text()
    if not in_time:
        return CommandResult(None, True, output, errors, None, limit_ms)
    return CommandResult(process.returncode, False, output, errors, None, _boot_ms() - started)


def _start(
    command: str | Sequence[str], context: Mapping[str, Any], variables: Mapping[str, str], workdir: str | None
) -> subprocess.Popen[bytes]:
    # A file, not a pipe: a command that does not read stdin must not block the writer.
    with tempfile.TemporaryFile() as stdin:
        stdin.write(orjson.dumps(dict(context), option=orjson.OPT_APPEND_NEWLINE))
        stdin.seek(0)
        return subprocess.Popen(
            _argv(command),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=None if workdir is None else _from_home(workdir),
            env=inherited() | dict(variables),
            start_new_session=True,
        )


def _argv(command: str | Sequence[str]) -> list[str]:
    if isinstance(command, str):
        return ["/bin/sh", "-c", command]
    return [_from_home(command[0]), *command[1:]]


def _from_home(path: str) -> str:
    return os.path.expanduser(path)  # noqa: PTH111 - Path drops the ./ and raises for an unknown user


def _error_text(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.strerror}: {os.fsdecode(error.filename)}"
    return str(error)


# -- life of the process


def _wait_for_end(
    process: subprocess.Popen[bytes], streams: _Streams, deadline: int, stopped: Callable[[], bool]
) -> bool:
    """Drain the output and wait. True when the command ended in time. `stopped` ends the wait."""
    _drain_until(deadline, streams, lambda: process.poll() is not None or stopped())
    in_time = _reaped_by(deadline, process, stopped)
    if in_time:
        _signal(process, signal.SIGKILL)  # processes that it left behind
    else:
        _stop(process, streams)
    streams.drain_rest()
    return in_time


def _drain_until(deadline: int, streams: _Streams, ended: Callable[[], bool]) -> None:
    while streams.is_open and not ended() and (remaining := deadline - _boot_ms()) > 0:
        streams.drain(min(remaining, _TICK_MS))


def _stop(process: subprocess.Popen[bytes], streams: _Streams) -> None:
    _signal(process, signal.SIGTERM)
    deadline = _boot_ms() + _GRACE_MS
    # The process is not reaped yet: its pid must not be reused before the group is killed.
    _drain_until(deadline, streams, lambda: False)
    _reaped_by(deadline, process)
    _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    _signal(process, signal.SIGKILL)
    if not _reaped_by(_boot_ms() + _GRACE_MS, process):  # another user's process, or one stuck in the kernel
        threading.Thread(target=process.wait, name=f"matins-reap-{process.pid}", daemon=True).start()


def _reaped_by(deadline: int, process: subprocess.Popen[bytes], stopped: Callable[[], bool] = lambda: False) -> bool:
    while process.poll() is None:
        remaining = deadline - _boot_ms()
        if remaining <= 0 or stopped():
            return False
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(min(remaining, _TICK_MS) / 1000)
    return True


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    # The group is gone, or runs as another user. Neither can be signalled.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


class _Streams:
    """Both outputs of a command, read as they arrive."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.output, self.errors = _HeadAndTail(MAX_STDOUT_BYTES), _HeadAndTail(MAX_STDERR_BYTES)
        self._pipes = process.stdout, process.stderr
        self._selector = selectors.PollSelector()  # PollSelector needs no descriptor, so it cannot fail
        self._selector.register(process.stdout, selectors.EVENT_READ, self.output)
        self._selector.register(process.stderr, selectors.EVENT_READ, self.errors)

    @property
    def is_open(self) -> bool:
        return bool(self._selector.get_map())

    def drain(self, wait_ms: int) -> bool:
        """Read one chunk from each stream that is ready in time. True when there was one."""
        ready = self._selector.select(wait_ms / 1000)
        for key, _ in ready:
            if chunk := os.read(key.fd, _CHUNK):
                key.data.add(chunk)
            else:
                self._selector.unregister(key.fileobj)
        return bool(ready)

    def drain_rest(self) -> None:
        """Read the rest. Bounded: a process that no signal reaches may still write."""
        for _ in range(_MAX_READS):
            if not self.is_open or not self.drain(0):
                return

    def close(self) -> None:
        self._selector.close()
        for pipe in self._pipes:
            pipe.close()


class _HeadAndTail:
    """The start and the end of a stream of any length."""

    def __init__(self, max_bytes: int) -> None:
        self._half = (max_bytes - _MAX_MARK_BYTES) // 2
        self._head, self._tail = bytearray(), bytearray()
        self._omitted = 0

    def add(self, chunk: bytes) -> None:
        gap = self._half - len(self._head)
        self._head += chunk[:gap]
        self._tail += chunk[gap:]
        if (excess := len(self._tail) - self._half) > 0:
            del self._tail[:excess]
            self._omitted += excess

    def text(self) -> str:
        return self._decoded().replace("\0", "\ufffd")  # PostgreSQL's text has no NUL

    def _decoded(self) -> str:
        if not self._omitted:
            return (self._head + self._tail).decode("utf-8", "replace")
        # Characters cut by our own limits are dropped completely.
        head = codecs.getincrementaldecoder("utf-8")("replace").decode(self._head)
        tail = self._tail.lstrip(_CONTINUATION).decode("utf-8", "replace")
        return f"{head}…[{self._omitted:,} {_OMITTED}{tail}"


# -- the reply of a hook


class HookReply(NamedTuple):
    cancelled: bool
    reason: str | None


def hook_reply(result: CommandResult) -> HookReply:
    """The reply of a hook. The run continues only when the hook succeeds and does not cancel."""
    if result.error is not None:
        return _cancelled(f"the command could not be started: {result.error}")
    if result.timed_out:
        return _cancelled(f"the command did not end within {result.duration_ms / 1000:g} s")
    problem = _exit_error(result)
    reply = _json_reply(result.output)
    if reply is not None and reply.get("cancel") is True:
        return _cancelled(reply.get("reason") or problem)
    if problem is None and reply is None and _is_cut_reply(result.output):
        problem = "the output of the command is too long to be read"
    return HookReply(False, None) if problem is None else _cancelled(problem)


def _cancelled(reason: object) -> HookReply:
    return HookReply(True, storable_reason(reason) if isinstance(reason, str) else None)


def storable_reason(reason: str) -> str:
    """The reason as every store can hold it: bounded, without NUL and lone surrogates."""
    plain = reason.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    return plain if len(plain) <= MAX_REASON_LENGTH else plain[: MAX_REASON_LENGTH - 1] + "…"


def _exit_error(result: CommandResult) -> str | None:
    code = result.exit_code
    if not code:
        return None
    how = f"exit code {code}" if code > 0 else f"ended by {_signal_name(-code)}"
    last = _last_line(result.errors)
    return f"{how}: {last}" if last else how


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have no names
        return f"signal {number}"


def _json_reply(output: str) -> dict[str, Any] | None:
    """The JSON object in the last line, or the one that is the whole output."""
    for text in (_last_line(output), output.strip()):
        if text.startswith("{") and _OMITTED not in text:
            # Not orjson: Node writes lone surrogates, and such a reply counts.
            with contextlib.suppress(ValueError, RecursionError):
                return json.loads(text)
    return None


def _is_cut_reply(output: str) -> bool:
    text = output.strip()
    return text.endswith("}") and _OMITTED in (text if text.startswith("{") else _last_line(text))


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2].strip()


# -- at definition time

_ALLOWED = "a command, or a list of a program and its arguments"


def check_command(command: object, field: str, *, workdir: str | None = None) -> str | tuple[str, ...]:
    """The command: a string for the shell, or a program and its arguments. Relative paths start at `workdir`."""
    if isinstance(command, str):
        _checked_texts((command,), field)
        program = _PLAIN_PROGRAM.match(command)
        if program is not None and program[1] not in _SHELL_BUILTINS.split():
            _check_program(program[1], field, workdir)
        _check_syntax(command, field)
        return command
    if not isinstance(command, (list, tuple)) or not command:
        raise invalid(field, cast("object", command), _ALLOWED, hint=_example(field))
    argv = _checked_texts(tuple(cast("Sequence[object]", command)), field)
    _check_program(argv[0], field, workdir)
    return argv


def _checked_texts(texts: tuple[object, ...], field: str) -> tuple[str, ...]:
    preview = ascii(texts[0])[:60]
    strings = tuple(text for text in texts if isinstance(text, str))
    if len(strings) < len(texts):
        raise invalid(field, texts, _ALLOWED, hint=Example({field: ["/usr/bin/test", "-f", "ready"]}))
    if not strings[0].strip():
        raise invalid(field, strings[0], _ALLOWED, hint=_example(field))
    if any("\0" in text or _LONE_SURROGATE.search(text) for text in strings):
        raise _invalid(field, preview, "contains a NUL or a lone surrogate.", hint="Remove it.")
    size = sum(map(len, strings))
    if size > MAX_COMMAND_LENGTH:
        what = f"must be at most {MAX_COMMAND_LENGTH:,} characters, not {size:,}."
        raise _invalid(field, preview, what, hint="Put it into a script, and name the script.")
    return strings


def _check_program(program: str, field: str, workdir: str | None) -> None:
    if "/" not in program:
        if shutil.which(program) is None:
            hint = "Give the full path, or put its folder on PATH."
            raise _invalid(field, program, f'"{program}" is not on PATH.', hint=hint)
        return
    path = Path(_from_home(workdir or ""), _from_home(program))
    try:
        mode = path.stat().st_mode
    except OSError as error:
        hint = "Give the full path of a program that exists."
        raise _invalid(field, program, f"{path} cannot be used: {error.strerror}.", hint=hint) from None
    if stat.S_ISDIR(mode):
        raise _invalid(field, program, f"{path} is a folder.", hint="Give the path of a program in it.")
    if not os.access(path, os.X_OK):
        raise _invalid(field, program, f"{path} may not be executed.", hint=f"chmod +x {shlex.quote(str(path))}")


def _check_syntax(text: str, field: str) -> None:
    parsed = run_command(
        ("/bin/sh", "-n", "-c", text), context={}, variables={}, workdir=None, limit_ms=_SYNTAX_TIMEOUT_MS
    )
    if parsed.exit_code:
        message = parsed.errors.removeprefix("/bin/sh: ").partition("\n")[0]
        raise _invalid(field, text, f"the shell cannot read it: {message}.", hint="Try it: sh -n -c '…'")


def _example(field: str) -> str:
    return Example({field: "test -f ready"})


def _invalid(field: str, value: object, what: str, hint: str) -> InvalidInput:
    return InvalidInput(f'"{field}": {what}', value=value, field=field, hint=hint)
