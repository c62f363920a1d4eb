"""Quiet hours: weekly windows on the wall clock of a zone, whole days of calendars, and when they end."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Literal, cast, get_args

from matins.engine.calendars import Days
from matins.engine.english.values import DAYS, every_day, listed, week_order
from matins.engine.validation import invalid, items_of, nearest
from matins.engine.when.days import ALL_WEEKDAYS, bits, lowest_bit
from matins.engine.when.definitions import clock_text, parse_clock
from matins.engine.when.durations import DAY_MS, MINUTE_MS
from matins.engine.when.zones import load_zone
from matins.errors import Example, InvalidInput, TriggerError
from matins.model.settings import Choice, Names, Setting, Windows, Zone

Mode = Literal["skip", "defer"]
MAX_WINDOWS = 100
_MAX_DAYS, _MAX_BLOCKS = 400, 50
"""How far an end of quiet days is looked for."""
_WINDOW_KEYS = ("days", "from", "to")
_SHORT = tuple(day[:3].lower() for day in DAYS)
_LONG = tuple(day.lower() for day in DAYS)
_DAYS = {day: n for days in (_SHORT, _LONG) for n, day in enumerate(days)} | {"tues": 2, "thur": 4, "thurs": 4}
_WEEKDAYS, _WEEKENDS = 0b011_1110, 0b100_0001
_GROUPS = {"weekday": _WEEKDAYS, "weekdays": _WEEKDAYS, "weekend": _WEEKENDS, "weekends": _WEEKENDS}
_DAY = 1440
_WEEK = 7 * _DAY
_WHOLE_WEEK = (1 << _WEEK) - 1
_EPOCH_MINUTE = 4 * _DAY  # 1970-01-01 was a Thursday


@dataclass(frozen=True, slots=True)
class Window:
    """A span of the wall clock, on some days of every week."""

    days: int
    """A bit for each day on which the window starts; Sunday is bit 0."""
    start: int
    """Minute of the day, 0 to 1439."""
    end: int
    """Minute of the day, 1 to 1440. At or below `start`, the window ends on the next day."""

    def minutes(self) -> int:
        """The minutes of the week in the window, a bit each, from Sunday 00:00 on."""
        length = (self.end - self.start - 1) % _DAY + 1
        once = (1 << length) - 1 << self.start
        mask = sum(once << day * _DAY for day in bits(self.days))
        return (mask | mask >> _WEEK) & _WHOLE_WEEK


@dataclass(frozen=True)
class QuietHours:
    """A named policy: when no run starts, and whether slots of that time are skipped or deferred."""

    name: str
    windows: Annotated[
        tuple[Window, ...],
        Setting(
            Windows(), 'Spans of time, such as "22:00-07:00" or "sat,sun 00:00-24:00".',
            ["22:00-07:00", "sat,sun 00:00-24:00"],
        ),
    ] = ()  # fmt: skip
    timezone: Annotated[
        str, Setting(Zone(), "IANA time zone of the windows, or `local`.", "Europe/Berlin", short="-z")
    ] = "UTC"
    mode: Annotated[
        Mode, Setting(Choice(get_args(Mode)), "Whether runs due then are skipped, or run once at the end.", "defer")
    ] = "skip"
    calendars: Annotated[
        tuple[str, ...],
        Setting(Names(empty=True, of="calendars"), "Calendars whose days are quiet throughout.", ["holidays-de"]),
    ] = ()
    days: tuple[Days, ...] = field(default=(), compare=False, repr=False)
    """The days of the calendars, where policies are read."""

    @cached_property
    def open_minutes(self) -> int:
        """The minutes outside all windows, a bit each. They cover two weeks, so that a search does not wrap around."""
        quiet = 0
        for window in self.windows:
            quiet |= window.minutes()
        week = _WHOLE_WEEK & ~quiet
        return week | week << _WEEK


def quiet_until(policy: QuietHours, at_ms: int) -> int | None:
    """The first instant, from this one on, outside all windows and days; None if this one is outside."""
    opens = at_ms
    for _ in range(_MAX_BLOCKS if policy.days else 1):
        opens = _first_minute(policy.open_minutes, policy.timezone, opens)
        day = _after_quiet_days(policy, opens)
        if day is None:
            break
        opens = day
    return None if opens == at_ms else opens


def _after_quiet_days(policy: QuietHours, at: int) -> int | None:
    """The midnight after the quiet days that an instant is in; None if it is in none."""
    zone = load_zone(policy.timezone)
    today = zone.wall_of(at) // DAY_MS if policy.days else 0
    day = next((day for day in range(today, today + _MAX_DAYS) if not _is_quiet_day(policy, day)), today + _MAX_DAYS)
    return None if day == today else zone.resolve(day * DAY_MS)


def _is_quiet_day(policy: QuietHours, day: int) -> bool:
    return any(days.name_of(day) is not None for days in policy.days)


def quiet_spans(policy: QuietHours, start: int, end: int) -> list[tuple[int, int]]:
    """The quiet times between two instants, in order."""
    quiet_minutes = ~policy.open_minutes & (1 << 2 * _WEEK) - 1
    spans: list[tuple[int, int]] = []
    at = start
    while quiet_minutes and (at := _first_minute(quiet_minutes, policy.timezone, at)) < end:
        opens = _first_minute(policy.open_minutes, policy.timezone, at)
        spans.append((at, min(opens, end)))
        at = opens
    return _merged([*spans, *_day_spans(policy, start, end)]) if policy.days else spans


def _day_spans(policy: QuietHours, start: int, end: int) -> Iterator[tuple[int, int]]:
    zone = load_zone(policy.timezone)
    for day in range(zone.wall_of(start) // DAY_MS, zone.wall_of(end) // DAY_MS + 1):
        begin, over = max(zone.resolve(day * DAY_MS), start), min(zone.resolve((day + 1) * DAY_MS), end)
        if begin < over and _is_quiet_day(policy, day):
            yield begin, over


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged


def _first_minute(minutes: int, timezone: str, at: int) -> int:
    """The first instant, from this one on, in one of these minutes of the week."""
    zone = load_zone(timezone)
    while True:
        period = zone.period_at(at)
        found = at + _wait(minutes, at + period.offset)
        if found < period.end:
            return found
        at = period.end  # the clocks change first: check again with the new offset


def last_change_at(policy: QuietHours, at_ms: int) -> int:
    """The start of the present quiet time, or of the present open time."""
    if policy.days:
        before = quiet_spans(policy, at_ms - _MAX_DAYS * DAY_MS, at_ms + 1)
        start, end = before[-1] if before else (at_ms - _MAX_DAYS * DAY_MS,) * 2
        return start if end > at_ms else end
    zone = load_zone(policy.timezone)
    at, period = at_ms, zone.period_at(at_ms)
    quiet = _is_quiet(policy, at + period.offset)
    while True:
        since = at - _past(policy.open_minutes, at + period.offset, quiet=quiet)
        if since >= period.start:
            return since
        at, earlier = period.start - 1, zone.period_at(period.start - 1)
        if _is_quiet(policy, at + earlier.offset) != quiet:
            return period.start  # the clock change itself started it
        period = earlier


def _is_quiet(policy: QuietHours, wall: int) -> bool:
    return _wait(policy.open_minutes, wall) > 0


def _past(open_minutes: int, wall: int, *, quiet: bool) -> int:
    """How long the wall clock has been in minutes of the same kind, in milliseconds."""
    minute, past = divmod(wall, MINUTE_MS)
    place = (minute + _EPOCH_MINUTE) % _WEEK + _WEEK
    others = (open_minutes if quiet else ~open_minutes) & (1 << place) - 1
    return (place - others.bit_length()) * MINUTE_MS + past


def _wait(minutes: int, wall: int) -> int:
    """The milliseconds to the next of these minutes on the wall clock; 0 in one of them."""
    minute, past = divmod(wall, MINUTE_MS)
    ahead = minutes >> (minute + _EPOCH_MINUTE) % _WEEK
    return 0 if ahead & 1 else lowest_bit(ahead) * MINUTE_MS - past


def check_quiet_hours(policy: QuietHours) -> None:
    """Raise unless there is a quiet time, and some minute of the week is outside all windows."""
    if not policy.windows and not policy.calendars:
        hint = Example({"windows": ["22:00-07:00", "sat,sun 00:00-24:00"]})
        raise InvalidInput('Quiet hours need "windows" or "calendars".', field="windows", hint=hint)
    if not policy.open_minutes:
        raise InvalidInput(
            f'Quiet hours "{policy.name}" cover the whole week.',
            value=[window_text(window) for window in policy.windows],
            field="windows",
            hint="Leave some time free, or pause the schedules instead.",
        )


def window_text(window: Window) -> str:
    """`mon,tue 22:00-07:00`."""
    days = "" if window.days == ALL_WEEKDAYS else ",".join(_SHORT[day] for day in week_order(bits(window.days))) + " "
    return f"{days}{clock_text(window.start)}-{clock_text(window.end)}"


def describe(policy: QuietHours) -> str:
    """`22:00 to 07:00 every day, Europe/Berlin: skipped`."""
    days = [f"the days of {listed(policy.calendars)}"] if policy.calendars else []
    windows = "; ".join([*(_describe_window(window) for window in policy.windows), *days])
    return f"{windows}, {policy.timezone}: {'skipped' if policy.mode == 'skip' else 'deferred'}"


def _describe_window(window: Window) -> str:
    start, end, days = clock_text(window.start), clock_text(window.end), every_day(bits(window.days))
    if (window.start, window.end) == (0, _DAY):
        return f"all day {days}"
    if window.end <= window.start and window.days != ALL_WEEKDAYS:
        return f"{start} {days} to {end} the next day"
    return f"{start} to {end} {days}"


def parse_windows(value: object) -> tuple[Window, ...]:
    if isinstance(value, (str, Mapping)):
        return (_window(cast("object", value), "windows"),)
    items = items_of(value)
    if not items:
        hint = Example({"windows": ["22:00-07:00", "sat,sun 00:00-24:00"]})
        raise invalid("windows", value, "a list of windows", hint=hint)
    if len(items) > MAX_WINDOWS:
        raise InvalidInput(
            f'"windows" must be at most {MAX_WINDOWS} windows, not {len(items)}.',
            value=len(items),
            field="windows",
            allowed=f"1 to {MAX_WINDOWS}",
            hint='One window may name several days: "mon,wed,fri 22:00-07:00".',
        )
    return tuple(_window(item, f"windows[{n}]") for n, item in enumerate(items))


def _window(value: object, field: str) -> Window:
    if isinstance(value, str):
        return _window_of_text(value, field)
    if isinstance(value, Mapping):
        return _window_of_mapping(cast("Mapping[str, object]", value), field)
    raise _invalid_window(value, field)


def _window_of_text(text: str, field: str) -> Window:
    """`22:00-07:00`, or with days before it: `mon-fri 22:00-07:00`."""
    before, _, end = text.rpartition("-")
    *days, start = before.split() or [""]
    if not start or not end.strip():
        raise _invalid_window(text, field)
    mask = _days(" ".join(days), field) if days else ALL_WEEKDAYS
    return Window(mask, *_span(start, field, end.strip(), field))


def _window_of_mapping(window: Mapping[str, object], field: str) -> Window:
    """`{"days": "mon-fri", "from": "22:00", "to": "07:00"}`."""
    for key in window:
        if key not in _WINDOW_KEYS:
            hint = nearest(str(key), _WINDOW_KEYS)
            raise InvalidInput(f'A window has no "{key}".', value=key, field=f"{field}.{key}", hint=hint)
    if window.get("from") is None or window.get("to") is None:
        raise _invalid_window(dict(window), field)
    days = window.get("days")
    mask = ALL_WEEKDAYS if days is None else _days(days, f"{field}.days")
    return Window(mask, *_span(window["from"], f"{field}.from", window["to"], f"{field}.to"))


def _invalid_window(value: object, field: str) -> InvalidInput:
    hint = 'Use "22:00-07:00", "mon-fri 22:00-07:00" or {"days": "mon-fri", "from": "22:00", "to": "07:00"}.'
    return InvalidInput(f"{value!r} is not a window of time.", value=value, field=field, hint=hint)


def _span(start: object, start_field: str, end: object, end_field: str) -> tuple[int, int]:
    first = _minute(start, start_field, "00:00 to 23:59")
    last = _DAY if end == "24:00" else _minute(end, end_field, "00:00 to 24:00")
    if first == last:
        raise InvalidInput(
            f"A window from {start} to {end} has no length.",
            value=f"{start}-{end}",
            field=end_field,
            hint="00:00-24:00 is a whole day.",
        )
    return first, last or _DAY


def _minute(text: object, field: str, allowed: str) -> int:
    try:
        return parse_clock(text)
    except TriggerError:
        hint = 'Use HH:MM on the 24-hour clock, in quotes, as in "22:00-07:00".'
        raise InvalidInput(
            f"{text!r} is not a time from {allowed}.", value=text, field=field, allowed=allowed, hint=hint
        ) from None


def _days(value: object, field: str) -> int:
    """The mask of `mon-fri`, `sat,sun`, `weekdays`, or of a list of these."""
    items = value.split(",") if isinstance(value, str) else items_of(value)
    if not items:
        hint = 'Use "mon-fri" or ["mon", "tue"]. Omit it for every day.'
        raise InvalidInput(f"{value!r} does not name days.", value=value, field=field, hint=hint)
    mask = 0
    for item in items:
        mask |= _days_of_item(str(item).strip().lower(), field)
    return mask


def _days_of_item(item: str, field: str) -> int:
    if item in _GROUPS:
        return _GROUPS[item]
    first, dash, last = (part.strip() for part in item.partition("-"))
    begin = _day(first, field)
    if not dash:
        return 1 << begin
    count = (_day(last, field) - begin) % 7
    if not count:
        hint = f'Use "{first}" for that day. Omit the days for every day.'
        raise InvalidInput(f'"{item}" begins and ends on one day.', value=item, field=field, hint=hint)
    return sum(1 << (begin + n) % 7 for n in range(count + 1))


def _day(key: str, field: str) -> int:
    if key not in _DAYS:
        known = (*_SHORT, "weekdays", "weekends")
        hint = nearest(key, (*_DAYS, *_GROUPS))
        raise InvalidInput(f'Unknown day "{key}".', value=key, field=field, allowed=", ".join(known), hint=hint)
    return _DAYS[key]
