"""What tools have shown, and what every runner promises all the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, cast

from matins.executors.runners.base import Told

LONGEST_TEXT = 1_000_000
MOST_CUTS = 1_500
PADDING = 512 * 1024
_MOST_SPOILT = 600
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
_WRONG: tuple[Any, ...] = (None, True, -1, 1e308, 10**400, "", "\0", "\ud800", "text", [], [[]], {}, {"type": []})


def secret_names(*owners: str) -> set[str]:
    """Variables in which programs look for secrets of their own accord."""
    return {f"{owner.upper()}_{kind}" for owner in owners for kind in _SECRETS} | {*_SECRETS}


def _texts(told: Told) -> list[str | None]:
    limit = told.limit.reason if told.limit else None
    return [told.text, told.error, told.reason, told.session, told.model, *told.denials, limit]


def _storable(told: Told) -> bool:
    try:
        json.dumps(told.structured, allow_nan=False, ensure_ascii=False).encode()
        return b"\0" not in "".join(text for text in _texts(told) if text).encode()
    except (ValueError, TypeError, RecursionError):
        return False


CONSISTENT: dict[str, Callable[[Told], bool]] = {
    "a success was executed, and has no error and no limit": lambda told: (
        not told.succeeded or (told.executed and told.error is None and told.limit is None)
    ),
    "a failure says why": lambda told: told.succeeded or bool(told.error),
    "tokens, money and turns are not negative": lambda told: (
        min(told.tokens_in, told.tokens_out, told.tokens_cached, told.cost_usd or 0, told.turns or 0) >= 0
    ),
    "money that was reported is there": lambda told: told.cost_reported == (told.cost_usd is not None),
    f"a text has at most {LONGEST_TEXT:,} characters": lambda told: len(told.text) <= LONGEST_TEXT,
    "every text can be stored (no NUL, no half characters, JSON is JSON)": _storable,
}


def spoilt(line: bytes) -> Iterator[bytes]:
    """The line with each of its values replaced by each of the wrong ones: the first few hundred such lines."""
    return islice(_all_spoilt(line), _MOST_SPOILT)


def _all_spoilt(line: bytes) -> Iterator[bytes]:
    begin = line.find(b"{")
    try:
        event = json.loads(line[begin:]) if begin >= 0 else None
    except ValueError:
        return
    for put in _places(event):
        for wrong in _WRONG:
            kept = put(wrong)
            yield line[:begin] + json.dumps(event).encode() + b"\n"
            put(kept)


def _places(value: Any) -> Iterator[Callable[[Any], Any]]:
    """For every place in a value: what puts another thing there, and returns what was."""
    if isinstance(value, dict):
        items = list(cast("dict[Any, Any]", value).items())
    else:
        items = list(enumerate(cast("list[Any]", value))) if isinstance(value, list) else []

    for key, inner in items:

        def put(new: Any, key: Any = key) -> Any:
            old = cast("Any", value[key])
            value[key] = new
            return old

        yield put
        yield from _places(inner)


def padded(line: bytes) -> bytes:
    """With its longest text far longer."""
    texts = sorted(line.split(b'"')[1::2], key=len)
    return line.replace(texts[-1], texts[-1] + b" x" * (PADDING // 2)) if texts else line
