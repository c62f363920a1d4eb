"""Which runners there are: found by entry point, so that a new one is a new file and nothing else."""

from __future__ import annotations

import logging
from functools import cache
from importlib.metadata import entry_points

from matins.executors.runners.protocol import AnyRunner

log = logging.getLogger("matins")
GROUP = "matins.executors"


@cache
def runners() -> dict[str, AnyRunner]:
    """By name. One that cannot be loaded is told, and is as if it were not there."""
    found: dict[str, AnyRunner] = {}
    for point in entry_points(group=GROUP):
        try:
            runner: AnyRunner = point.load()()
        except Exception:  # somebody's broken plug-in must not stop the others
            log.exception("the runner %s cannot be loaded from %s", point.name, point.value)
            continue
        found[point.name] = runner
    return found
