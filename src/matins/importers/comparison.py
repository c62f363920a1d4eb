"""An import beside the old times: when the other system would fire in the next month, and when Matins will."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from matins.engine.schedules import TRIGGER_SETTINGS
from matins.engine.setting_values import ParseContext
from matins.engine.settings import parse_setting
from matins.engine.when.parse import parse_trigger
from matins.engine.when.triggers import Trigger, to_ms
from matins.importers.entries import ImportEntry
from matins.importers.old_times import Every
from matins.model.trigger import Interval

DAYS = 31
_SHOWN = 5


class Comparison(NamedTuple):
    name: str
    origin: str
    when: str
    timezone: str
    old: int
    """How often the other system fires in the next month."""
    new: int
    only_old: tuple[datetime, ...]
    """The first times at which only the other system fires."""
    only_new: tuple[datetime, ...]
    differences: int


def compare(entry: ImportEntry, now: datetime) -> Comparison | None:
    """The comparison of a schedule; None where the other system has no times."""
    if entry.old is None:
        return None
    trigger, end = _trigger(entry.settings, now), now + timedelta(days=DAYS)
    when = trigger.definition.when
    if isinstance(entry.old, Every) and isinstance(when, Interval) and when.every_ms == entry.old.every_ms:
        count = sum(1 for _ in entry.old.between(now, end))
        return _result(entry, trigger, count, count, (), ())
    old, new = ({at for at in times.between(now, end) if at > now} for times in (entry.old, trigger))
    return _result(entry, trigger, len(old), len(new), old - new, new - old)


def _trigger(settings: Mapping[str, Any], now: datetime) -> Trigger:
    context = ParseContext(to_ms(now))
    options = {
        name: parse_setting(declared, settings[name], context)
        for name, declared in TRIGGER_SETTINGS.items()
        if name in settings
    }
    return parse_trigger(settings["when"], now_ms=context.now, **options)


def _result(
    entry: ImportEntry, trigger: Trigger, old: int, new: int, only_old: Iterable[datetime], only_new: Iterable[datetime]
) -> Comparison:
    before, after = sorted(only_old), sorted(only_new)
    zone = trigger.timezone
    return Comparison(
        entry.name, entry.origin, trigger.describe(), zone, old, new,
        tuple(before[:_SHOWN]), tuple(after[:_SHOWN]), len(before) + len(after),
    )  # fmt: skip
