"""Work items: fetched before an agent is woken, and told how it went."""

from __future__ import annotations

import logging
from typing import NamedTuple

from matins.engine.prompts import WorkItem
from matins.errors import MatinsError
from matins.model.run import Outcome
from matins.ports import Clock
from matins.work.base import WorkSource

log = logging.getLogger("matins")
_LONGEST_REPORT = 4_000


class NoWork(Exception):  # noqa: N818 - it names what was found
    """There is nothing to do."""


class Errand(NamedTuple):
    """An item that is claimed for a run. The key is the run's own: after a crash it finds the same item again."""

    source: WorkSource
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


def held(source: WorkSource, key: str, clock: Clock) -> Errand | None:
    """What a run has claimed already, if it has."""
    item = source.held(key, clock.now_ms())
    return None if item is None else Errand(source, item, key)


def claim(source: WorkSource, key: str, clock: Clock) -> Errand:
    item = source.claim(key, clock.now_ms())
    if item is None:
        raise NoWork(source.name)
    return Errand(source, item, key)
