"""The key of a run, by which jobs and tools recognise a repeated attempt."""

from __future__ import annotations

from hashlib import sha256


def run_key(schedule: str, slot: int | None, request_key: str | None, step: int = 0) -> str:
    """Of the identity of the schedule, and the first slot or the request: a store that was set back to an older copy
    gives its run ids to other slots, but the same slot keeps its key. A run may lose its last slots when the clock is
    set back, but keeps its first."""
    part = str(slot) if slot is not None else sha256((request_key or "").encode()).hexdigest()[:16]
    return f"{schedule}-{part}-{step}" if step else f"{schedule}-{part}"
