"""Whatever bytes a tool writes, its reader does not raise, and what it tells holds together."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from driving import TOOLS, Driver
from hypothesis import given
from hypothesis import strategies as st

from matins.coding_tools.demo import Demo
from matins.executors.runners.builtin import Shell
from matins.executors.runners.openai import OpenAI
from matins.executors.runners.protocol import Reader, Runner, RunnerResult
from matins.executors.runners.tool_events import MAX_TEXT_LENGTH

READERS: dict[str, Callable[[], Reader]] = {
    **{name: tool.reader for name, tool in TOOLS.items()},
    "demo": Demo().reader,
    "shell": Shell().reader,
    "openai": OpenAI().reader,
    "openai refused": lambda: OpenAI().reader(429, {"retry-after": "x"}),
}
WORDS = (
    "subtype", "result", "is_error", "session_id", "sessionID", "thread_id", "usage", "message", "content",
    "role", "id", "text", "part", "state", "status", "reason", "tokens", "cache", "read", "write", "cost",
    "input", "output", "input_tokens", "output_tokens", "cached_input_tokens", "total_tokens", "stats", "cached",
    "error", "errors", "item", "command", "severity", "permission_denials", "tool_name", "tool_input", "tool_id",
    "parameters", "rate_limit_info", "resetsAt", "model", "parent_tool_use_id", "total_cost_usd", "num_turns",
    "structured_output", "api_error_status", "error_status", "retry_delay_ms", "data", "statusCode",
    "responseHeaders", "messageID", "choices", "delta", "finish_reason", "index", "refusal", "code", "toolCall",
    "toolResult", "value", "notificationType", "uuid",
)  # fmt: skip
KINDS = (
    "assistant", "rate_limit_event", "system", "result", "api_retry", "thread.started", "item.completed",
    "turn.completed", "turn.failed", "error", "init", "message", "tool_use", "tool_result", "complete", "text",
    "step_finish", "step_start", "success", "rejected", "allowed", "stop", "tool-calls", "length",
    "agent_message", "declined", "toolRequest", "toolResponse", "systemNotification", "creditsExhausted",
    "rate_limit", "retry-after",
)  # fmt: skip
LEAVES = (
    None, True, False, 0, 1, 7, -1, 429, 2.5, 1e308, float("nan"), 10**400, 1_900_000_000, "", "x", "\x00", "\ud800",
    "429 rate limit", "Ran into this error: x", '{"matins": {"outcome": "failed"}}', "\n```\n", *KINDS,
)  # fmt: skip
Recorded = tuple[Runner, list[list[bytes]]]
FAULTS = ("", "fails", "rate_limit", "denial", "declares_failed")
EXITS = st.none() | st.integers(-64, 255)


def any_event(chance: random.Random) -> dict[str, Any]:
    """Of a kind that a tool has, more often than not, with anything inside."""
    inside = any_object(chance, 3)
    return {**inside, "type": chance.choice(KINDS)} if chance.random() < 0.9 else inside


def any_object(chance: random.Random, depth: int) -> dict[str, Any]:
    return {word: any_value(chance, depth - 1) for word in chance.sample(WORDS, chance.randint(0, 12))}


def any_value(chance: random.Random, depth: int) -> Any:
    shape = chance.random() if depth else 1.0
    if shape < 0.4:
        return any_object(chance, depth)
    if shape < 0.6:
        return [any_value(chance, depth - 1) for _ in range(chance.randint(0, 3))]
    return chance.choice(LEAVES)


def read_all(reader: Reader, lines: list[bytes], exit_code: int | None, *, prefix: bytes = b"") -> None:
    for line in lines:
        reader.feed(prefix + line)
    holds_together(reader.close(exit_code))


def holds_together(result: RunnerResult) -> None:
    """B4: one vocabulary, whose words do not contradict each other."""
    assert not result.succeeded or (result.executed and result.error is None and result.limit is None)
    assert result.succeeded or result.error
    assert min(result.tokens_in, result.tokens_out, result.tokens_cached) >= 0
    assert result.cost_reported == (result.cost_usd is not None)
    assert result.cost_usd is None or result.cost_usd >= 0
    assert result.turns is None or result.turns >= 0
    assert len(result.text) <= MAX_TEXT_LENGTH
    texts = [
        result.text,
        result.error,
        result.reason,
        result.session,
        *result.denials,
        result.limit and result.limit.reason,
    ]
    assert all("\x00" not in text and text.encode() is not None for text in texts if text)
    json.dumps(result.structured, allow_nan=False, ensure_ascii=False).encode()


@pytest.mark.parametrize("name", READERS)
@given(lines=st.lists(st.binary(max_size=60), max_size=8), exit_code=EXITS)
def test_any_bytes(name: str, lines: list[bytes], exit_code: int | None) -> None:
    read_all(READERS[name](), lines, exit_code)
    read_all(READERS[name](), lines, exit_code, prefix=b"data: ")
    read_all(READERS[name](), lines, exit_code, prefix=b'{"type":"result","result":"')


@pytest.mark.parametrize("name", READERS)
@given(seed=st.integers(0, 2**64), exit_code=EXITS)
def test_any_events_in_the_words_of_tools(name: str, seed: int, exit_code: int | None) -> None:
    chance = random.Random(seed)
    lines = [json.dumps(any_event(chance)).encode() for _ in range(chance.randint(0, 8))]
    read_all(READERS[name](), lines, exit_code, prefix=b"data: " if name == "openai" else b"")


@pytest.fixture(scope="module", params=TOOLS)
def recorded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Runner, list[list[bytes]]]:
    """A tool, and what its stand-in said in good days and bad."""
    driver, tool = Driver(tmp_path_factory.mktemp("recorded")), TOOLS[request.param]
    return tool, [
        driver.run(tool, fault=fault).lines for fault in ("", "fails", "rate_limit", "denial", "declares_failed")
    ]


@given(seed=st.integers(0, 2**64), exit_code=EXITS)
def test_a_recorded_stream_with_things_changed(recorded: Recorded, seed: int, exit_code: int | None) -> None:
    tool, streams = recorded
    chance = random.Random(seed)
    lines = [spoilt(line, chance) for line in chance.choice(streams) for _ in range(chance.choice((0, 1, 1, 1, 1, 2)))]
    read_all(tool.reader(), lines, exit_code)


def spoilt(line: bytes, chance: random.Random) -> bytes:
    """As it was, with a value replaced, or with a few bytes changed."""
    way = chance.random()
    if way < 0.5:
        event = json.loads(line)
        spoil(event, chance)
        return json.dumps(event).encode()
    if way < 0.6:
        at = chance.randrange(len(line))
        return line[:at] + chance.randbytes(chance.randint(0, 3)) + line[at + chance.randint(0, 3) :]
    return line


def spoil(value: dict[str, Any], chance: random.Random) -> None:
    """Replace one value somewhere inside."""
    key = chance.choice(list(value))
    inner = value[key][0] if isinstance(value[key], list) and value[key] else value[key]
    if isinstance(inner, dict) and inner and chance.random() < 0.7:
        spoil(inner, chance)
    else:
        value[key] = any_value(chance, 2)


@pytest.mark.parametrize("depth", [100, 900, 990, 100_000])
@pytest.mark.parametrize("name", READERS)
def test_objects_inside_objects(name: str, depth: int) -> None:
    """B9: as deep as Python follows them, and deeper."""
    for word in ("part", "message", "permission_denials", "structured_output", "error", "item", "toolResult"):
        deep = b'{"%s":' % word.encode() * depth + b"1" + b"}" * depth
        lists = b"[" * depth + b"]" * depth
        lines = [b'{"type":"result","subtype":"success","is_error":false,"%s":%s}' % (word.encode(), value)
                 for value in (deep, lists)]  # fmt: skip
        read_all(READERS[name](), [*lines, *lines, deep], 0, prefix=b"data: " if name == "openai" else b"")


@pytest.mark.parametrize("name", READERS)
def test_long_lines_and_many_of_them(name: str) -> None:
    """B9: what is kept is bounded."""
    reader = READERS[name]()
    for line in (b"x" * 9_000_000, b'{"type":"text","part":{"text":"' + b"y" * 3_000_000 + b'"}}', b"\x00" * 1_000_000):
        reader.feed(line)
        reader.feed(b"data: " + line)
    holds_together(reader.close(0))
