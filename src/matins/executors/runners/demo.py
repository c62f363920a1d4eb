"""The demo agent that comes with Matins: no dependencies, and the stream of claude."""

from __future__ import annotations

import sys

from matins.executors.runners.call_checks import check_call, check_unused
from matins.executors.runners.claude import ClaudeReader
from matins.executors.runners.protocol import Call, Command


class Demo:
    """Accepts a session id, but remembers nothing."""

    name = "demo"
    program = sys.executable
    provider = "demo"
    chooses_session = True
    only_reports = True
    """No prompt makes it change anything, so it needs no account of its own."""

    def check(self, call: Call) -> None:
        check_call(call)
        hint = "Omit it, or use another runner."
        for field in ("model", "permission_mode", "allowed_tools", "max_turns", "extra_args"):
            check_unused(field, getattr(call, field), "The demo agent", f'does not support "{field}"', hint)

    def command(self, call: Call) -> Command:
        session = call.session or call.new_session
        named = () if session is None else (f"--session-id={session}",)
        # -P: files in the workdir must not shadow modules.
        argv = (self.program, "-P", "-m", "matins.executors.demo", *named)
        return Command(argv, call.prompt.encode(), finals=({"type": "result"},))

    def reader(self) -> ClaudeReader:
        return ClaudeReader(self.name, self.provider)
