"""The libraries that the cron benchmark compares, each by its cheapest own way to the same fires."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, tzinfo
from functools import cache
from itertools import islice, repeat
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from matins import parse_trigger

Walk = Callable[[int], Any]


class Contestant:
    """One library in one zone; what `first` does and what a walk does is timed, the rest is not."""

    name: ClassVar[str]
    package: ClassVar[str]
    utc_only: ClassVar[bool] = False

    def __init__(self, zone: str) -> None:
        # The plain UTC object is the one that peers have short cuts for.
        self.tz: tzinfo = UTC if zone == "UTC" else ZoneInfo(zone)

    def spelling(self, expression: str) -> str:
        return expression

    def start(self, ms: int) -> Any:
        return datetime.fromtimestamp(ms / 1000, self.tz)

    def forget(self) -> None:
        """Empty what the library remembers of earlier texts; the peers remember nothing."""

    def first(self, expression: str, start: Any) -> Any:
        """Parse a text and find its first fire after `start`."""
        raise NotImplementedError

    def walker(self, expression: str, start: Any) -> Walk:
        """Something that makes so many steps from fire to fire, and returns the last fire."""
        raise NotImplementedError

    def ms(self, fire: Any) -> int:
        return round(fire.timestamp() * 1000)


def walk_along(fires: Iterator[Any]) -> Walk:
    """The walk of a library that is an iterator itself."""

    def walk(steps: int) -> Any:
        fire = None
        for fire in islice(fires, steps):  # noqa: B007
            pass
        return fire

    return walk


@cache
def memories() -> list[Any]:
    """Every cache in Matins but those of zones, which any process that runs for long has read."""
    kind = type(cache(repr))
    found = [thing for thing in gc.get_objects() if isinstance(thing, kind)]
    return [
        one for one in found if one.__module__.startswith("matins.") and one.__module__ != "matins.engine.when.zones"
    ]


class Matins(Contestant):
    package = "matins"

    def __init__(self, zone: str) -> None:
        super().__init__(zone)
        self.zone = zone

    def forget(self) -> None:
        for memory in memories():
            memory.cache_clear()


class MatinsIntegers(Matins):
    name = "Matins next_ms"

    def start(self, ms: int) -> int:
        return ms

    def first(self, expression: str, start: int) -> int | None:
        return parse_trigger(expression, timezone=self.zone).next_ms(start)

    def walker(self, expression: str, start: int) -> Walk:
        next_ms = parse_trigger(expression, timezone=self.zone).next_ms

        def walk(steps: int) -> int | None:
            fire: Any = start
            for _ in repeat(None, steps):
                fire = next_ms(fire)
            return fire

        return walk

    def ms(self, fire: int) -> int:
        return fire


class MatinsDatetimes(Matins):
    name = "Matins next_after"

    def first(self, expression: str, start: datetime) -> datetime | None:
        return parse_trigger(expression, timezone=self.zone).next_after(start)

    def walker(self, expression: str, start: datetime) -> Walk:
        next_after = parse_trigger(expression, timezone=self.zone).next_after

        def walk(steps: int) -> datetime | None:
            fire: Any = start
            for _ in repeat(None, steps):
                fire = next_after(fire)
            return fire

        return walk


class Croniter(Contestant):
    name = package = "croniter"

    def __init__(self, zone: str) -> None:
        from croniter import croniter

        super().__init__(zone)
        self.croniter: Any = croniter

    def start(self, ms: int) -> Any:
        # In UTC a bare timestamp spares it the zone conversions; elsewhere only a datetime carries the zone.
        return ms / 1000 if self.tz is UTC else super().start(ms)

    def first(self, expression: str, start: Any) -> float:
        return self.croniter(expression, start).get_next(float)

    def walker(self, expression: str, start: Any) -> Walk:
        get_next = self.croniter(expression, start).get_next

        def walk(steps: int) -> Any:
            fire = None
            for _ in repeat(None, steps):
                fire = get_next(float)
            return fire

        return walk

    def ms(self, fire: float) -> int:
        return round(fire * 1000)


class CroniterRs(Contestant):
    name = package = "croniter-rs"
    utc_only = True

    def __init__(self, zone: str) -> None:
        from croniter_rs import croniter

        super().__init__(zone)
        self.croniter: Any = croniter

    def start(self, ms: int) -> float:
        return ms / 1000

    def first(self, expression: str, start: float) -> datetime:
        return self.croniter(expression, start).get_next()

    def walker(self, expression: str, start: float) -> Walk:
        # Its datetimes have no zone and mean UTC; they cost it less than its floats.
        return walk_along(self.croniter(expression, start))

    def ms(self, fire: datetime) -> int:
        return super().ms(fire.replace(tzinfo=UTC))


class Cronsim(Contestant):
    name = package = "cronsim"

    def __init__(self, zone: str) -> None:
        from cronsim import CronSim

        super().__init__(zone)
        self.cronsim: Any = CronSim

    def first(self, expression: str, start: datetime) -> datetime:
        return next(self.cronsim(expression, start))

    def walker(self, expression: str, start: datetime) -> Walk:
        return walk_along(self.cronsim(expression, start))


class Celery(Contestant):
    """Celery asks how long until the next fire; what it adds to the last one is the fire itself."""

    name = package = "celery"

    def __init__(self, zone: str) -> None:
        from celery import Celery as App
        from celery.schedules import crontab

        super().__init__(zone)
        self.app: Any = App(set_as_current=False)
        self.app.conf.timezone = zone
        self.crontab: Any = crontab

    def schedule(self, expression: str, start: datetime) -> Any:
        minute, hour, day, month, weekday = expression.split()
        return self.crontab(minute, hour, weekday, day, month, nowfun=lambda: start, app=self.app)

    def first(self, expression: str, start: datetime) -> datetime:
        last, delta, _ = self.schedule(expression, start).remaining_delta(start)
        return last + delta

    def walker(self, expression: str, start: datetime) -> Walk:
        remaining_delta = self.schedule(expression, start).remaining_delta

        def walk(steps: int) -> datetime:
            fire = start
            for _ in repeat(None, steps):
                last, delta, _now = remaining_delta(fire)
                fire = last + delta
            return fire

        return walk


class Apscheduler(Contestant):
    name, package = "APScheduler", "apscheduler"
    # It counts weekdays from Monday = 0, so that only names mean the same to it.
    WEEKDAYS: ClassVar = {"1": "mon", "1-5": "mon-fri"}
    # As in its own catch-up: a late `now` makes the previous fire alone decide, by the shortest way.
    NOW: ClassVar = datetime(9999, 1, 1, tzinfo=UTC)

    def __init__(self, zone: str) -> None:
        from apscheduler.triggers.cron import CronTrigger

        super().__init__(zone)
        self.from_crontab: Any = CronTrigger.from_crontab

    def spelling(self, expression: str) -> str:
        *fields, weekday = expression.split()
        return " ".join([*fields, self.WEEKDAYS.get(weekday, weekday)])

    def first(self, expression: str, start: datetime) -> datetime:
        return self.from_crontab(expression, self.tz).get_next_fire_time(None, start)

    def walker(self, expression: str, start: datetime) -> Walk:
        next_fire = self.from_crontab(expression, self.tz).get_next_fire_time
        now = self.NOW

        def walk(steps: int) -> datetime:
            fire = start
            for _ in repeat(None, steps):
                fire = next_fire(fire, now)
            return fire

        return walk


MATINS: tuple[type[Contestant], ...] = (MatinsIntegers, MatinsDatetimes)
PEERS: tuple[type[Contestant], ...] = (Croniter, Cronsim, Celery, Apscheduler, CroniterRs)
