"""What goose has recorded of a session. A script inside the walls reads it, because an agent can write there."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from matins.errors import MatinsError
from matins.executors.inside import script
from matins.executors.runners.protocol import Ask, SessionUsage
from matins.executors.runners.tool_events import MAX_NUMBER, shorten
from matins.runtime.clock import SystemClock

_SCRIPT = script("goose_usage")
_TIMEOUT_MS = 5_000
"""The script has two seconds of processor time; a busy machine needs longer for them."""
_MEMORY_BYTES = 256 << 20
_MAX_ANSWER_LENGTH = 4_000
_PAUSE_MS = 2_000
"""Between two readings of a run that goes on: a limit is passed by what it uses meanwhile."""
_EVER = 1 << 62
_boot_ms = SystemClock().boot_ms


class Recorded(NamedTuple):
    usage: SessionUsage | None = None
    problem: str | None = None


class GooseLedger:
    def __init__(self, ask: Ask | None, boot_ms: Callable[[], int] = _boot_ms) -> None:
        """`ask` is None where there is no run: then nothing is known."""
        self._ask = ask
        self._boot_ms = boot_ms
        self._last = Recorded()
        self._next_at = 0
        self._asking = threading.Lock()

    def usage(self, session: str, before: int | None = None) -> SessionUsage | None:
        if before is not None:
            return self._read(session, before // 1000).usage
        with self._asking:
            self._last = self._read(session, _EVER)
        return self._last.usage

    def recent(self, session: str) -> SessionUsage | None:
        now = self._boot_ms()
        if now >= self._next_at:
            self._next_at = now + _PAUSE_MS
            threading.Thread(target=self._refresh, args=(session,), name="matins-goose", daemon=True).start()
        return self._last.usage

    def problem(self, session: str) -> str | None:
        """By the last reading, that of the usage."""
        return self._last.problem

    def _refresh(self, session: str) -> None:
        """One at a time: the supervisor may be slower than the next look."""
        if self._asking.acquire(blocking=False):
            try:
                self._last = self._read(session, _EVER)
            finally:
                self._next_at = self._boot_ms() + _PAUSE_MS
                self._asking.release()

    def _read(self, session: str, before_s: int) -> Recorded:
        if self._ask is None:
            return Recorded()
        argv = (*_SCRIPT, session, str(before_s))
        try:
            exit_code, output, _ = self._ask(argv, timeout_ms=_TIMEOUT_MS, memory_bytes=_MEMORY_BYTES)
        except MatinsError:  # the agent cannot be isolated any more
            return Recorded()
        return read_answer(output) if exit_code == 0 else Recorded()


def read_answer(output: str) -> Recorded:
    """The answer of the script, which is an agent's word. Nothing is known of one that is not exactly as it should be:
    what the agent said is then counted."""
    if len(output) > _MAX_ANSWER_LENGTH:
        return Recorded()
    try:
        answer = json.loads(output)
    except (ValueError, RecursionError):
        return Recorded()
    match answer:
        case {"usage": usage, "problem": problem} if len(cast("dict[str, Any]", answer)) == 2:
            return Recorded(_usage(usage), shorten(problem) if isinstance(problem, str) and problem else None)
        case _:
            return Recorded()


def _usage(counts: Any) -> SessionUsage | None:
    if not isinstance(counts, list) or not all(_is_count(count) for count in cast("list[Any]", counts)):
        return None
    match cast("list[int]", counts):
        case [answers, given, out, cached] if answers > 0:
            return SessionUsage((max(0, given - cached), out, cached))
        case _:
            return None


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_NUMBER
