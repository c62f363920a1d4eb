"""A command of one's own: the prompt by stdin, the exit code decides, and what it writes is the text."""

from __future__ import annotations

from matins.errors import InvalidInput
from matins.executors.runners.base import Call, Command, Told
from matins.executors.runners.checks import check_call, refuse_word
from matins.executors.runners.events import TEXT_ROOM, clean
from matins.executors.runners.outcomes import Noted, conclude

_ROOM = 4 * TEXT_ROOM


class Shell:
    """`extra_args` is the command, a word for each argument: nothing of it is read by a shell."""

    name = "shell"
    program = ""
    provider = "shell"
    chooses_session = False
    tells = ()

    def refuse(self, call: Call) -> None:
        check_call(call, blank=True)
        if not call.extra_args or not call.extra_args[0].strip():
            message = "A command needs at least the program to run"
            raise InvalidInput(message, value=call.extra_args, field="extra_args", hint='give ("sh", "backup.sh")')
        hint = "a command takes its words in its arguments"
        for field in ("model", "session", "permission_mode", "allowed_tools", "max_turns"):
            refuse_word(field, getattr(call, field), "A command", f'has no use for "{field}"', hint)

    def command(self, call: Call) -> Command:
        return Command(call.extra_args, call.prompt.encode())

    def reader(self) -> ShellReader:
        return ShellReader()


class ShellReader:
    """Bytes until the end: of a flood that is millions of lines."""

    def __init__(self) -> None:
        self._noted = Noted(metered=False)
        self._said = bytearray()

    def feed(self, line: bytes) -> None:
        self._said += line[-_ROOM:].removesuffix(b"\n").removesuffix(b"\r") + b"\n"
        if len(self._said) > 2 * _ROOM:
            del self._said[:-_ROOM]

    def close(self, exit_code: int | None) -> Told:
        self._noted.text.add(clean(self._said.decode("utf-8", "replace")))
        self._noted.executed = exit_code is not None and exit_code >= 0
        self._noted.failed = exit_code != 0
        if self._noted.executed and self._noted.failed:
            self._noted.error = f"the command ended with exit code {exit_code}"
        return conclude(self._noted, "the command", "shell", exit_code)
