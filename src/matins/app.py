"""The composition root: the only place that wires the parts together."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from matins.model.trigger import Anchor, DstGap, DstOverlap, First

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from matins.engine.when.triggers import Trigger
    from matins.runtime.clock import SystemClock
    from matins.service import Service


def parse_trigger(
    text: str,
    *,
    timezone: str | None = None,
    now: datetime | None = None,
    dst_gap: DstGap = "after",
    dst_overlap: DstOverlap = "first",
    strict: bool = False,
    anchor: Anchor = "completion",
    first: First = "after_interval",
) -> Trigger:
    """The trigger that a text stands for: cron, an alias, a duration, English, an ISO instant, or an RRULE.

    `now` is what relative phrases count from, the clock by default. `timezone` is an IANA name, "local" for the
    machine's own, or None for UTC (or the zone that a DTSTART names).
    """
    parse, to_ms, clock = _parser()
    return parse(
        text,
        now_ms=clock.now_ms() if now is None else to_ms(now),
        timezone=clock.local_zone() if timezone == "local" else timezone,
        dst_gap=dst_gap,
        dst_overlap=dst_overlap,
        strict=strict,
        anchor=anchor,
        first=first,
    )


@cache
def _parser() -> tuple[Callable[..., Trigger], Callable[[datetime], int], SystemClock]:
    # Loaded on first use, and once: import statements cost more than parsing does.
    from matins.engine.when.parse import parse_trigger as parse
    from matins.engine.when.triggers import to_ms
    from matins.runtime.clock import SystemClock

    return parse, to_ms, SystemClock()


def trigger_from_dict(data: Mapping[str, Any]) -> Trigger:
    """The trigger that `Trigger.to_dict` wrote."""
    from matins.engine.when.definitions import from_dict
    from matins.engine.when.triggers import compile_trigger

    return compile_trigger(from_dict(data))


def build_service(url: str = "sqlite://") -> Service:
    """The use cases on a store that is there already; by default on one in memory, for what needs none."""
    import atexit

    from matins.library import open_store
    from matins.runtime.catalog import Catalog
    from matins.runtime.clock import SystemClock
    from matins.service import Service

    _refuse_missing(url)
    clock = SystemClock()
    store = open_store(url, clock)
    atexit.register(store.close)
    return Service(store, clock, Catalog())


def _refuse_missing(url: str) -> None:
    """A look must not make what it was to look at."""
    from pathlib import Path

    from matins.errors import NotFound

    name = url.removeprefix("sqlite://").removeprefix("/")
    if url.startswith("sqlite:///") and not Path(name).exists():
        raise NotFound(f"There is no store {name}", value=url, field="store", hint="sqlite:////full/path/to/file.db")


def main() -> None:
    """The `matins` command."""
    from matins.surfaces.cli import cli

    cli(obj=build_service)
