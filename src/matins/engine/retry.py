"""When a failed attempt is tried again."""

from __future__ import annotations

from matins.engine.when.jitter import fraction
from matins.model.schedule import ScheduleDefinition


def next_attempt_at(definition: ScheduleDefinition, run_id: int, attempt: int, now: int) -> int | None:
    """The instant of the attempt after number `attempt`, or None when there is none left.

    Doubles from `retry_delay_ms` up to `max_retry_delay_ms`, with up to a tenth more so that failures do not march in
    step; the same for the same run and attempt.
    """
    if attempt > definition.retries:
        return None
    delay = min(definition.retry_delay_ms << min(attempt - 1, 40), definition.max_retry_delay_ms)
    return now + delay + int(delay * 0.1 * fraction(f"{run_id}:{attempt}"))
