"""herdctl's interval and cron functions."""

from __future__ import annotations

from datetime import datetime, timedelta

from matins.app import parse_trigger
from matins.engine.when.cron import parse_cron
from matins.engine.when.durations import parse_duration as parse_interval
from matins.engine.when.jitter import jitter_ms
from matins.engine.when.triggers import EPOCH, Trigger, to_ms
from matins.errors import CronParseError
from matins.runtime.clock import SystemClock

__all__ = [
    "calculate_next_cron_trigger",
    "calculate_next_trigger",
    "is_schedule_due",
    "is_valid_cron_expression",
    "parse_cron_expression",
    "parse_interval",
]


def parse_cron_expression(expression: str, *, timezone: str = "local") -> Trigger:
    """Five fields or an alias, in the machine's zone unless another is named; six fields are refused."""
    fields = len(expression.split())
    if fields != 5 and not expression.startswith("@"):
        raise CronParseError(
            f'Invalid cron expression "{expression}" - expected 5 fields, got {fields}', value=expression
        )
    parse_cron(expression)  # whatever else the text could be, here it is cron
    return parse_trigger(expression, timezone=timezone)


def is_valid_cron_expression(expression: str) -> bool:
    try:
        parse_cron_expression(expression)
    except CronParseError:
        return False
    return True


def calculate_next_cron_trigger(expression: str, after: datetime, *, timezone: str = "local") -> datetime | None:
    """The next match after a date; missed ones are not caught up."""
    return parse_cron_expression(expression, timezone=timezone).next_after(after)


def calculate_next_trigger(
    last_completed_at: datetime | None, interval: str, jitter: float = 0, *, now: datetime | None = None
) -> datetime:
    """The first run is at once, the next an interval after the last completion (and up to `jitter` percent of it
    later, 0 to 10, the same for the same completion); what is past already is due now."""
    now = now or _now()
    period = parse_interval(interval)
    if last_completed_at is None:
        return now
    slot = to_ms(last_completed_at) + period
    late = period + jitter_ms(interval, slot, period, jitter)
    return max(last_completed_at + timedelta(milliseconds=late), now)


def is_schedule_due(next_trigger_at: datetime, *, now: datetime | None = None) -> bool:
    return next_trigger_at <= (now or _now())


def _now() -> datetime:
    return EPOCH + timedelta(milliseconds=SystemClock().now_ms())
