"""Strings and values that somebody means harm with."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

INJECTIONS = (
    "; touch {canary}",
    "&& touch {canary}",
    "|| touch {canary}",
    "| touch {canary}",
    "& touch {canary} &",
    "$(touch {canary})",
    "`touch {canary}`",
    "${{IFS}};touch${{IFS}}{canary}",
    "'; touch {canary}; '",
    '"; touch {canary}; "',
    "'\"; touch {canary} #",
    "\\'; touch {canary}; \\'",
    ") ; touch {canary} ; (",
    "}}; touch {canary}; {{",
    "() {{ :;}}; touch {canary}",  # shellshock
    "> {canary}",
    ">> {canary}",
    "<( touch {canary} )",
    "--exec=touch {canary}",
    "-c touch {canary}",
    "x; export BASH_ENV={canary}; touch {canary}",
    "%s%n touch {canary}",
    "{{{{ touch {canary} }}}}",
    "__import__('os').system('touch {canary}')",
    "'); ATTACH '{canary}' AS x; --",
    "'; DROP TABLE schedules; --",
    "../../../../{canary}",
    "~; touch {canary}",
    "*; touch {canary}",
    "!touch {canary}",
    "$0 -c touch {canary}",
    "${{x:=$(touch {canary})}}",
    "a=`touch {canary}` b",
    "\u0430; touch {canary}",
)
"""One line of printable characters each, as a name may be."""
LINES = (
    "a\ntouch {canary}",
    "a\r\ntouch {canary}",
    "a\0touch {canary}",
    "\x1b]0;touch {canary}\x07",
    "a\u2028touch {canary}",
    "\u202etxt.hcuot; touch {canary}",
    "\x7f",
    "a\tb",
    "\ud800",
    "\udfff x",
)
"""What no name may hold."""


def injections(canary: Path) -> list[str]:
    return [text.format(canary=canary) for text in INJECTIONS]


def lines(canary: Path) -> list[str]:
    return [text.replace("{canary}", str(canary)) for text in LINES]


_PIECES = (
    "", " ", "\0", "\n", "\r", "\t", "'", '"', "`", "\\", "$", ";", "|", "&", "(", ")", "{", "}", "<", ">", "*", "?",
    "!", "#", "%", "~", "/", "../", "-", "--", "=", ",", ":", ".", "@", "0", "1", "9" * 30, "-1", "1e999", "NaN",
    "None", "null", "true", "\u202e", "\u200b", "\ufeff", "\ud83d", "\udc80", "\U0001f525", "é", "İ", "ß", "Ω" * 20,
    "x" * 300, "every", "day", "at", "5m", "*/5", "* * * * *", "RRULE:FREQ=", "FREQ=SECONDLY", "2026-03-27", "T25:61",
    "UTC", "Europe/", "L", "W", "#3", "$(id)", "; DROP TABLE runs", "<script>", "\x1b[31m", "{{7*7}}", "%(x)s",
    "\\u0000", "$1", ":name", "?1",
)  # fmt: skip
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 1 << 31, 1 << 63, -(1 << 63), 1 << 100, 0.5, -0.0, float("nan"), float("inf"), 1e308,
    b"bytes", b"\xff", [], {}, (), set(), [[]], [None], ["a", 1], ["\0"], ["\ud800"], {"a": {"b": ["c"]}}, {1: 2},
    {None: 1}, {"\ud800": 1}, {"a": "\ud800"}, {"a": object()}, object(), object, Decimal("1.5"), datetime(2026, 3, 27),
    range(3), "a".join,
)  # fmt: skip

TARGETS: tuple[Any, ...] = (
    {"kind": []}, {"kind": {}}, {"kind": None}, {"kind": "channel"}, {"kind": "channel", "channel": 5},
    {"kind": "channel", "channel": ["x"]}, {"kind": "channel", "channel": "a\0b"}, {"kind": "channel", "channel": ""},
    {"kind": "session", "session": "\ud800"}, {"kind": "session", "session": {"a": object()}},
    {"kind": "thread", "thread": 1 << 100}, {"kind": "thread", "thread": "9" * 5000}, {"kind": "thread", "thread": -1},
    {"kind": "thread", "thread": 1.5}, {"kind": "thread", "thread": "٣"}, {"kind": "fresh", "channel": object()},
    {"kind": "fresh", "session_name": object()}, {1: 2}, {"kind": "fresh", "more": 1},
)  # fmt: skip


def strings(seed: int) -> Iterator[str]:
    """Without end; the same for a seed."""
    chance = random.Random(seed)
    while True:
        pieces = chance.choices(_PIECES, k=chance.randrange(1, 6))
        if chance.random() < 0.3:
            pieces.insert(chance.randrange(len(pieces)), chr(chance.randrange(0x110000)))
        yield "".join(pieces)
