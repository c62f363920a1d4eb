"""Exact descriptions of triggers in plain English. They parse back wherever the grammar allows."""

from __future__ import annotations

from matins.engine.english.describe_cron import describe_cron
from matins.engine.english.describe_rrule import describe_rrule
from matins.engine.english.vocabulary import clock_text, every_duration, listed, on_times
from matins.engine.when.definitions import wall_text
from matins.engine.when.instants import DstChange
from matins.engine.when.zones import Zone
from matins.model.trigger import Cron, Daily, Interval, Never, Once, Rrule, TriggerDefinition, Weekly

_MINUTE_MS = 60_000


def describe(definition: TriggerDefinition, zone: Zone) -> str:
    match definition.when:
        case Cron(expression):
            return describe_cron(expression)
        case Interval() as interval:
            return _interval(interval)
        case Daily(times):
            return on_times(range(7), times)
        case Weekly(days, times):
            return on_times(days, times)
        case Once(at_ms):
            return _once(at_ms, zone)
        case Rrule() as rrule:
            return describe_rrule(rrule)
        case Never():
            return "never"


def _interval(interval: Interval) -> str:
    text = every_duration(interval.every_ms)
    if interval.anchor == "grid":
        text += f", counted from {wall_text(interval.origin_ms)}Z"
    elif interval.anchor == "start":
        text += ", from start to start"
    return f"{text}, the first time at once" if interval.first == "immediately" else text


def _once(at_ms: int, zone: Zone) -> str:
    wall = zone.wall_of(at_ms)
    if wall % 1000 or zone.instants_of(wall)[0] != at_ms:
        offset = (wall - at_ms) // _MINUTE_MS
        sign = "-" if offset < 0 else "+"
        return f"once at {wall_text(wall)}{sign}{clock_text(abs(offset))}"
    date, _, time = wall_text(wall).partition("T")
    return f"once on {date} at {time if wall % _MINUTE_MS else time[:5]}"


def explain(change: DstChange, zone: Zone) -> str:
    """The effect of a clock change, in one sentence."""
    times = [wall_text(wall).replace("T", " ").removesuffix(":00") for wall in change.walls]
    if change.count > len(times):
        times = [*times, f"{change.count - len(times)} more"]
    names = listed(times)
    there, them = ("does not exist", "it") if change.count == 1 else ("do not exist", "them")
    twice = "occurs twice" if change.count == 1 else "occur twice"
    match change.effect:
        case "moved" | "shifted":
            fires = wall_text(zone.wall_of(change.fires_ms or change.at_ms)).partition("T")[2][:5]
            start = "fires" if change.count == 1 else "the first fires" if change.effect == "shifted" else "fire once,"
            return f"{names} {there}: {start} at {fires}"
        case "skipped" | "not_reached":
            return f"{names} {there}: nothing fires for {them}"
        case "first_only":
            return f"{names} {twice}: only the first fires"
        case "repeated":
            return f"{names} {twice}: both fire"
