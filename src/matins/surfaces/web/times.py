"""Instants and durations as people read them, in the viewer's zone."""

from __future__ import annotations

from datetime import datetime, tzinfo

from markupsafe import Markup, escape

from matins.surfaces.display import amounts

_UNITS = (" d", " h", " min", " s")
_WEEK_S = 6 * 86_400


def clock(at: datetime, zone: tzinfo, now: datetime) -> str:
    """The instant, no longer than needed: 18:45, Fri 02:30, 3 Apr 02:30."""
    local, here = at.astimezone(zone), now.astimezone(zone)
    text = _time_of_day(local)
    if local.toordinal() == here.toordinal():
        return text
    if abs((at - now).total_seconds()) < _WEEK_S:
        return f"{local:%a} {text}"
    year = f" {local.year}" if local.year != here.year else ""
    return f"{local.day} {local:%b}{year} {text}"


def full(at: datetime, zone: tzinfo, now: datetime) -> str:
    """The instant with its date and zone: Fri 27 Mar, 02:30 CET; with the year where it is another."""
    local = at.astimezone(zone)
    year = f" {local.year}" if local.year != now.astimezone(zone).year else ""
    return f"{local:%a} {local.day} {local:%b}{year}, {_time_of_day(local)} {local.tzname()}"


def _time_of_day(local: datetime) -> str:
    seconds = f":{local.second:02}" if local.second else ""
    return f"{local.hour:02}:{local.minute:02}{seconds}"  # a third of the time of a format with %


def relative(at: datetime, now: datetime) -> str:
    """For example: in 3 min, 2 h ago. The page's script says the same."""
    seconds = round((at - now).total_seconds())
    if abs(seconds) < 1:
        return "now"
    return f"in {length(seconds)}" if seconds > 0 else f"{length(-seconds)} ago"


def length(seconds: float) -> str:
    """A duration in its largest units: 45 s, 7 min, 7 h 48 min, 3 d 8 h."""
    parts = amounts(seconds, _UNITS)
    shown = parts[:2] if len(parts) > 1 and not parts[0].endswith("min") else parts[:1]
    return " ".join(shown) or "0 s"


def duration(milliseconds: float | None) -> str:
    """How long something took; with a fraction below ten seconds."""
    if milliseconds is None:
        return ""
    if milliseconds < 1_000:
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds / 1000:.1f} s" if milliseconds < 10_000 else length(milliseconds / 1000)


def time_element(at: datetime | None, text: str, title: str, *, live: bool = False) -> Markup:
    if at is None:
        return Markup("–")
    tick = " data-rel" if live else ""
    return Markup(f'<time datetime="{at.isoformat()}" title="{escape(title)}"{tick}>{escape(text)}</time>')
