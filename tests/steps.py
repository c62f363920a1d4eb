"""Counting the lines of Python that a call runs: a bound on work that does not depend on the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class TooManySteps(BaseException):
    """Not an Exception, so that no handler in the code under test can swallow it."""


class StepCounter:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0

    def trace(self, frame: FrameType, event: str, arg: Any) -> Callable[..., Any]:
        self.taken += 1
        if self.taken > self.limit:
            raise TooManySteps(f"more than {self.limit} steps, at {frame.f_code.co_qualname}:{frame.f_lineno}")
        return self.trace


@contextmanager
def at_most(limit: int) -> Iterator[StepCounter]:
    """Raise TooManySteps inside the block when it runs more lines than this."""
    counter, previous = StepCounter(limit), sys.gettrace()
    sys.settrace(counter.trace)
    try:
        yield counter
    finally:
        sys.settrace(previous)
