"""The demo agent: its runner, and the program that answers.

The demo agent that comes with Matins: no dependencies, and the stream of claude.

A demo agent without dependencies: it reads the prompt from stdin and reports what it received.

    python -m matins.coding_tools.demo [--session-id=ID] < prompt

It writes the stream of `claude -p`, changes nothing and spends nothing. The same prompt gets the same report. With it,
a newcomer sees real runs before installing an agent. For demonstrations, DEMO_SECONDS makes it take its time, and
DEMO_COST makes it report a cost in dollars.
"""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from collections.abc import Iterator
from typing import Any

from matins.coding_tools.claude import ClaudeReader
from matins.executors.runners.protocol import Command, RunnerRequest
from matins.executors.runners.request_checks import check_call, check_unused


class Demo:
    """Accepts a session id, but remembers nothing."""

    name = "demo"
    program = sys.executable
    provider = "demo"
    chooses_session = True
    only_reports = True
    """No prompt makes it change anything, so it needs no account of its own."""

    def check(self, call: RunnerRequest) -> None:
        check_call(call)
        hint = "Omit it, or use another runner."
        for field in ("model", "permission_mode", "allowed_tools", "max_turns", "extra_args"):
            check_unused(field, getattr(call, field), "The demo agent", f'does not support "{field}"', hint)

    def command(self, call: RunnerRequest) -> Command:
        session = call.session or call.new_session
        named = () if session is None else (f"--session-id={session}",)
        # -P: files in the workdir must not shadow modules.
        argv = (self.program, "-P", "-m", "matins.coding_tools.demo", *named)
        return Command(argv, call.prompt.encode(), finals=({"type": "result"},))

    def reader(self) -> ClaudeReader:
        return ClaudeReader(self.name, self.provider)


MODEL = "demo"
_FLAG = "--session-id"
_MAX_PREVIEW_LENGTH = 80
_NO_USAGE = {"input_tokens": 0, "output_tokens": 0}


def main() -> None:
    import argparse  # engines read this module too

    parser = argparse.ArgumentParser(prog="python -m matins.coding_tools.demo", description=__doc__, allow_abbrev=False)
    parser.add_argument(_FLAG, default=None, help="the session to name; one that follows from the prompt if omitted")
    session: str | None = parser.parse_args().session_id
    prompt = sys.stdin.buffer.read().decode("utf-8", "replace")
    cost, seconds = float(os.environ.get("DEMO_COST", "0")), float(os.environ.get("DEMO_SECONDS", "0"))
    for event in stream(prompt, session or str(uuid.uuid5(uuid.NAMESPACE_OID, prompt)), cost):
        if event["type"] == "result":
            time.sleep(seconds)
        sys.stdout.write(json.dumps(event, separators=(",", ":")) + "\n")
        sys.stdout.flush()


def stream(prompt: str, session: str, cost: float = 0) -> Iterator[dict[str, Any]]:
    """The events of one run. Where it reports a cost, it reports a token for each word as well."""
    usage = {"input_tokens": len(prompt.split()), "output_tokens": 40} if cost else _NO_USAGE
    text = report(prompt)
    yield {"type": "system", "subtype": "init", "session_id": session, "model": MODEL, "tools": []}
    message = {"id": "msg_demo", "role": "assistant", "model": MODEL, "usage": usage}
    yield {
        "type": "assistant",
        "message": {**message, "content": [{"type": "text", "text": text}]},
        "session_id": session,
    }
    yield {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "duration_ms": 0,
        "num_turns": 1,
        "result": text,
        "session_id": session,
        "total_cost_usd": cost,
        "usage": usage,
        "permission_denials": [],
    }


def report(prompt: str) -> str:
    """A few friendly lines about a prompt."""
    words = prompt.split()
    if not words:
        return "Good to be awake. There was no prompt, so I changed nothing."
    first = " ".join(words)
    preview = first if len(first) <= _MAX_PREVIEW_LENGTH else first[: _MAX_PREVIEW_LENGTH - 1].rstrip() + "…"
    count = "one word" if len(words) == 1 else f"{len(words)} words"
    return (
        f"Good to be awake. I was given {count}: “{preview}”\n"
        "I am the demo agent: I read my prompt, changed nothing and spent nothing.\n"
        "When you are ready, give this schedule an agent that can do the work."
    )


if __name__ == "__main__":
    main()
