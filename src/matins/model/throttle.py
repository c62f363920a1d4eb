"""Throttles of providers."""

from __future__ import annotations

from typing import NamedTuple


class Throttle(NamedTuple):
    """A provider whose rate limit ends at `resets_at`."""

    provider: str
    resets_at: int
    activated_at: int
    affects: tuple[str, ...]
    """The affected agents; empty for all."""
    reason: str
    by: str
    login: str | None = None
    """The command by which a person logs in again, if the provider refuses the tool's key or login."""
