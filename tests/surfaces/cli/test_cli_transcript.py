"""What agents' tools print, as people read it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from matins.surfaces.cli.transcript import Transcript


def read(*lines: object) -> str:
    transcript = Transcript()
    text = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
    return transcript.read(text) + transcript.rest()


def claude(*content: dict[str, Any]) -> dict[str, Any]:
    return {"type": "assistant", "message": {"id": "m", "role": "assistant", "content": content}, "session_id": "s"}


def goose(identity: str, text: str) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {"type": "message", "message": {"id": identity, "role": "assistant", "content": content}}


@pytest.mark.parametrize(
    ("events", "shown"),
    [
        (
            [
                {"type": "system", "subtype": "init", "session_id": "s", "tools": ["Bash"]},
                claude({"type": "text", "text": "I look."}),
                claude({"type": "tool_use", "name": "Bash", "input": {"command": "git log"}}),
                {"type": "user", "message": {"role": "user", "content": [{"type": "tool_result", "content": "42"}]}},
                claude({"type": "text", "text": "Done:\n42 merges"}),
                {"type": "result", "subtype": "success", "result": "Done:\n42 merges", "session_id": "s"},
            ],
            'I look.\n● Bash {"command": "git log"}\nDone:\n42 merges\n',
        ),
        (
            [
                {"type": "message", "role": "user", "content": "x"},
                *(
                    {"type": "message", "role": "assistant", "content": text, "delta": True}
                    for text in ("Ro", "ses\n", "are")
                ),
                {"type": "tool_use", "tool_name": "ls", "parameters": {"p": 1}},
                {"type": "message", "role": "assistant", "content": " red", "delta": True},
                {"type": "result", "status": "success"},
            ],
            'Roses\nare\n● ls {"p": 1}\n red\n',
        ),
        (
            [goose("m1", "I lo"), goose("m1", "ok."), goose("m2", "Do"), goose("m2", "ne."), {"type": "complete"}],
            "I look.\nDone.\n",
        ),
        (
            [
                {"type": "thread.started", "thread_id": "t"},
                {"type": "item.completed", "item": {"type": "command_execution", "command": "ls", "exit_code": 0}},
                {"type": "item.completed", "item": {"type": "agent_message", "text": "Two files."}},
                {"type": "turn.completed", "usage": {"input_tokens": 5}},
            ],
            "● ls\nTwo files.\n",
        ),
        (
            [
                {"type": "message", "role": "user", "content": "say hi"},
                {"type": "tool_use", "tool_name": "ls", "tool_id": "1", "parameters": {"path": "."}},
                {"type": "message", "role": "assistant", "content": "hi", "delta": True},
                {"type": "error", "severity": "error", "message": "Too many turns"},
            ],
            '● ls {"path": "."}\nhi\nToo many turns\n',
        ),
        (
            [
                {"type": "text", "part": {"messageID": "m", "type": "text", "text": "hello"}},
                {"type": "tool_use", "part": {"type": "tool", "tool": "bash", "state": {"input": {"command": "ls"}}}},
                {"type": "error", "error": {"name": "APIError", "data": {"message": "no credit"}}},
            ],
            'hello\n● bash {"command": "ls"}\nno credit\n',
        ),
        ([{"type": "turn.failed", "error": {"message": "no"}}], "no\n"),
        ([{"type": "result", "subtype": "success", "result": "alone"}], "alone\n"),
    ],
)
def test_b4_what_was_said_and_done(events: list[dict[str, Any]], shown: str) -> None:
    """B4: of the tools that we know, in their own words"""
    assert read(*events) == shown


@pytest.mark.parametrize("line", ["plain words\n", "{not json\n", '{"a": 1}\n', "[1, 2]\n", "\n", "no end of line"])
def test_all_else_stays_as_it_is(line: str) -> None:
    assert read(line) == line


def test_lines_that_come_in_parts() -> None:
    transcript = Transcript()
    line = json.dumps(claude({"type": "text", "text": "whole"}))
    assert transcript.read(line[:20]) == ""
    assert transcript.read(line[20:]) == ""
    assert transcript.rest() == "whole"


@pytest.mark.parametrize("odd", [{"type": 5}, {"type": "x", "message": {"content": [None, 3, "x"]}}, {"type": "tool"}])
def test_odd_events_do_no_harm(odd: dict[str, Any]) -> None:
    assert read(odd) in ("", json.dumps(odd) + "\n")
