"""demo: an agent that needs nothing, so that a newcomer sees real runs."""

from __future__ import annotations

import sys

from matins.executors.runners.base import Call, Command, Reader
from matins.executors.runners.checks import check_call
from matins.executors.runners.claude import ClaudeReader


class Demo:
    name = "demo"
    program = sys.executable
    provider = "demo"

    def refuse(self, call: Call) -> None:
        check_call(call)

    def command(self, call: Call) -> Command:
        session = call.session or call.new_session
        argv = (sys.executable, "-m", "matins.executors.demo", *([f"--session-id={session}"] if session else []))
        return Command(argv, call.prompt.encode(), finals=(b'"type":"result"',))

    def reader(self) -> Reader:
        return ClaudeReader(self.name, self.provider)
