"""What the stand-ins share: sessions that last, faults on demand, and a command line as strict as the tool's.

A stand-in speaks the stream of the tool that it is named after, in the shape in which the tool was seen to speak it.
STANDIN_HOME is the folder of its sessions, or else HOME/.standins. STANDIN_FAULT, or a word `fault:NAME` in the prompt,
asks for a fault:

    no_final       all but the final event, and exit code 0
    never_exits    stays after the final event
    hang           stays after its first event and says nothing more
    stays          all but the final event, and does not end
    slow           a tenth of a second between two events
    floods         STANDIN_FLOOD bytes (8 MB) of events that mean nothing
    big_line       one event of 20 MB
    garbage        lines that are no events, and events with wrong types
    partial_utf8   bytes that are not UTF-8, in and between events
    repeats_final  the final event twice
    forks_away     a child in a session of its own that outlives the tool; its id is in STANDIN_HOME/daemon.pid
    fails          the tool's own failure
    exit0_failed   the same, with exit code 0
    rate_limit     the provider refuses until STANDIN_RESETS_AT (1900000000)
    denial         a tool is refused
    declares_failed, declares_nothing   the agent's own word on how it went
"""

import argparse
import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

BIG_LINE = 20_000_000
DECLARED = {
    "declares_failed": '\n{"matins": {"outcome": "failed", "reason": "the tests do not pass"}}',
    "declares_nothing": '\n{"matins": {"outcome": "nothing", "reason": "no new mail"}}',
}


class Parser(argparse.ArgumentParser):
    """Every unknown or half-written flag is a usage error, with the tool's exit code."""

    def __init__(self, prog: str, usage_exit: int) -> None:
        super().__init__(prog=prog, allow_abbrev=False, add_help=False)
        self.usage_exit = usage_exit

    def error(self, message: str) -> NoReturn:
        leave(self.usage_exit, f"error: {message}")


class Standin:
    def __init__(self, tool: str, prompt: str) -> None:
        self.prompt = prompt
        asked = re.search(r"\bfault:(\w+)", prompt)
        self.fault = asked[1] if asked else os.environ.get("STANDIN_FAULT", "")
        self.resets_at = int(os.environ.get("STANDIN_RESETS_AT", "1900000000"))
        self.folder = Path(os.environ.get("STANDIN_HOME") or Path.home() / ".standins") / tool

    # sessions

    def known(self, session: str) -> bool:
        return self._file(session).exists()

    def remember(self, session: str) -> list[str]:
        """What was asked before in this session; the prompt joins it."""
        before = json.loads(self._file(session).read_text(encoding="utf-8")) if self.known(session) else []
        self.folder.mkdir(parents=True, exist_ok=True)
        self._file(session).write_text(json.dumps([*before, self.prompt]), encoding="utf-8")
        return before

    def answer(self, before: list[str]) -> str:
        earlier = " | ".join(before) or "nothing"
        said = f"I was asked: {self.prompt}\nBefore that: {earlier}\nIn: {Path.cwd()}"
        return said + DECLARED.get(self.fault, "")

    # the stream

    def play(self, first: dict[str, Any], middle: Iterable[dict[str, Any]], final: dict[str, Any] | None) -> None:
        """The events, with the faults that are the same for every tool."""
        self.write(first)
        if self.fault == "hang":
            wait_for_ever()
        self._disturb()
        for event in middle:
            self.write(event)
        if self.fault == "stays":
            wait_for_ever()
        if self.fault == "forks_away":
            fork_away(self.folder.parent / "daemon.pid")
        for _ in range(0 if self.fault == "no_final" or final is None else 2 if self.fault == "repeats_final" else 1):
            self.write(final)
        if self.fault == "never_exits":
            wait_for_ever()

    def write(self, event: dict[str, Any]) -> None:
        if self.fault == "slow":
            time.sleep(0.1)
        line = json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        if self.fault == "partial_utf8":
            line = line.replace(b"In: ", b"In: \xff\xfe\xe2\x82 ")
        raw(line + b"\n")

    def _disturb(self) -> None:
        if self.fault == "garbage":
            raw(GARBAGE)
        if self.fault == "partial_utf8":
            raw(b"\xe2\x82\n\xff\xfe\xfd\n")
        if self.fault == "big_line":
            raw(b'{"type":"noise","padding":"' + b"x" * BIG_LINE + b'"}\n')
        if self.fault == "floods":
            noise = b'{"type":"noise","padding":"' + b"x" * 970 + b'"}\n'
            for _ in range(int(os.environ.get("STANDIN_FLOOD", "8000000")) // len(noise)):
                raw(noise)

    def _file(self, session: str) -> Path:
        return self.folder / f"{session.replace('/', '_')}.json"


GARBAGE = b"""
not json at all
{"type":
{"type": "result"
[1, 2, 3]
"result"
null
42
{"type": 7}
{"type": ["result"]}
{"type": "result", "subtype": {}, "is_error": []
\x00\x00\x00
\x1b[?1004l
{"type": "assistant", "message": "a text", "part": 3, "item": null, "session_id": {}, "sessionID": []}
{"type": "item.completed", "item": [[]]}
{"type": "tool_use", "part": {"state": "error"}, "tool_id": 9}
{"type": "message", "message": {"role": 1, "content": "x"}, "content": []}
{"type": "rate_limit_event", "rate_limit_info": null}
{"a": NaN, "b": Infinity, "c": 1e999}
"""


def raw(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def read_stdin() -> str:
    return sys.stdin.buffer.read().decode("utf-8", "replace")


def leave(code: int, message: str) -> NoReturn:
    sys.stderr.write(message + "\n")
    sys.exit(code)


def wait_for_ever() -> NoReturn:
    while True:
        signal.pause()


def fork_away(pid_file: Path) -> None:
    """As a daemon does: two forks, a session of its own, nothing of ours held open."""
    away, ready = os.pipe()
    child = os.fork()
    if child:
        os.close(ready)
        os.waitpid(child, 0)
        os.read(away, 1)  # until it has written its id, or is no more
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    pid_file.write_text(str(os.getpid()), encoding="ascii")
    os.close(ready)
    wait_for_ever()
