"""Jitter: a spread of start times that is the same after every restart."""

from __future__ import annotations

from hashlib import blake2b

from matins.errors import InvalidInput

MAX_PERCENT = 10


def jitter_ms(schedule_id: int | str, slot_ms: int, period_ms: int, percent: float) -> int:
    """The delay of a slot: up to `percent` of the period, fixed by schedule and slot."""
    if not 0 <= percent <= MAX_PERCENT:
        raise InvalidInput(
            f'"jitter" must be 0 to {MAX_PERCENT} percent, not {percent:g}.',
            value=percent,
            field="jitter",
            allowed=f"0-{MAX_PERCENT}",
            hint=f"Use at most {MAX_PERCENT}: more would reach the next slot.",
        )
    if percent == 0 or period_ms <= 0:
        return 0
    return int(period_ms * percent / 100 * fraction(f"{schedule_id}:{slot_ms}"))


def fraction(text: str) -> float:
    """A number from 0 up to 1 that looks random and is fixed by the text."""
    return int.from_bytes(blake2b(text.encode(), digest_size=6).digest()) / (1 << 48)
