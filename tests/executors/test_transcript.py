"""What agents' tools print, as people read it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from matins.service.output import entries_of, joined

RECORDINGS = Path(__file__).parents[1] / "recordings"
WORK = "/home/ann/work"
WROTE = f"{WORK}/tool_call/greeting.txt, content: good morning"
CREATED = (
    f"File created successfully at: {WORK}/tool_call/greeting.txt "
    "(file state is current in your context — no need to Read it back)"
)
WARNED = (
    "Model metadata for `fake-model` not found. Defaulting to fallback metadata; "
    "this can degrade performance and cause issues."
)
KINDS = [
    "assistant", "user", "system", "result", "item.completed", "item.started", "message", "tool_use", "tool_result",
    "text", "error", "step_finish", "complete", "init",
]  # fmt: skip
ODD = [{}, {"message": {"content": [None, 3, "x"]}}, {"item": 5}, {"part": []}, {"error": 1}, {"part": {"state": 3}},
       {"message": 7, "subtype": [], "status": {}}]  # fmt: skip


def read(data: bytes) -> list[tuple[str, str]]:
    found = joined(entry for line in data.splitlines() for entry in entries_of(line))
    return [(entry.kind, entry.text) for entry in found]


def recorded(tool: str, case: str) -> list[tuple[str, str]]:
    (path,) = RECORDINGS.glob(f"{tool}-*/{case}.out")
    return read(path.read_bytes())


@pytest.mark.parametrize(
    ("tool", "told"),
    [
        ("claude", [("note", f"claude-opus-5-5 in {WORK}/tool_call"), ("call", f"Write {WROTE}"),
                    ("result", CREATED),
                    ("words", "Written."), ("note", "Ended, 2 turns, $0.01")]),
        ("codex", [("note", WARNED),
                   ("call", f"shell /bin/bash -lc 'printf %s \"good morning\" > {WORK}/tool_call/greeting.txt'"),
                   ("result", "(no output)"), ("words", "Written."), ("note", "Ended, 3,468 tokens")]),
        ("gemini", [("note", "gemini-3.8-flash"), ("call", f"write_file {WROTE}"), ("result", "(no output)"),
                    ("words", "Written."), ("note", "Ended, 3,468 tokens")]),
        ("goose", [("call", f"write {WROTE}"), ("result", f"Created {WORK}/tool_call/greeting.txt (1 lines)"),
                   ("words", "Written."), ("note", "Ended, 3,468 tokens")]),
        ("opencode", [("call", f"write {WROTE}"), ("result", "Wrote file successfully."), ("words", "Written."),
                      ("note", "Ended")]),
        ("qwen", [("note", f"fake-model in {WORK}/tool_call"), ("call", f"write_file {WROTE}"),
                  ("result", f"Successfully created and wrote to new file: {WORK}/tool_call/greeting.txt."),
                  ("words", "Written."), ("note", "Ended, 2 turns")]),
    ],
)  # fmt: skip
def test_b4_what_was_said_and_done(tool: str, told: list[tuple[str, str]]) -> None:
    """B4: each tool's own stream, as it was recorded: what it said, which tool it called with what, what came back."""
    assert recorded(tool, "tool_call") == told


@pytest.mark.parametrize(
    ("tool", "case", "error"),
    [
        ("claude", "money_budget", "Reached maximum budget ($0.04)"),
        ("claude", "denied", "Claude requested permissions to write to"),
        ("codex", "unauthorized", "unexpected status 401 Unauthorized"),
        ("gemini", "cut", "[API Error: terminated]"),
        ("goose", "unauthorized", "Ran into this error: Authentication error"),
        ("opencode", "denied", "The user rejected permission"),
        ("qwen", "unauthorized", "[API Error: 401 Incorrect API key provided"),
    ],
)
def test_problems_are_told_as_problems(tool: str, case: str, error: str) -> None:
    assert any(kind == "error" and text.startswith(error) for kind, text in recorded(tool, case))


def test_every_recorded_event_is_known() -> None:
    """None of what the tools printed is shown as JSON."""
    lines = [line for path in RECORDINGS.glob("*/*.out") for line in path.read_bytes().splitlines() if line]
    assert len(lines) > 500
    assert [line for line in lines if any(entry.kind == "line" for entry in entries_of(line))] == []


@pytest.mark.parametrize(
    "line", ["plain words", "{not json", '{"a": 1}', '{"type": "mine"}', "[1, 2]", "", '{"type":"turn.started"} more']
)
def test_all_else_stays_as_it_is(line: str) -> None:
    assert read(line.encode() + b"\n") == [("line", line)]


def test_long_results_and_arguments_are_shortened() -> None:
    def told(block: dict[str, Any]) -> tuple[str, str]:
        event = {"type": "assistant", "message": {"role": "assistant", "content": [block]}}
        return read(json.dumps(event).encode())[0]

    kind, text = told({"type": "tool_result", "content": "\n".join(map(str, range(100)))})
    assert (kind, text) == ("result", "0\n1\n2\n3\n… 96 more lines")
    assert len(told({"type": "tool_result", "content": "x" * 100_000})[1]) < 700
    assert len(told({"type": "tool_use", "name": "Write", "input": {"content": "x" * 100_000}})[1]) < 300
    assert told({"type": "text", "text": "x" * 30_000})[1].endswith("… 10,000 more characters")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("odd", ODD, ids=str)
def test_odd_events_do_no_harm(kind: str, odd: dict[str, Any]) -> None:
    read(json.dumps({"type": kind, **odd}).encode())
