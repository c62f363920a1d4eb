"""Triggers.

Jitter: a spread of start times that is the same after every restart.

New data of a time zone: which slot takes the place of the next one of a schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, overload

from matins.engine.english.describe import describe
from matins.engine.when import definitions
from matins.engine.when.cron import parse_cron, week_days
from matins.engine.when.days import ALL_WEEKDAYS
from matins.engine.when.instants import (
    Bounded,
    DstChange,
    Elapsed,
    FireEffect,
    Grid,
    Instants,
    NoInstant,
    OneInstant,
    Source,
    Without,
)
from matins.engine.when.rrule import Rule, excluded_span, last_wall, parse_rule, rule_walls, until_wall
from matins.engine.when.systemd import parse_calendar
from matins.engine.when.walltimes import WallSet, WallTimes, minutes_mask
from matins.engine.when.zones import Zone, load_zone
from matins.errors import InstantError, InvalidInput, RruleError
from matins.model.trigger import Cron, Daily, Interval, Never, OnCalendar, Once, Rrule, TriggerDefinition, Weekly

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Trigger:
    """A compiled trigger. Instants are integers of UTC milliseconds, or aware datetimes in the trigger's zone."""

    __slots__ = ("_source", "count", "definition", "next_ms", "notes", "prev_ms", "zone")

    next_ms: Callable[[int], int | None]
    """The first instant after the given one, or None. It is the source's own method, because this is the hot path."""
    prev_ms: Callable[[int], int | None]
    """The last instant before the given one, or None."""
    count: Callable[[int, int], int]
    """The number of instants in [start, end)."""

    def __init__(self, definition: TriggerDefinition, zone: Zone, source: Source, notes: tuple[str, ...] = ()) -> None:
        self.definition = definition
        self.zone = zone
        self.notes = notes
        self._source = source
        self.next_ms = source.next
        self.prev_ms = source.prev
        self.count = source.count

    @property
    def kind(self) -> str:
        """cron, oncalendar, interval, daily, weekly, once, rrule or never."""
        return type(self.definition.when).__name__.lower()

    @property
    def timezone(self) -> str:
        return self.definition.timezone

    @property
    def has_wall_times(self) -> bool:
        """Whether its instants follow from wall times, and so from the data of its zone."""
        return not isinstance(self.definition.when, (Interval, Once, Never))

    @property
    def fixed(self) -> bool:
        """Whether each slot is a fixed wall time. False where slots follow elapsed time."""
        return self._source.fixed

    def first_ms(self, created_ms: int) -> int | None:
        """The first slot of a schedule that is created at this instant."""
        when = self.definition.when
        if isinstance(when, Interval) and when.first == "immediately":
            return created_ms
        return self.next_ms(created_ms)

    def next_after(self, after: datetime) -> datetime | None:
        """The first fire after an aware datetime, in the trigger's zone; None if there is none."""
        at = self.next_ms(to_ms(after))
        return None if at is None else self.local(at)

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """The fires from `start` (included) to `end` (not included)."""
        last = to_ms(end)
        at = self.next_ms(to_ms(start) - (0 if isinstance(self._source, Elapsed) else 1))
        while at is not None and at < last:
            yield self.local(at)
            at = self.next_ms(at)

    def local(self, at_ms: int) -> datetime:
        """An instant in the trigger's zone."""
        seconds, rest = divmod(at_ms, 1000)  # a float of seconds is wrong by microseconds in far years
        moment = datetime.fromtimestamp(seconds, self.zone.info)
        return moment.replace(microsecond=rest * 1000) if rest else moment

    def dst_changes(self, start: datetime, end: datetime) -> list[DstChange]:
        """The effects of the clock changes from `start` to `end` on this trigger's times."""
        return list(self._source.dst_changes(to_ms(start), to_ms(end)))

    def dst_effect(self, at_ms: int) -> FireEffect | None:
        """The effect of a clock change on the fire at this instant; None if there is none."""
        return self._source.effect(at_ms)

    def describe(self) -> str:
        """An exact description in plain English, without the zone."""
        return describe(self.definition, self.zone)

    def smallest_gap(self) -> timedelta | None:
        """The least time between two fires over the whole cycle, on the wall clock; None if it fires at most once."""
        when = self.definition.when
        if isinstance(when, (Once, Never)):
            return None
        if isinstance(when, Interval):
            return timedelta(milliseconds=when.every_ms)
        if isinstance(when, Rrule):
            elapsed = parse_rule(when.rule).elapsed_ms
            if elapsed:
                return timedelta(milliseconds=elapsed)
        return timedelta(milliseconds=walls_of(self.definition).smallest_gap())

    def to_dict(self) -> dict[str, Any]:
        """A JSON document; `trigger_from_dict` reads it."""
        return definitions.to_dict(self.definition)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trigger) and self.definition == other.definition

    def __hash__(self) -> int:
        return hash(self.definition)

    def __repr__(self) -> str:
        return f"<Trigger {self.describe()!r} {self.timezone}>"


def compile_trigger(definition: TriggerDefinition, notes: tuple[str, ...] = (), zone: Zone | None = None) -> Trigger:
    """The trigger of a definition, by the present data of its zone, or by other data."""
    zone = zone or load_zone(definition.timezone)
    return Trigger(definition, zone, _source(definition, zone), notes)


def walls_of(definition: TriggerDefinition) -> WallSet:
    """The wall times of a trigger that is defined by wall times."""
    match definition.when:
        case Cron(expression, strict):
            return parse_cron(expression, strict=strict).walls()
        case OnCalendar(expression):
            return parse_calendar(expression).walls()
        case Daily(times):
            return WallTimes(week_days(ALL_WEEKDAYS), minutes_mask(times))
        case Weekly(days, times):
            return WallTimes(week_days(sum(1 << day for day in days)), minutes_mask(times))
        case Rrule(rule, start_wall):
            return rule_walls(parse_rule(rule), start_wall)
        case Interval() | Once() | Never():
            raise TypeError(f"{definition.when} has no wall times")


def _source(definition: TriggerDefinition, zone: Zone) -> Source:
    match definition.when:
        case Once(at_ms):
            return OneInstant(at_ms)
        case Never():
            return NoInstant()
        case Interval() as interval:
            return _interval(interval)
        case Cron(expression, strict):
            cron = parse_cron(expression, strict=strict)
            return _instants(cron.walls(), definition, zone, fixed=cron.fixed)
        case OnCalendar(expression):
            event = parse_calendar(expression)
            return _instants(event.walls(), definition, zone, fixed=event.fixed)
        case Daily() | Weekly():
            return _instants(walls_of(definition), definition, zone, fixed=True)
        case Rrule() as rrule:
            return _recurrence(rrule, definition, zone)


def _instants(walls: WallSet, definition: TriggerDefinition, zone: Zone, *, fixed: bool) -> Instants:
    return Instants(walls, zone, fixed=fixed, gap=definition.dst_gap, overlap=definition.dst_overlap)


def _interval(interval: Interval) -> Source:
    return Grid(interval.origin_ms, interval.every_ms) if interval.anchor == "grid" else Elapsed(interval.every_ms)


def _recurrence(rrule: Rrule, definition: TriggerDefinition, zone: Zone) -> Source:
    rule = parse_rule(rrule.rule)
    start = zone.resolve(rrule.start_wall)
    if rule.elapsed_ms:
        grid = Grid(start, rule.elapsed_ms)
        last = start + rule.elapsed_ms * (rule.count - 1) if rule.count else _until(rule, zone)
        return _without(rrule, Bounded(grid, start, last), start, zone)
    walls = rule_walls(rule, rrule.start_wall)
    if walls.next(rrule.start_wall - 1) is None:
        raise _never(rrule)
    instants = _instants(walls, definition, zone, fixed=not rule.follows_clock)
    return _without(rrule, Bounded(instants, start, _last(rule, rrule.start_wall, walls, zone)), start, zone)


def _without(rrule: Rrule, source: Source, start: int, zone: Zone) -> Source:
    """The source without the dates that the rule leaves out. Raises RruleError if nothing is left."""
    spans = sorted({span for text in rrule.exdates for span in excluded_span(text, zone)})
    apart = [span for n, span in enumerate(spans) if n == 0 or span[0] >= max(end for _, end in spans[:n])]
    source = Without(source, apart) if apart else source
    if source.next(start - 1) is None:
        raise _never(rrule)
    return source


def _never(rrule: Rrule) -> RruleError:
    hint = "Its parts contradict each other, or it ends before it starts."
    return RruleError("The RRULE never fires.", value=rrule.rule, hint=hint)


def _last(rule: Rule, start_wall: int, walls: WallSet, zone: Zone) -> int | None:
    if rule.count is None:
        return _until(rule, zone)
    wall = last_wall(walls, start_wall, rule.count)
    return None if wall is None else zone.resolve(wall)


def _until(rule: Rule, zone: Zone) -> int | None:
    if rule.until is None:
        return None
    wall, is_utc = until_wall(rule.until)
    return wall if is_utc else zone.resolve(wall)


def to_ms(moment: datetime) -> int:
    """UTC milliseconds, rounded down. A datetime without a zone is refused."""
    if moment.tzinfo is None:
        raise InstantError(
            f"{moment.isoformat()} has no time zone.",
            value=moment,
            hint="Use an aware datetime, such as datetime.now(UTC).",
        )
    return (moment - EPOCH) // _MILLISECOND


@overload
def to_datetime(at: int) -> datetime: ...
@overload
def to_datetime(at: None) -> None: ...
@overload
def to_datetime(at: int | None) -> datetime | None: ...
def to_datetime(at: int | None) -> datetime | None:
    """The datetime of UTC milliseconds, in UTC."""
    return None if at is None else EPOCH + timedelta(0, 0, 0, at)


MAX_PERCENT = 10


def jitter_ms(schedule_id: int | str, slot_ms: int, period_ms: int, percent: float) -> int:
    """The delay of a slot: up to `percent` of the period, fixed by schedule and slot."""
    if not 0 <= percent <= MAX_PERCENT:
        raise InvalidInput(
            f'"jitter" must be 0 to {MAX_PERCENT} percent, not {percent:g}.',
            value=percent,
            field="jitter",
            allowed=f"0-{MAX_PERCENT}",
            hint=f"Use at most {MAX_PERCENT}: more would reach the next slot.",
        )
    if percent == 0 or period_ms <= 0:
        return 0
    return int(period_ms * percent / 100 * fraction(f"{schedule_id}:{slot_ms}"))


def fraction(text: str) -> float:
    """A number from 0 up to 1 that looks random and is fixed by the text."""
    return int.from_bytes(blake2b(text.encode(), digest_size=6).digest()) / (1 << 48)


def moved_slot(before: Trigger | None, after: Trigger, slot: int, since: int) -> int | None:
    """The next slot by the new data. `slot` is the next one by the old data; None if those are unknown. All up to
    `since`, and all before `slot`, have had their turn.

    A fixed time that has had its turn does not come again because its instant is later now, and an instant that has a
    record gets no second one because other times are at it now.
    """
    past = slot - 1 if before is None else before.prev_ms(slot)
    if past is None:
        return after.next_ms(since)
    if before is not None and after.fixed:
        wall = before.zone.wall_of(past)
        since = max(since, past if after.zone.wall_of(past) == wall else after.zone.resolve(wall))
    return after.next_ms(max(since, past))
