"""An invariant that does not hold, and what the engine itself complains of."""

from __future__ import annotations

import logging


class Violation(BaseException):
    """Not an Exception: the engine must not take it for a fault that it can live with."""

    def __init__(self, invariant: int, text: str) -> None:
        super().__init__(f"invariant {invariant}: {text}")
        self.invariant = invariant


def require(invariant: int, holds: bool, text: str) -> None:
    if not holds:
        raise Violation(invariant, text)


class Complaints(logging.Handler):
    """What the engine logs with a traceback is a fault that nobody injected."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.first: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if self.first is None:
            error = record.exc_info[1] if record.exc_info else None
            self.first = f"{record.getMessage()}: {error!r}"
