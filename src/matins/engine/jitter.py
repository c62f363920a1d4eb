"""A spread of start times that is the same after every restart."""

from __future__ import annotations

from hashlib import blake2b

from matins.errors import InvalidInput

MOST_PERCENT = 10


def jitter_ms(schedule_id: int | str, slot_ms: int, period_ms: int, percent: float) -> int:
    """How much later than its slot a schedule is due: up to `percent` of its period, fixed by schedule and slot."""
    if not 0 <= percent <= MOST_PERCENT:
        raise InvalidInput(
            f"jitter must be 0 to {MOST_PERCENT} percent, got {percent:g}",
            value=percent,
            field="jitter",
            allowed=f"0-{MOST_PERCENT}",
            hint="a larger spread would reach into the neighbouring slots",
        )
    if percent == 0 or period_ms <= 0:
        return 0
    digest = blake2b(f"{schedule_id}:{slot_ms}".encode(), digest_size=8).digest()
    return int(period_ms * percent / 100) * int.from_bytes(digest) >> 64
