"""Retries: when a failed attempt is retried."""

from __future__ import annotations

from matins.engine.when.jitter import fraction
from matins.model.schedule import ScheduleDefinition


def next_attempt_at(definition: ScheduleDefinition, run_id: int, attempt: int, now: int) -> int | None:
    """The instant of the attempt after number `attempt`; None when no retry is left.

    The delay doubles from `retry_delay_ms` up to `max_retry_delay_ms`. Up to a tenth is added, so that failures do not
    retry in step; it is the same for the same run and attempt.
    """
    if attempt > definition.retries:
        return None
    delay = min(definition.retry_delay_ms << min(attempt - 1, 40), definition.max_retry_delay_ms)
    return now + delay + int(delay * 0.1 * fraction(f"{run_id}:{attempt}"))
