"""herdctl's intervals and cron expressions. A datetime without a zone is local time, as in its own `new Date(…)`."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from matins.app import parse_trigger
from matins.config.presets import PRESETS
from matins.engine.when.cron import parse_cron
from matins.engine.when.durations import parse_duration
from matins.engine.when.triggers import EPOCH, Trigger, jitter_ms, to_ms
from matins.errors import CronParseError, IntervalParseError
from matins.runtime.clock import SystemClock

_EXAMPLE = 'For example: "0 9 * * 1-5".'
_ONE_UNIT = re.compile(r"\s*([0-9]+)\s*([smhd])\s*", re.IGNORECASE)


def parse_interval(interval: str) -> int:
    """Milliseconds of `{number}{unit}`, such as `5m` or `1H`. The value of an error is the text as given."""
    found = _ONE_UNIT.fullmatch(interval)
    try:
        if found is not None:
            return parse_duration(f"{found[1]}{found[2].lower()}", compound=False)
        parse_duration(interval, compound=False)
    except IntervalParseError as error:
        error.value = interval
        raise
    unit = interval.strip().lstrip("+0123456789 ")  # a duration that only Matins understands
    message = f'Invalid time unit "{unit}". Valid units are: s, m, h, d'
    hint = "Use one number and one unit: 90m for 1h30m."
    raise IntervalParseError(message, value=interval, field="interval", allowed="{number}{s|m|h|d}", hint=hint)


def parse_cron_expression(expression: str, *, timezone: str = "local") -> Trigger:
    """Five fields or an alias, in the machine's zone unless another is named; six fields are refused. The error has the
    `expression` as given."""
    text = expression.strip()
    try:
        cron = parse_cron(text)  # whatever else the text could be, here it is cron
        if cron.seconds is not None:
            PRESETS["herdctl"].check_fields(text, parse_trigger(text).definition.when)
        return parse_trigger(text, timezone=timezone)
    except CronParseError as error:
        error.expression = expression
        error.hint = f"{error.hint} {_EXAMPLE}" if error.hint and _EXAMPLE not in error.hint else _EXAMPLE
        raise


def is_valid_cron_expression(expression: str) -> bool:
    try:
        parse_cron_expression(expression)
    except CronParseError:
        return False
    return True


def calculate_next_cron_trigger(
    expression: str, after: datetime | None = None, *, timezone: str = "local"
) -> datetime | None:
    """The next match after a date, or after now. Missed ones are not caught up."""
    return parse_cron_expression(expression, timezone=timezone).next_after(aware(after or _now(), timezone))


def calculate_next_trigger(
    last_completed_at: datetime | None, interval: str, jitter: float = 0, *, now: datetime | None = None
) -> datetime:
    """The first run is at once, the next an interval after the last completion (and up to `jitter` percent of it
    later, 0 to 10, the same for the same completion); what is past already is due now."""
    now = aware(now or _now())
    period = parse_interval(interval)
    if last_completed_at is None:
        return now
    last = aware(last_completed_at)
    late = period + jitter_ms(interval, to_ms(last) + period, period, jitter)
    return max(last + timedelta(milliseconds=late), now)


def is_schedule_due(next_trigger_at: datetime, now: datetime | None = None) -> bool:
    return aware(next_trigger_at) <= aware(now or _now())


def aware(at: datetime, timezone: str = "local") -> datetime:
    """The instant. A datetime without a zone is local time."""
    if at.tzinfo is not None:
        return at
    return at.replace(tzinfo=ZoneInfo(SystemClock().local_zone() if timezone == "local" else timezone))


def _now() -> datetime:
    return EPOCH + timedelta(milliseconds=SystemClock().now_ms())
