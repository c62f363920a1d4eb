"""Agents that are called rather than started: a thread for each call, and a line that is cut when it must end."""

from __future__ import annotations

import logging
import socket
import threading
import traceback
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, cast

from matins.errors import MatinsError
from matins.executors.processes.redaction import Redactor
from matins.executors.processes.values import EndedBy, Fate, Limits
from matins.executors.runners.base import Call, Speaker, Told
from matins.model.run import Usage
from matins.net.client import Door, Reply
from matins.ports import Clock
from matins.runtime.attempt import Mark
from matins.runtime.spending import Bound

log = logging.getLogger("matins")
_FOR_EVER_S = 86_400.0
_LOOK_MS = 250
_STUBBORN_MS = 5_000
"""So long after its wall limit a call that goes on is one that nobody can end."""


class Allowance:
    """What a call may spend. Others spend too, so its bounds are read again while it goes on."""

    def __init__(self, clock: Clock, bounds: Callable[[], list[Bound]], usage: Callable[[Told], Usage]) -> None:
        self._clock = clock
        self._read = bounds
        self._usage = usage
        self._bounds = bounds()
        self._read_at = clock.boot_ms()

    def too_much(self, told: Told) -> str | None:
        if not self._bounds:
            return None
        if self._clock.boot_ms() - self._read_at >= _LOOK_MS:
            self._bounds, self._read_at = self._read(), self._clock.boot_ms()
        usage = self._usage(told)
        return next((why for bound in self._bounds if (why := bound.passed(usage))), None)


class CallLine:
    """One call's line: its own patience with the other side, and the hand that cuts it."""

    def __init__(
        self, clock: Clock, door: Door, limits: Limits, allowance: Allowance, secrets: tuple[str, ...]
    ) -> None:
        self._clock = clock
        self._door = door
        self._limits = limits
        self._allowance = allowance
        self._secrets = secrets
        self._cutting = threading.Lock()
        self._sock: socket.socket | None = None
        self._begun = clock.boot_ms()
        self._waits_for: EndedBy | None = None
        self.ended_by: EndedBy | None = None
        self.why: str | None = None
        """In words, where it has spent what it may."""

    # -- for the speaker

    @property
    def cut(self) -> bool:
        return self.ended_by is not None

    def now_s(self) -> int:
        return self._clock.now_ms() // 1000

    @contextmanager
    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Generator[Reply]:
        with self._door.open("POST", url, self, body=body, headers=headers, cleaned=self.cleaned) as reply:
            yield reply

    def spent_up(self, so_far: Told) -> bool:
        self.why = self._allowance.too_much(so_far)
        if self.why is not None:
            self.end("budget")
        return self.why is not None

    # -- for whoever waits on the other side

    def left(self) -> float:
        """Each wait is for the next bytes: it may take as long as silence may, within the wall limit."""
        wall, idle = self._limits.wall_ms, self._limits.idle_ms
        waits: list[tuple[float, EndedBy | None]] = [(_FOR_EVER_S, None)]
        if wall is not None:
            waits.append(((self._begun + wall - self._clock.boot_ms()) / 1000, "wall"))
        if idle is not None:
            waits.append((idle / 1000, "idle"))
        seconds, self._waits_for = min(waits, key=lambda wait: wait[0])
        if seconds <= 0:
            self.ran_out()
        if self.cut:
            raise TimeoutError
        return seconds

    def ran_out(self) -> None:
        self.ended_by = self.ended_by or self._waits_for

    def holds(self, sock: socket.socket) -> None:
        with self._cutting:
            self._sock = sock
            if self.cut:
                _shut(sock)

    # -- for the executor

    def end(self, ended_by: EndedBy) -> None:
        with self._cutting:
            self.ended_by = self.ended_by or ended_by
            if self._sock is not None:
                _shut(self._sock)

    def stubborn(self) -> bool:
        wall = self._limits.wall_ms
        return wall is not None and self._clock.boot_ms() > self._begun + wall + _STUBBORN_MS

    def cleaned(self, data: bytes) -> bytes:
        if not self._secrets:
            return data
        redactor = Redactor([secret.encode() for secret in self._secrets])
        return redactor.feed(data) + redactor.finish()

    def cleaned_text(self, text: str) -> str:
        return self.cleaned(text.encode(errors="replace")).decode(errors="replace")


class Speaking:
    """The calls under way. `done` hears how each ended, in that call's thread."""

    def __init__(self, clock: Clock, done: Callable[[Mark, Told, Fate, str | None], None]) -> None:
        self._clock = clock
        self._done = done
        self._lines: dict[Mark, CallLine] = {}
        self._stubborn: set[Mark] = set()

    def begin(self, mark: Mark, speaker: Speaker, call: Call, line: CallLine) -> None:
        self._lines[mark] = line
        name = f"matins-call-{mark[0]}"
        threading.Thread(target=self._speak, args=(mark, speaker, call, line), name=name, daemon=True).start()

    def end(self, mark: Mark) -> bool:
        """Whether it is one of ours."""
        line = self._lines.get(mark)
        if line is not None:
            line.end("asked")
        return line is not None

    def end_all(self) -> None:
        for mark in list(self._lines):
            self.end(mark)

    def stubborn(self) -> list[Mark]:
        """Those that have gone past their limit since the last time, and that no cut line has ended."""
        late = [mark for mark, line in list(self._lines.items()) if line.stubborn() and mark not in self._stubborn]
        self._stubborn.update(late)
        return late

    def _speak(self, mark: Mark, speaker: Speaker, call: Call, line: CallLine) -> None:
        began = self._clock.now_ms()
        told = _cleaned(_told(speaker, call, line), line)
        # What is done was done before anybody could cut it.
        ended_by = None if told.succeeded else line.ended_by
        fate = Fate("finished", ended_by=ended_by, started_at=began, ended_at=self._clock.now_ms())
        self._lines.pop(mark, None)
        self._stubborn.discard(mark)
        self._done(mark, told, fate, line.why)


def _told(speaker: Speaker, call: Call, line: CallLine) -> Told:
    try:
        return speaker.speak(call, line)
    except MatinsError as error:
        hint = f" ({error.hint})" if error.hint else ""
        return Told(False, False, error=f"{error.message}{hint}")
    except Exception as error:  # somebody's runner may raise anything
        log.error("the runner %s raised: %s", speaker.name, line.cleaned_text(traceback.format_exc()))
        return Told(False, False, error=f"{type(error).__name__}: {error}")


def _cleaned(told: Told, line: CallLine) -> Told:
    """Without secrets, also those that came in pieces."""
    texts = {
        name: line.cleaned_text(text)
        for name in ("text", "error", "reason", "session")
        if isinstance(text := getattr(told, name), str)
    }
    limit = told.limit and told.limit._replace(reason=line.cleaned_text(told.limit.reason))
    denials = tuple(line.cleaned_text(denial) for denial in told.denials)
    return replace(told, **texts, limit=limit, denials=denials, structured=_cleaned_json(told.structured, line))


def _cleaned_json(value: Any, line: CallLine) -> Any:
    if isinstance(value, str):
        return line.cleaned_text(value)
    if isinstance(value, list):
        return [_cleaned_json(item, line) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return {line.cleaned_text(key): _cleaned_json(item, line) for key, item in pairs}
    return value


def _shut(sock: socket.socket) -> None:
    with suppress(OSError):  # it is closed already
        socket.socket.shutdown(sock, socket.SHUT_RDWR)  # of TLS too: nobody waits for a farewell
