"""Finds limits and outages of providers in the error messages of tools."""

from __future__ import annotations

import re
from datetime import datetime
from email.utils import parsedate_to_datetime

from matins.engine.when.durations import DAY_MS
from matins.executors.runners.clock_times import find_clock_time
from matins.executors.runners.protocol import Limit
from matins.executors.runners.tool_events import shorten

LIMIT_STATUSES = (429,)
"""HTTP statuses of a provider that limits requests."""
_FIRST_OUTAGE = 500
_LIMITED = re.compile(
    r"too many requests|\brate.?limit|usage.?limit|(?:hit|reached|exceed\w*|exhausted) your .{0,40}(?:limit|quota)"
    r"|quota.{0,20}(?:exceeded|exhausted|reset)|(?:exceeded|insufficient|exhausted).{0,20}quota|resource.?exhausted"
    r"|(?:status|error|code|http)[\s:=\"(]*(?:code[\s:=\"]*)?429\b",
    re.IGNORECASE,
)
_OUTAGE = re.compile(
    r"overloaded|high demand|internal server error|bad gateway|service (?:is )?(?:temporarily )?unavailable"
    r"|gateway time.?out|(?:status|error|code|http)[\s:=\"(]*(?:code[\s:=\"]*)?5\d\d\b|\(5\d\d\b"
    r"|server had an error",
    re.IGNORECASE,
)
_LOGIN_REFUSED = re.compile(
    r"(?:status|error|code|http)[\s:=\"(]*(?:code[\s:=\"]*)?401\b|401 (?:unauthorized|incorrect)|\bunauthenticated\b"
    r"|(?:invalid|incorrect|expired) (?:x-)?api.?key|api.?key (?:not valid|is invalid|has expired)"
    r"|authentication.?(?:error|failed)|token (?:has |is |was )?(?:expired|revoked|already used)"
    r"|(?:not logged in|log ?in again|sign in again|run /login)\b",
    re.IGNORECASE,
)
_RESETS_AT = re.compile(r"(?:resets?_?at\"?\s*[:=]\s*\"?|limit reached\|)(\d{10,13})\b", re.IGNORECASE)
_WAIT = re.compile(
    r"(?:try again|retry|resets?)(?:\s+\w+)?\s+(?:in|after)\s+"
    r"((?:\d{1,12}(?:\.\d{1,12})?\s{0,3}[a-z]+[\s,]{0,3}(?:and\s{1,3})?){1,4})",
    re.IGNORECASE,
)
_SECONDS = re.compile(
    r"(?:resets?_in_seconds|retry.?after|retry.?delay)\"?\s*[:=]\s*\"?(?:Some\()?(\d{1,8})(?:\b|s\b)", re.IGNORECASE
)
_DURATION_PART = re.compile(r"(\d{1,12}(?:\.\d{1,12})?)\s{0,3}([a-z]+)", re.IGNORECASE)
_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_MAX_MESSAGE_LENGTH = 10_000
_MAX_WAIT_MS = 366 * DAY_MS
_EARLIEST_S, _LATEST_S = 10**9, 4 * 10**9


def find_limit(provider: str, text: str) -> Limit | None:
    """The limit or outage that an error message describes, if any."""
    text = text[:_MAX_MESSAGE_LENGTH]
    outage = not _LIMITED.search(text)
    if outage and not _OUTAGE.search(text):
        return None
    at, clock = _RESETS_AT.search(text), find_clock_time(text)
    return Limit(provider, instant(float(at[1])) if at else None, shorten(text), _wait(text), clock, outage)


def is_login_refused(text: str) -> bool:
    """Whether an error message says that the provider refused the key or the login."""
    return _LOGIN_REFUSED.search(text[:_MAX_MESSAGE_LENGTH]) is not None


def limit_of_status(provider: str, status: int, text: str) -> Limit | None:
    """The limit or outage of a response with this HTTP status, if it is one."""
    if status not in LIMIT_STATUSES and status < _FIRST_OUTAGE:
        return None
    limit = find_limit(provider, text) or Limit(provider, None, shorten(text))
    return limit._replace(outage=status not in LIMIT_STATUSES)


def instant(stamp: float | None) -> int | None:
    """UTC milliseconds of a timestamp in seconds or milliseconds; None when it is implausible."""
    if stamp is None:
        return None
    seconds = stamp / 1000 if stamp > _LATEST_S else stamp
    return round(seconds * 1000) if _EARLIEST_S <= seconds <= _LATEST_S else None


def retry_after(provider: str, header: str | None, reason: str) -> Limit:
    """The limit from a Retry-After header: seconds or a date."""
    header_text = (header or "").strip()
    if header_text.isascii() and header_text.isdigit() and len(header_text) <= 8:
        return Limit(provider, None, reason, _bounded(int(header_text) * 1_000))
    when = _http_date(header_text)
    return Limit(provider, None if when is None else instant(when.timestamp()), reason)


def _wait(text: str) -> int | None:
    match = _WAIT.search(text)
    if match:
        pieces = [(float(number), _unit(unit)) for number, unit in _DURATION_PART.findall(match[1])]
        return _bounded(round(sum(number * unit for number, unit in pieces)))
    seconds = _SECONDS.search(text)
    return _bounded(int(seconds[1]) * 1_000) if seconds else None


def _unit(unit: str) -> int:
    lower = unit.lower()
    return _UNITS["ms"] if lower in ("ms", "millis", "milliseconds") else _UNITS.get(lower[0], 0)


def _bounded(wait_ms: int) -> int | None:
    return wait_ms if 0 < wait_ms <= _MAX_WAIT_MS else None


def _http_date(header_text: str) -> datetime | None:
    try:
        return parsedate_to_datetime(header_text) if len(header_text) <= 40 else None
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
