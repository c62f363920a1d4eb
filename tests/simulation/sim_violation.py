"""An invariant that does not hold."""

from __future__ import annotations


class Violation(BaseException):
    """Not an Exception: the engine must not take it for a fault that it can live with."""

    def __init__(self, invariant: int, text: str) -> None:
        super().__init__(f"invariant {invariant}: {text}")
        self.invariant = invariant


def require(invariant: int, holds: bool, text: str) -> None:
    if not holds:
        raise Violation(invariant, text)
