"""Short commands that decide whether a run may start: pre-checks and hooks."""

from __future__ import annotations

import codecs
import contextlib
import json
import secrets
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import orjson

from matins.errors import MatinsError
from matins.executors.command_checks import check_program, from_home
from matins.executors.processes import output as stored
from matins.executors.processes.launch import Account, EndedBy, Launch, Limits, ProcessOutcome
from matins.executors.processes.supervisor import Supervisor
from matins.executors.processes.walls import Layout
from matins.executors.secrets import inherited
from matins.runtime.clock import SystemClock

MAX_STDOUT_BYTES = 8 * 1024
MAX_STDERR_BYTES = 4 * 1024
MAX_REASON_LENGTH = 500
_GRACE_MS = 1_000
_SPARE_S = 30.0
_OMITTED = "bytes left out]…"
_MAX_MARK_BYTES = 64
_CONTINUATION = bytes(range(0x80, 0xC0))
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


class Commands:
    """Runs commands under the supervisor: what they start ends with them, and they end with the engine."""

    def __init__(self, supervisor: Callable[[], Supervisor]) -> None:
        self._supervisor = supervisor
        self._running: set[str] = set()

    def run(
        self,
        command: str | Sequence[str],
        *,
        context: Mapping[str, Any],
        variables: Mapping[str, str],
        workdir: str | None,
        limit_ms: int,
        memory_bytes: int | None = None,
        layout: Layout | None = None,
        account: Account | None = None,
        find_first: bool = False,
    ) -> CommandResult:
        """Run a command: a string by the shell, a list without. The context goes only into environment and stdin.
        `find_first`: look for its program as it was looked for when the command was set."""
        started, name = _boot_ms(), f"command-{secrets.token_hex(8)}"
        launch = Launch(
            0,
            0,
            _argv(command),
            inherited() | dict(variables),
            str(Path(from_home(workdir or ".")).absolute()),
            orjson.dumps(dict(context), option=orjson.OPT_APPEND_NEWLINE),
            Limits(timeout_ms=limit_ms, grace_ms=_GRACE_MS, memory_bytes=memory_bytes),
            head_bytes=_half(MAX_STDOUT_BYTES),
            tail_bytes=_half(MAX_STDOUT_BYTES),
            layout=layout,
            account=account,
            name=name,
        )
        supervisor = self._supervisor()
        self._running.add(name)
        try:
            if find_first:
                check_program(command, workdir)
            outcome = _outcome(supervisor, launch)
            return _result(outcome, limit_ms, _boot_ms() - started)
        except (MatinsError, OSError) as error:
            return CommandResult(None, False, "", "", str(error), _boot_ms() - started)
        finally:
            self._running.discard(name)
            supervisor.files.delete_named(name)

    def end_all(self, ended_by: EndedBy = "cancelled") -> None:
        for name in self._running.copy():
            self._supervisor().end_command(name, ended_by)


def _argv(command: str | Sequence[str]) -> tuple[str, ...]:
    if isinstance(command, str):
        return ("/bin/sh", "-c", command)
    return (from_home(command[0]), *command[1:])


def _outcome(supervisor: Supervisor, launch: Launch) -> ProcessOutcome:
    """Start it, and wait for its end."""
    assert launch.limits.timeout_ms is not None
    outcomes: SimpleQueue[ProcessOutcome] = SimpleQueue()
    supervisor.start(launch, outcomes.put)
    try:
        return outcomes.get(timeout=(launch.limits.timeout_ms + _GRACE_MS) / 1000 + _SPARE_S)
    except BaseException as error:  # Ctrl-C does not reach another session
        supervisor.end_command(launch.name)
        if isinstance(error, Empty):
            return ProcessOutcome("unknown")
        raise


def _result(outcome: ProcessOutcome, limit_ms: int, duration_ms: int) -> CommandResult:
    output = _text(outcome.stdout_path, MAX_STDOUT_BYTES, outcome.stdout_bytes)
    errors = _text(outcome.stderr_path, MAX_STDERR_BYTES, outcome.stderr_bytes)
    if outcome.kind != "finished":
        error = outcome.error or "its supervisor ended, and its outcome is unknown"
        return CommandResult(None, False, output, errors, error, duration_ms)
    if outcome.ended_by == "supervisor":
        error = "it stopped its supervisor, and was ended"
        return CommandResult(None, False, output, errors, error, duration_ms)
    if outcome.ended_by is not None:
        return CommandResult(None, True, output, errors, None, limit_ms)
    code = outcome.exit_code if outcome.signal is None else -outcome.signal
    return CommandResult(code, False, output, errors, None, duration_ms)


# -- the output


def _half(max_bytes: int) -> int:
    return (max_bytes - _MAX_MARK_BYTES) // 2


def _text(path: str, max_bytes: int, total: int) -> str:
    """The start and the end of a stream of any length."""
    half = _half(max_bytes)
    head = stored.read(path, 0, half)
    begin = max(half, total - half)
    tail = b""
    while more := stored.read_after(path, begin + len(tail), half)[0]:
        tail += more
    return _decoded(head, begin - half if tail else 0, tail).replace("\0", "\ufffd")  # PostgreSQL's text has no NUL


def _decoded(head: bytes, omitted: int, tail: bytes) -> str:
    if not omitted:
        return (head + tail).decode("utf-8", "replace")
    # Characters cut by our own limits are dropped completely.
    whole = codecs.getincrementaldecoder("utf-8")("replace").decode(head)
    return f"{whole}…[{omitted:,} {_OMITTED}{tail.lstrip(_CONTINUATION).decode('utf-8', 'replace')}"


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
