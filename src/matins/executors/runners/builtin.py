"""The runners `shell` and `message`.

A custom command: the prompt is on stdin, the exit code decides, and the output is the text.

Agents that receive their runs as an event, `message.emitted`. Nothing is started or called.

The transaction that starts the run writes the event and ends the run (`runtime/message_runs.py`): no executor sees
one.
"""

from __future__ import annotations

from matins.engine.jobs import MESSAGE_JOB
from matins.errors import Example, InvalidInput
from matins.executors.runners.outcomes import StreamNotes, conclude
from matins.executors.runners.protocol import Command, EndpointConnection, RunnerRequest, RunnerResult
from matins.executors.runners.request_checks import check_call, check_unused
from matins.executors.runners.tool_events import MAX_TEXT_LENGTH, storable_text

_MAX_BYTES = 4 * MAX_TEXT_LENGTH


class Shell:
    """`extra_args` is the command, one item for each argument. No shell reads it."""

    name = "shell"
    program = ""
    provider = "shell"
    chooses_session = False
    reports = ()
    fences = False
    """A program takes no text as an instruction."""

    def check(self, call: RunnerRequest) -> None:
        check_call(call, blank=True)
        if not call.extra_args or not call.extra_args[0].strip():
            message = "A command needs a program."
            raise InvalidInput(
                message, value=call.extra_args, field="extra_args", hint=Example({"command": ["sh", "backup.sh"]})
            )
        hint = "Omit it: a command has only arguments."
        for field in ("model", "session", "permission_mode", "allowed_tools", "max_turns"):
            check_unused(field, getattr(call, field), "A command", f'does not support "{field}"', hint)

    def command(self, call: RunnerRequest) -> Command:
        return Command(call.extra_args, call.prompt.encode())

    def reader(self) -> ShellReader:
        return ShellReader()


class ShellReader:
    """Keeps bytes until the end: the output may have millions of lines."""

    def __init__(self) -> None:
        self._notes = StreamNotes(metered=False)
        self._output = bytearray()

    def feed(self, line: bytes) -> None:
        self._output += line[-_MAX_BYTES:].removesuffix(b"\n").removesuffix(b"\r") + b"\n"
        if len(self._output) > 2 * _MAX_BYTES:
            del self._output[:-_MAX_BYTES]

    def close(self, exit_code: int | None) -> RunnerResult:
        self._notes.text.add(storable_text(self._output.decode("utf-8", "replace")))
        self._notes.executed = exit_code is not None and exit_code >= 0
        self._notes.failed = exit_code != 0
        if self._notes.executed and self._notes.failed:
            self._notes.error = f"the command ended with exit code {exit_code}"
        return conclude(self._notes, "the command", "shell", exit_code)


class Message:
    name = MESSAGE_JOB
    provider = MESSAGE_JOB
    chooses_session = False

    def check(self, call: RunnerRequest) -> None:
        check_call(call)

    def call(self, call: RunnerRequest, connection: EndpointConnection) -> RunnerResult:
        """Fail a run that was claimed for another runner: its agent changed after the claim."""
        return RunnerResult(
            False, False, error="the agent got another runner while the run started: start the run again"
        )
