"""Runs pre-checks and hooks, before and after a run.

Agents can change what a command starts or reads, so it runs behind their walls (`AgentCommands`). A script in the home
of Matins, which no agent can write, runs outside them (`OwnerCommands`).
"""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import re
import secrets
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import orjson

from matins.engine.policies import Policies
from matins.errors import InvalidInput, MatinsError
from matins.executors.isolation import Isolation, account_of, account_variables, is_at, is_below
from matins.executors.processes import output as stored
from matins.executors.processes.launch import Account, EndedBy, Launch, Limits, ProcessOutcome
from matins.executors.processes.supervisor import Supervisor
from matins.executors.processes.walls import Layout
from matins.executors.secrets import check_program, from_home, inherited
from matins.model.agent import Agent
from matins.model.schedule import CommandLine
from matins.runtime.agent_folders import folder_of, own_folder
from matins.runtime.clock import SystemClock
from matins.runtime.command_files import in_reach, may_gain_files, program_at, simple_commands
from matins.texts.beneath import open_named

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
        in_shell = isinstance(command, str)
        argv = ("/bin/sh", "-c", command) if in_shell else (from_home(command[0]), *command[1:])
        launch = Launch(
            0,
            0,
            argv,
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
    text = result.output.strip()
    is_cut = text.endswith("}") and _OMITTED in (text if text.startswith("{") else _last_line(text))
    if problem is None and reply is None and is_cut:
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


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2].strip()


_PLAIN_TEXT = re.compile(r"~?[\w./+-]+(?: +(?:[\w./~+=:,@%-]|\$[A-Za-z_])+)*", re.ASCII)
"""A script with plain words and variables: nothing of it makes a shell start anything else."""
_INTERPRETERS = frozenset(["ash", "bash", "dash", "ksh", "lua", "mksh", "node", "perl", "php", "python", "sh"])
"""Those that run no file of the user's before the script, with OUTSIDE. zsh reads ~/.zshenv, and ruby loads gems."""
_VERSION = "0123456789."
_MAX_FIRST_LINE = 256
"""What the kernel reads of it."""
OUTSIDE = {"PYTHONNOUSERSITE": "1"}
"""Variables of the owner's commands. Python would run files of ~/.local, which agents of the same user can write."""


class OwnerCommands:
    """Those that are one script of the owner's, with its arguments."""

    def __init__(self, folder: str, path: str, is_own: Callable[[str], bool], policies: Policies) -> None:
        self._folder = folder
        """Where commands start."""
        self._path = path
        """The PATH of commands."""
        self._is_own = is_own
        isolated = {name: agent for name, agent in policies.agents.items() if agent.isolation != "none"}
        self._policies = replace(policies, agents=isolated)
        """Those of agents with walls. The others reach the home itself."""

    def __contains__(self, command: CommandLine) -> bool:
        if isinstance(command, str) and not _PLAIN_TEXT.fullmatch(command):
            return False
        program = command.split()[0] if isinstance(command, str) else command[0]
        script = self._path_of(program)
        return "/" in program and self._is_own(script) and self._has_safe_interpreter(script)

    def _has_safe_interpreter(self, script: str) -> bool:
        """Whether no agent can replace what the script's first line starts. A program has no such line."""
        try:
            file = open_named(script)
        except OSError:  # it may be executed and not read, so it is no script
            return os.access(script, os.X_OK)
        try:
            start = os.pread(file, _MAX_FIRST_LINE, 0)
        finally:
            os.close(file)
        if not start.startswith(b"#!"):
            return True
        words = start[2:].partition(b"\n")[0].decode("utf-8", "surrogateescape").split()
        if len(words) > 1 and Path(words[0]).name == "env":
            named = words[2:] if words[1] == "-S" else words[1:]
            return bool(named) and self._is_safe(words[0]) and self._is_safe_interpreter(named[0])
        return bool(words) and self._is_safe_interpreter(words[0])

    def _is_safe_interpreter(self, program: str) -> bool:
        return Path(program).name.rstrip(_VERSION) in _INTERPRETERS and self._is_safe(program)

    def _is_safe(self, program: str) -> bool:
        """Whether no agent can put another program in its place, also not into a folder that comes first on PATH."""
        if "/" in program:
            return not in_reach(self._path_of(program), self._policies)
        for folder in self._path.split(os.pathsep):
            if not folder.startswith("/") or may_gain_files(folder, self._policies):
                return False
            if os.access(f"{folder}/{program}", os.X_OK):
                return not in_reach(f"{folder}/{program}", self._policies)
        return False

    def _path_of(self, word: str) -> str:
        return str(Path(self._folder, from_home(word)))


_NO_AGENT = Agent("", "")
"""Stands for the agent of a schedule that has none: its commands run beside agents, too."""


class _View(NamedTuple):
    """The account of a command, and what it sees; without a layout, everything."""

    layout: Layout | None = None
    account: Account | None = None
    variables: Mapping[str, str] = {}


class AgentCommands:
    """The commands around the runs of all agents."""

    def __init__(self, commands: Commands, isolation: Isolation, workdir: str | None) -> None:
        self._commands = commands
        self._isolation = isolation
        self._workdir = str(Path(from_home(workdir or ".")).absolute())

    def of(self, agent: str, policies: Policies) -> CommandsOfRun:
        """Those of one run. What the agent sees is found once, and only if a command needs it."""
        return CommandsOfRun(self._commands, self._isolation, self._workdir, agent, policies)

    def end_all(self, ended_by: EndedBy = "cancelled") -> None:
        self._commands.end_all(ended_by)


class CommandsOfRun:
    def __init__(self, commands: Commands, isolation: Isolation, workdir: str, agent: str, policies: Policies) -> None:
        self._commands = commands
        self._isolation = isolation
        self._workdir = workdir
        self._agent = agent
        self._policies = policies

    def run(
        self,
        command: CommandLine,
        *,
        context: Mapping[str, Any],
        variables: Mapping[str, str],
        limit_ms: int,
        find_first: bool = False,
    ) -> CommandResult:
        """Run it behind the walls of the agent, as its account; outside, if it is the owner's own or the agent is not
        isolated."""
        try:
            view = self._owners_view if self._is_owners(command) else self._view
        except InvalidInput as error:  # the agent does not run either
            return _not_started(str(error))
        if view.layout is not None and (path := _hidden_word(command, self._workdir, view.layout)) is not None:
            return _not_started(
                f"it names {path}, which is out of sight behind the walls of the agent. "
                "Only a script in the home of Matins, with plain arguments, runs outside"
            )
        return self._commands.run(
            command, context=context, variables={**variables, **view.variables}, workdir=self._workdir,
            limit_ms=limit_ms, layout=view.layout, account=view.account, find_first=find_first,
        )  # fmt: skip

    def _is_owners(self, command: CommandLine) -> bool:
        path = inherited().get("PATH", os.defpath)
        return command in OwnerCommands(self._workdir, path, self._isolation.is_owners, self._policies)

    @property
    def _alone(self) -> bool:
        """Whether no agent is isolated, so that walls around commands would protect nothing."""
        return all(agent.isolation == "none" for agent in self._policies.agents.values())

    @property
    def _owners_view(self) -> _View:
        return _View() if self._alone else _View(variables=OUTSIDE)

    @cached_property
    def _view(self) -> _View:
        agents = self._policies.agents
        agent = agents.get(self._agent)
        if agent is not None:
            own = str(Path(self._workdir, own_folder(agent.name)))
            layout = self._isolation.layout(agent, folder_of(agent, self._workdir), own)
            return _View() if layout is None else _View(layout, account_of(agent), account_variables(agent))
        if self._alone or self._isolation.refusal(_NO_AGENT) is not None:
            return _View()
        return _View(self._isolation.layout(_NO_AGENT, "/", "/"))


def _not_started(reason: str) -> CommandResult:
    return CommandResult(None, False, "", "", reason, 0)


def _hidden_word(command: CommandLine, folder: str, layout: Layout) -> str | None:
    """A file or folder that the command names and would not see: it would take it for missing."""
    for word in _data_words(command):
        for text in (word, word.partition("=")[2]):
            path = os.path.realpath(Path(folder, from_home(text))) if text and "\0" not in text else "/"
            covered = any(is_below(path, cover) for cover in layout.hidden)
            seen = any(is_at(path, kept) or is_at(kept, path) for kept in layout.kept)
            if covered and not seen and os.path.lexists(path):
                return text
    return None


def _data_words(command: CommandLine) -> Iterator[str]:
    """The words of a command, without programs that are found on PATH."""
    for words, _ in simple_commands(command):
        at = program_at(words)
        yield from (word for index, word in enumerate(words) if index != at or "/" in word)
