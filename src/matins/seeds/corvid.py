"""corvid-agent's rule on how often a schedule may fire."""

from __future__ import annotations

from matins.app import parse_trigger
from matins.engine.when.cron import parse_cron
from matins.engine.when.durations import format_duration
from matins.errors import CronParseError, IntervalParseError

MIN_SCHEDULE_INTERVAL_MS = 300_000


def validate_schedule_frequency(
    cron_expression: str | None = None,
    interval_ms: int | None = None,
    *,
    minimum_ms: int = MIN_SCHEDULE_INTERVAL_MS,
) -> None:
    """Refuse what fires more often than the minimum, by the smallest gap of its whole cycle."""
    if cron_expression is not None:
        _refuse_short(_smallest_gap(cron_expression), cron_expression, minimum_ms)
    if interval_ms is not None:
        _refuse_short(interval_ms, interval_ms, minimum_ms)


def _smallest_gap(expression: str) -> int:
    try:
        parse_cron(expression)
    except CronParseError as error:
        raise CronParseError(
            f"Invalid cron expression: {error.message}", value=expression, field=error.field, hint=error.hint
        ) from error
    gap = parse_trigger(expression).smallest_gap()
    assert gap is not None
    return round(gap.total_seconds() * 1000)


def _refuse_short(gap_ms: int, value: object, minimum_ms: int) -> None:
    if gap_ms < minimum_ms:
        gap, minimum = format_duration(gap_ms), format_duration(minimum_ms)
        raise IntervalParseError(
            f"Schedule interval too short: {value} fires as often as every {gap}; the minimum is {minimum}",
            value=value,
            allowed=f"{minimum} or more",
            hint=f"make it fire every {minimum} at the most",
        )
