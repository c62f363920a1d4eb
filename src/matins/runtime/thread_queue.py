"""What other threads hand to the engine's."""

from __future__ import annotations

from queue import Empty, SimpleQueue
from typing import TypeVar

T = TypeVar("T")


def drained(queue: SimpleQueue[T]) -> list[T]:
    """What is in the queue now. Nothing is waited for."""
    found: list[T] = []
    try:
        while True:
            found.append(queue.get_nowait())
    except Empty:
        return found
