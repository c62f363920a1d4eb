"""Work items: fetched before an agent is woken, and told how it went."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple, Protocol

from matins.engine.prompts import WorkItem
from matins.errors import MatinsError
from matins.model.run import Outcome
from matins.ports import Clock

log = logging.getLogger("matins")
_LONGEST_REPORT = 4_000


class Source(Protocol):
    """Where work comes from."""

    def claim(self, run_key: str, now: int) -> WorkItem | None: ...
    def held(self, run_key: str, now: int) -> WorkItem | None: ...
    def done(self, item: WorkItem, run_key: str, report: str, now: int) -> None: ...
    def failed(self, item: WorkItem, run_key: str, report: str, now: int) -> None: ...
    def release(self, item_id: str, run_key: str, now: int) -> None: ...


class NoWork(Exception):  # noqa: N818 - it names what was found
    """There is nothing to do."""


class Errand(NamedTuple):
    """An item that is claimed for a run. The key is the run's own: after a crash it finds the same item again."""

    source: Source
    item: WorkItem
    key: str

    def report(self, outcome: Outcome, clock: Clock, *, again: bool = False) -> str | None:
        """Tell the source how it went; what went wrong with that, if anything did. A run that is tried `again` gives
        its item back, and claims it again: should that never be, nobody has to find out."""
        now, told = clock.now_ms(), outcome.told
        text = ((told.text if told else "") or outcome.error or "")[:_LONGEST_REPORT]
        try:
            if outcome.succeeded:
                self.source.done(self.item, self.key, text, now)
            elif again or outcome.cancelled or outcome.interrupted or outcome.target_gone or outcome.limit is not None:
                self.source.release(self.item.id, self.key, now)
            elif not outcome.lost:
                self.source.failed(self.item, self.key, text, now)
        except MatinsError as error:  # the run is what it is; that the source could not be told is told
            log.warning("work item %s could not be told how it went: %s", self.item.id, error)
            return error.message
        return None


def held(open_source: Callable[[str], Source], name: str, key: str, clock: Clock) -> Errand | None:
    """What a run has claimed already, if it has."""
    source = open_source(name)
    item = source.held(key, clock.now_ms())
    return None if item is None else Errand(source, item, key)


def claim(open_source: Callable[[str], Source], name: str, key: str, clock: Clock) -> Errand:
    source = open_source(name)
    item = source.claim(key, clock.now_ms())
    if item is None:
        raise NoWork(name)
    return Errand(source, item, key)
