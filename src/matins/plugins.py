"""Plug-ins: what Matins and other distributions register by entry point, so that nothing imports it by name."""

from __future__ import annotations

import logging
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Any, cast

log = logging.getLogger("matins")


@cache
def installed(group: str) -> dict[str, Any]:
    """The plug-ins of a group by name, sorted. One that cannot be loaded is logged and left out."""
    found: dict[str, Any] = {}
    for point in _registered(group):
        try:
            found[point.name] = point.load()
        except Exception:  # a broken plug-in must not stop the others
            log.exception("%s cannot be loaded from %s", point.name, point.value)
    return found


def registered(group: str) -> frozenset[str]:
    """The names of the plug-ins of a group. None is loaded."""
    return frozenset(point.name for point in _entry_points().select(group=group))


def _registered(group: str) -> list[EntryPoint]:
    """One entry point for each name. Matins' own come first, so that no other distribution replaces them."""
    found: dict[str, EntryPoint] = {}
    for point in sorted(_entry_points().select(group=group), key=lambda point: point.name):
        used = found.setdefault(point.name, point)
        if used.value == point.value:
            continue
        if not _is_own(used) and _is_own(point):  # rarely asked: it parses the metadata of a distribution
            found[point.name], used, point = point, point, used
        log.error('"%s" is registered twice in %s: by %s, and by %s, which is left out.',
                  point.name, group, used.value, point.value)  # fmt: skip
    return list(found.values())


@cache
def _entry_points() -> EntryPoints:
    """All entry points, read once: that opens the metadata of every distribution."""
    return cast("EntryPoints", entry_points())  # Python 3.11 has another class, with the same `select`


def _is_own(point: EntryPoint) -> bool:
    return point.dist is not None and point.dist.name == "matins"
