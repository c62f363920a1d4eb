"""Durations such as `30s`, `5m`, `2h`, `1d`."""

from __future__ import annotations

import re

from matins.errors import IntervalParseError

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
UNITS = {"ms": 1, "s": SECOND_MS, "m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS}
MAX_DURATION_MS = 36_525 * UNITS["d"]
_MAX_SHOWN = 60
_PART = re.compile(r"([0-9]{1,12})(ms|[smhd])")
_COMPOUND = re.compile(rf"({_PART.pattern}\s*){{2,5}}")
_NUMBER = re.compile(r"([+-]?)([0-9]*)(\.[0-9]*)?(.*)", re.DOTALL)


def parse_duration(text: str, *, zero: bool = False, compound: bool = True) -> int:
    """The duration in milliseconds. `zero`: whether it may be 0. `compound`: whether 1h30m is one."""
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers are not all typed
        raise _error(text, "A duration must be text.", 'Write a number and a unit, such as "5m".')
    text = text.strip()
    if compound and _COMPOUND.fullmatch(text):
        return _sum(text)
    match = _NUMBER.fullmatch(text)
    assert match is not None
    sign, digits, decimals, unit = match.groups()
    unit = unit.strip()
    if not digits and decimals in (None, "."):
        raise _error(text, f'"{_shortened(text)}" is not a duration.', "Write a number and a unit, such as 5m.")
    if sign == "-":
        raise _error(text, "Negative intervals are not allowed", f"Write {digits}{unit or 'm'}.")
    if decimals is not None:
        raise _error(text, "Decimal values are not supported", "Use a smaller unit: 90s for 1.5m.")
    if not unit:
        number = digits.lstrip("0")[:12] or "1"
        raise _error(
            text,
            'Missing time unit. Expected format: "{number}{unit}"',
            f"Write {number}s, {number}m, {number}h or {number}d.",
        )
    if unit not in UNITS:
        raise _error(
            text,
            f'Invalid time unit "{_shortened(unit)}". Valid units are: s, m, h, d',
            "Use a number and a unit, such as 90m, the largest unit first: 1h30m.",
        )
    milliseconds = int(digits[:12]) * UNITS[unit]
    if milliseconds == 0 and not zero:
        raise _error(text, "Zero interval is not allowed", "The minimum is 1s.")
    if len(digits) > 12 or milliseconds > MAX_DURATION_MS:
        raise _error(text, f"An interval of {digits[:20]}{unit} is longer than 100 years.", "The maximum is 36525d.")
    return milliseconds


def _sum(text: str) -> int:
    """The milliseconds of several parts, each in a smaller unit than the one before: 1h30m."""
    parts = [(int(number), UNITS[unit]) for number, unit in _PART.findall(text)]
    if any(size >= larger for (_, size), (_, larger) in zip(parts[1:], parts, strict=False)):
        raise _error(text, f'"{_shortened(text)}": each unit must be smaller than the one before.', "Write 1h30m.")
    milliseconds = sum(number * size for number, size in parts)
    if milliseconds == 0:
        raise _error(text, "Zero interval is not allowed", "The minimum is 1s.")
    if milliseconds > MAX_DURATION_MS:
        raise _error(text, f"An interval of {_shortened(text)} is longer than 100 years.", "The maximum is 36525d.")
    return milliseconds


def format_duration(milliseconds: int) -> str:
    """The shortest exact text, in the largest unit that divides the duration; milliseconds if no unit does."""
    for name in ("d", "h", "m", "s") if milliseconds else ("s",):
        if milliseconds % UNITS[name] == 0:
            return f"{milliseconds // UNITS[name]}{name}"
    return f"{milliseconds}ms"


def about(milliseconds: int) -> str:
    """A duration in its largest unit, rounded down."""
    unit = next((unit for unit in (DAY_MS, HOUR_MS, MINUTE_MS) if milliseconds >= 2 * unit), SECOND_MS)
    return format_duration(max(unit, milliseconds // unit * unit))


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _error(value: str, message: str, hint: str) -> IntervalParseError:
    return IntervalParseError(message, value=value, field="interval", allowed="{number}{s|m|h|d}", hint=hint)
