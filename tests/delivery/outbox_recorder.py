"""Somebody who is told of events, and short ways to have it told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matins.testing import Sandbox

HOUR = 3_600_000
Told = dict[str, Any]


def deliver(bench: Sandbox) -> int | None:
    return bench.outbox.run_once(bench.clock.now_ms())


def let_pass(bench: Sandbox, milliseconds: int) -> None:
    """Look whenever there is something to do, as the thread would."""
    end = bench.clock.now_ms() + milliseconds
    while (next_at := deliver(bench)) is not None and next_at <= end:
        bench.clock.advance_to(next_at)
    bench.clock.advance_to(end)
    deliver(bench)


def types(told: list[Told]) -> list[str]:
    return [event["type"].removeprefix("matins.") for event in told]


class Recorder:
    """Remembers what it is told, and fails where a test says so."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        self.tried: list[tuple[str, str]] = []
        self.fails: Callable[[Told], bool] = lambda event: False

    def __call__(self, event: Told) -> None:
        self.tried.append((event["id"], event["type"]))
        if self.fails(event):
            raise ValueError("not \0 now \ud800")
        self.told.append(event)

    @property
    def types(self) -> list[str]:
        return types(self.told)
