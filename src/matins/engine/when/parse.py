"""Parses the text of a trigger. Each kind of text has its own form; all other texts are English."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime

from matins.engine.when.cron import freeze, is_hashed
from matins.engine.when.definitions import wall_text
from matins.engine.when.durations import MINUTE_MS, parse_duration
from matins.engine.when.rrule import parse_rule, split_recurrence, wall_of_naive
from matins.engine.when.systemd import PREFIX
from matins.engine.when.triggers import Trigger, compile_trigger, to_ms
from matins.engine.when.zones import MAX_MS, MIN_MS, Zone, ZonedText, load_zone, split_zone
from matins.errors import Example, InstantError, RruleError, TriggerError
from matins.model.trigger import (
    Anchor,
    Cron,
    DstGap,
    DstOverlap,
    First,
    Interval,
    Never,
    OnCalendar,
    Once,
    Rrule,
    TriggerDefinition,
    When,
)

MAX_TEXT_LENGTH = 1000
_DURATION = re.compile(r"([0-9]{1,12}(ms|[smhdSMHD])){2,5}|[+-]?[0-9]++(\.[0-9]*+)?[^\W_]*|[+-]?\.[0-9]++[^\W_]*")
_CAPITAL_UNITS = re.compile(r"(?:[0-9]{1,12}[smhdSMHD]){1,5}")
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9].*)?", re.DOTALL | re.IGNORECASE)
_RRULE = re.compile(r"(?:RRULE|DTSTART|RDATE|EXDATE|EXRULE)[:;]|FREQ=", re.IGNORECASE)
_AT = re.compile(r"@\s*[0-9]")
"""`@ 9am` is English."""
_CLOCK = re.compile(r"[0-9]{1,2}[ap]m", re.IGNORECASE)
_CRON_STARTS = "0123456789*?"


def parse_trigger(
    text: str,
    *,
    now_ms: int,
    timezone: str | None = None,
    dst_gap: DstGap = "after",
    dst_overlap: DstOverlap = "first",
    strict: bool = False,
    anchor: Anchor = "completion",
    first: First = "after_interval",
    name: str | None = None,
) -> Trigger:
    """The trigger of a cron expression or alias, a calendar event of systemd, a duration, an ISO instant, an RRULE, an
    English phrase or `never`.

    `name` is that of the schedule, from which `H` in a cron expression follows."""
    named = ZonedText(_readable(text), None) if strict else split_zone(_readable(text))
    text = named.text
    timezone = _only_zone(named.zone, timezone)
    zone_name = "UTC" if timezone is None else timezone
    notes: tuple[str, ...] = ()
    if text.lower() == "never":
        when: When = Never()
    elif text.lower().startswith(PREFIX.lower()):
        when = OnCalendar(text[len(PREFIX) :].strip())
    elif _looks_like_cron(text):
        when = Cron(freeze(text, name) if is_hashed(text) and not strict else text, strict)
    elif _DURATION.fullmatch(text) and not _CLOCK.fullmatch(text):
        capitals = _CAPITAL_UNITS.fullmatch(text) is not None  # "every 2H"; any other text stays, for its error
        when = Interval(parse_duration(text.lower() if capitals else text), now_ms, anchor, first)
    elif _ISO.fullmatch(text):
        when, notes = _instant(text, load_zone(zone_name))
    elif _RRULE.match(text):
        when, zone_name = _recurrence(text, now_ms, timezone)
    else:
        when, notes = _phrase(text, now_ms, load_zone(zone_name), anchor, first)
    notes += (named.note,) if named.note else ()
    return compile_trigger(TriggerDefinition(when, zone_name, dst_gap, dst_overlap), notes)


def _only_zone(named: str | None, given: str | None) -> str | None:
    """The zone of the text or of the setting; both may only say the same."""
    if named is None:
        return given
    name = load_zone(named).name
    if given not in (None, name):
        message = f"The text is in {name}, but the schedule is in {given}."
        raise TriggerError(message, value=name, field="timezone", hint="Remove one of the time zones.")
    return name


def _readable(text: str) -> str:
    text = text.strip()
    if not text:
        hint = Example({"when": "every weekday at 9am"})
        raise TriggerError('"when" is empty.', value=text, field="when", hint=hint)
    if len(text) > MAX_TEXT_LENGTH:
        raise TriggerError(
            f'"when" must be at most {MAX_TEXT_LENGTH} characters, not {len(text)}.',
            value=text[:60] + "…",
            field="when",
            allowed=f"{MAX_TEXT_LENGTH} characters",
            hint="Shorten it.",
        )
    return text


def _looks_like_cron(text: str) -> bool:
    """Whether the text is an alias, has a star, or starts with two words that start as cron fields do."""
    if text[0] in "@*?":
        return not _AT.match(text)
    if is_hashed(text):
        return True
    words = text.split(None, 2)
    if len(words) == 1:
        return "*" in text
    if words[0][0] in _CRON_STARTS and words[1][0] in _CRON_STARTS:
        return _ISO.fullmatch(text) is None
    return "*" in text


def _instant(text: str, zone: Zone) -> tuple[Once, tuple[str, ...]]:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        hint = "For example: 2026-03-24T14:00:00Z or 2026-03-24T14:00."
        raise InstantError(f'"{text}" is not an ISO instant: {error}.', value=text, hint=hint) from None
    if len(text) <= 10:
        raise InstantError(f'"{text}" is a date without a time.', value=text, hint=f"Write {text}T09:00.")
    if moment.tzinfo is not None:
        return Once(_in_range(to_ms(moment), text)), ()
    wall = _in_range(wall_of_naive(moment), text)
    instants = zone.instants_of(wall)
    if not instants:
        raise InstantError(
            f'"{text}" does not exist in {zone.name}: the clocks skip it.',
            value=text,
            hint=f"The first time after it is {wall_text(zone.wall_of(zone.resolve(wall)))}.",
        )
    notes = [f"no offset given: read as the time in {zone.name}"]
    if len(instants) > 1:
        notes.append(f"{text} occurs twice in {zone.name}: the first one is meant; add an offset to choose")
    return Once(min(instants)), tuple(notes)


def _in_range(at_ms: int, text: str) -> int:
    if not MIN_MS < at_ms < MAX_MS:
        raise InstantError(f'"{text}" is out of range.', value=text, allowed="the years 1 to 9999")
    return at_ms


def _recurrence(text: str, now_ms: int, timezone: str | None) -> tuple[Rrule, str]:
    recurrence = split_recurrence(text)
    if timezone is not None and recurrence.timezone not in (None, timezone):
        message = f"The rule is in {recurrence.timezone}, but the schedule is in {timezone}."
        raise RruleError(message, value=recurrence.timezone, field="TZID", hint="Remove one of the time zones.")
    name = recurrence.timezone or timezone or "UTC"
    zone = load_zone(name)
    if recurrence.start is None:
        start = zone.wall_of(now_ms) // MINUTE_MS * MINUTE_MS
    else:
        wall = wall_of_naive(recurrence.start)
        start = zone.wall_of(_in_range(wall, text)) if recurrence.start_is_utc else _in_range(wall, text)
    parse_rule(recurrence.rule)
    return Rrule(recurrence.rule.upper(), start, recurrence.exdates), name


def _phrase(text: str, now_ms: int, zone: Zone, anchor: Anchor, first: First) -> tuple[When, tuple[str, ...]]:
    from matins.engine.english.phrases import parse_phrase  # the grammar is loaded only for English

    meaning = parse_phrase(text, now_ms=now_ms, zone=zone)
    when = meaning.when
    if isinstance(when, Interval):
        when = replace(when, anchor=anchor, first=first)
    return when, meaning.notes
