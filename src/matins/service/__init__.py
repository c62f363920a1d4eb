"""Every use case, and the only door for the surfaces: they translate, call one of these, and translate back."""

from __future__ import annotations

from collections.abc import Callable

from matins.ports import Clock, Store
from matins.runtime.catalog import Catalog
from matins.service.previews import Fire, Preview, Previews
from matins.service.runs import Runs
from matins.service.schedules import Schedules

__all__ = ["Fire", "Preview", "Service"]


class Service(Previews, Schedules, Runs):
    """`changed` is called after a change that the loops should look at."""

    READS = frozenset(["get", "list", "get_run", "runs", "verify_audit"])
    CHANGES = frozenset(["add", "add_many", "edit", "pause", "resume", "remove", "limit", "run", "cancel", "resolve"])
    USE_CASES = READS | CHANGES
    """What can be called by name."""

    def __init__(
        self, store: Store, clock: Clock, catalog: Catalog, changed: Callable[[], None] = lambda: None
    ) -> None:
        self._store = store
        self._clock = clock
        self._catalog = catalog
        self._changed = changed
