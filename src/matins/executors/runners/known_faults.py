"""Faults of real tools that every runner must handle."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, cast

from matins.executors.runners.protocol import RunnerResult

MAX_TEXT_LENGTH = 1_000_000
MAX_CUTS = 1_500
PADDING = 512 * 1024
_MAX_SPOILT = 600
CANARY = "canary-5f3759df"
_SECRETS = ("API_KEY", "TOKEN", "AUTH_TOKEN", "PASSWORD", "SECRET")
PROMPTS = (
    "-p --version",
    "--help",
    "- a list\n- of two",
    "\n\n  two lines\r\nand a tab\t",
    'it\'s "$HOME" `whoami` $(touch canary); & | > canary \\',
    "@file.txt",
    "/quit",
    "🪴 \u202e\x07",
    "x" * 300_000,
)
UNUSABLE = {"a NUL": "water\0the plants", "half a character": "water \ud83e the plants"}
NOISE = (
    b"", b"not json at all", b'{"type":', b"[1, 2, 3]", b'"result"', b"null", b"42", b'{"type": 7}', b"{}", b"\x00" * 9,
    b"\xe2\x82", b"\xff\xfe\xfd", b"\x1b[?1004l", b'{"a": NaN, "b": 1e999}', b"{" * 2_000, b'{"a":' * 2_000,
)  # fmt: skip
_WRONG_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    1e308,
    10**400,
    "",
    "\0",
    "\ud800",
    "text",
    [],
    [[]],
    {},
    {"type": []},
)


def secret_names(*owners: str) -> set[str]:
    """Variables in which programs look for secrets by default."""
    return {f"{owner.upper()}_{kind}" for owner in owners for kind in _SECRETS} | {*_SECRETS}


def _spoken(result: RunnerResult) -> list[str | None]:
    limit = result.limit.reason if result.limit else None
    return [result.text, result.error, result.reason, result.session, result.model, *result.denials, limit]


def _storable(result: RunnerResult) -> bool:
    try:
        json.dumps(result.structured, allow_nan=False, ensure_ascii=False).encode()
        return b"\0" not in "".join(text for text in _spoken(result) if text).encode()
    except (ValueError, TypeError, RecursionError):
        return False


CONSISTENT: dict[str, Callable[[RunnerResult], bool]] = {
    "a success was executed, and has no error and no limit": lambda result: (
        not result.succeeded or (result.executed and result.error is None and result.limit is None)
    ),
    "a failure says why": lambda result: result.succeeded or bool(result.error),
    "tokens, money and turns are not negative": lambda result: (
        min(result.tokens_in, result.tokens_out, result.tokens_cached, result.cost_usd or 0, result.turns or 0) >= 0
    ),
    "money that was reported is there": lambda result: result.cost_reported == (result.cost_usd is not None),
    f"a text has at most {MAX_TEXT_LENGTH:,} characters": lambda result: len(result.text) <= MAX_TEXT_LENGTH,
    "every text can be stored (no NUL, no half characters, JSON is JSON)": _storable,
}


def spoilt(line: bytes) -> Iterator[bytes]:
    """The line with each value replaced by each wrong value: the first few hundred such lines."""
    return islice(_all_spoilt(line), _MAX_SPOILT)


def _all_spoilt(line: bytes) -> Iterator[bytes]:
    begin = line.find(b"{")
    try:
        event = json.loads(line[begin:]) if begin >= 0 else None
    except ValueError:
        return
    for set_value in _setters(event):
        for wrong in _WRONG_VALUES:
            before = set_value(wrong)
            yield line[:begin] + json.dumps(event).encode() + b"\n"
            set_value(before)


def _setters(value: Any) -> Iterator[Callable[[Any], Any]]:
    """For every nested value: a function that replaces it and returns the old one."""
    if isinstance(value, dict):
        items = list(cast("dict[Any, Any]", value).items())
    else:
        items = list(enumerate(cast("list[Any]", value))) if isinstance(value, list) else []

    for key, inner in items:

        def set_value(new: Any, key: Any = key) -> Any:
            old = cast("Any", value[key])
            value[key] = new
            return old

        yield set_value
        yield from _setters(inner)


def padded(line: bytes) -> bytes:
    """The line with its longest string made far longer."""
    texts = sorted(line.split(b'"')[1::2], key=len)
    return line.replace(texts[-1], texts[-1] + b" x" * (PADDING // 2)) if texts else line
