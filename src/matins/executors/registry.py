"""The registry of runners, found by entry point: a new runner is a new file."""

from __future__ import annotations

import logging
from functools import cache
from importlib.metadata import entry_points

from matins.executors.runners.protocol import AnyRunner

log = logging.getLogger("matins")
GROUP = "matins.executors"


@cache
def runners() -> dict[str, AnyRunner]:
    """Runners by name. A runner that cannot be loaded is logged and left out."""
    found: dict[str, AnyRunner] = {}
    for point in entry_points(group=GROUP):
        try:
            runner: AnyRunner = point.load()()
        except Exception:  # a broken plug-in must not stop the others
            log.exception("the runner %s cannot be loaded from %s", point.name, point.value)
            continue
        found[point.name] = runner
    return found
