"""Trigger definitions as JSON documents, in both directions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from matins.engine.when.durations import MAX_DURATION_MS
from matins.errors import TriggerError
from matins.model.trigger import Cron, Daily, Interval, Never, OnCalendar, Once, Rrule, TriggerDefinition, Weekly, When

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_dict(definition: TriggerDefinition) -> dict[str, Any]:
    return {
        "kind": type(definition.when).__name__.lower(),
        **_when_to_dict(definition.when),
        "timezone": definition.timezone,
        "dst": {"gap": definition.dst_gap, "overlap": definition.dst_overlap},
    }


def _when_to_dict(when: When) -> dict[str, Any]:
    match when:
        case Cron(expression, strict):
            return {"expression": expression, **({"strict": True} if strict else {})}
        case OnCalendar(expression):
            return {"expression": expression}
        case Interval(every_ms, origin_ms, anchor, first):
            return {"every_ms": every_ms, "origin": instant_text(origin_ms), "anchor": anchor, "first": first}
        case Daily(times):
            return {"times": [clock_text(t) for t in times]}
        case Weekly(days, times):
            return {"days": list(days), "times": [clock_text(t) for t in times]}
        case Once(at_ms):
            return {"at": instant_text(at_ms)}
        case Rrule(rule, start_wall, exdates):
            return {"rule": rule, "start": wall_text(start_wall), **({"exdates": list(exdates)} if exdates else {})}
        case Never():
            return {}


def from_dict(data: Mapping[str, Any]) -> TriggerDefinition:
    """The definition from a document of `to_dict`. An error names the wrong key. Nothing is compiled."""
    left = dict(data)
    kind = left.pop("kind", None)
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        known = ", ".join(_READERS)
        message = 'A trigger needs "kind".' if kind is None else f'There is no kind of trigger "{str(kind)[:60]}".'
        raise TriggerError(message, value=kind, field="kind", allowed=known, hint=f"Known: {known}.")
    when = reader(left)
    dst = left.pop("dst", {})
    timezone = _take(left, "timezone", str, "UTC")
    if not isinstance(dst, Mapping):
        raise _invalid("dst", dst, "{gap, overlap}")
    policies = dict(cast("Mapping[str, Any]", dst))
    gap = _choice(policies, "gap", ("after", "skip", "shift"), "after")
    overlap = _choice(policies, "overlap", ("first", "both"), "first")
    unknown = [*left, *(f"dst.{key}" for key in policies)]
    if unknown:
        raise TriggerError(f'A {kind} trigger has no "{unknown[0]}".', value=unknown[0], field=unknown[0])
    return TriggerDefinition(when, timezone, gap, overlap)


def _read_cron(data: dict[str, Any]) -> When:
    return Cron(_take(data, "expression", str), _take(data, "strict", bool, False))


def _read_calendar(data: dict[str, Any]) -> When:
    return OnCalendar(_take(data, "expression", str))


def _read_interval(data: dict[str, Any]) -> When:
    every = _take(data, "every_ms", int)
    if not 0 < every <= MAX_DURATION_MS:
        raise _invalid("every_ms", every, f"1 to {MAX_DURATION_MS}")
    anchor = _choice(data, "anchor", ("completion", "start", "grid"), "completion")
    first = _choice(data, "first", ("after_interval", "immediately"), "after_interval")
    return Interval(every, _instant(data, "origin"), anchor, first)


def _read_daily(data: dict[str, Any]) -> When:
    return Daily(_times(data))


def _read_weekly(data: dict[str, Any]) -> When:
    days = _take(data, "days", list)
    if not days or any(type(day) is not int or not 0 <= day <= 6 for day in days):
        raise _invalid("days", days, "a list of 0 (Sunday) to 6")
    return Weekly(tuple(sorted(set(days))), _times(data))


def _read_once(data: dict[str, Any]) -> When:
    return Once(_instant(data, "at"))


def _read_rrule(data: dict[str, Any]) -> When:
    rule, text = _take(data, "rule", str), _take(data, "start", str)
    exdates = _take(data, "exdates", list, [])
    if not all(isinstance(each, str) for each in exdates):
        raise _invalid("exdates", exdates, 'a list such as ["20261225"]')
    return Rrule(rule, _ms(_datetime("start", text).replace(tzinfo=UTC)), tuple(exdates))


def _read_never(data: dict[str, Any]) -> When:
    return Never()


_READERS: dict[str, Callable[[dict[str, Any]], When]] = {
    "cron": _read_cron,
    "oncalendar": _read_calendar,
    "interval": _read_interval,
    "daily": _read_daily,
    "weekly": _read_weekly,
    "once": _read_once,
    "rrule": _read_rrule,
    "never": _read_never,
}


def _take(data: dict[str, Any], key: str, kind: type, default: Any = None) -> Any:
    value = data.pop(key, default)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise _invalid(key, value, kind.__name__)
    return value


def _choice(data: dict[str, Any], key: str, allowed: tuple[str, ...], default: str) -> Any:
    value = data.pop(key, default)
    if value not in allowed:
        raise _invalid(key, value, ", ".join(allowed))
    return value


def _times(data: dict[str, Any]) -> tuple[int, ...]:
    texts = _take(data, "times", list)
    if not texts:
        raise _invalid("times", texts, 'a list such as ["09:00"]')
    return tuple(sorted({parse_clock(text) for text in texts}))


def _instant(data: dict[str, Any], key: str) -> int:
    moment = _datetime(key, _take(data, key, str))
    if moment.tzinfo is None:
        raise _invalid(key, moment.isoformat(), "an instant with its offset, such as 2026-03-24T14:00:00Z")
    return _ms(moment)


def _datetime(key: str, text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise _invalid(key, text, "an ISO date and time") from None


def _ms(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def parse_clock(text: object) -> int:
    """The minute of the day of `HH:MM`."""
    if isinstance(text, str) and text.isascii():
        hours, colon, minutes = text.partition(":")
        if colon and hours.isdigit() and minutes.isdigit() and len(hours) <= 2 and len(minutes) == 2:
            minute = int(hours) * 60 + int(minutes)
            if int(minutes) < 60 and minute < 1440:
                return minute
    raise _invalid("times", text, "HH:MM, 00:00 to 23:59")


def clock_text(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def instant_text(at_ms: int) -> str:
    """`2026-03-24T14:00:00Z`, with milliseconds if there are any."""
    return wall_text(at_ms) + "Z"


def wall_text(wall: int) -> str:
    moment = _EPOCH.replace(tzinfo=None) + timedelta(milliseconds=wall)
    return moment.isoformat(timespec="milliseconds" if wall % 1000 else "seconds")


def _invalid(key: str, value: object, allowed: str) -> TriggerError:
    return TriggerError(f'"{key}" must be {allowed}, not {value!r}.', value=value, field=key, allowed=allowed)
