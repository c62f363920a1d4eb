"""Work items: fetched before an agent is woken, and told how it went."""

from __future__ import annotations

import logging
from typing import NamedTuple

from matins.engine.prompts import WorkItem
from matins.errors import MatinsError
from matins.model.run import Outcome
from matins.ports import Clock
from matins.work.sources import WorkSource

log = logging.getLogger("matins")
_MAX_REPORT_LENGTH = 4_000


class NoWork(Exception):  # noqa: N818 - it names what was found
    """There is nothing to do."""


class HeldWorkItem(NamedTuple):
    """An item that is claimed for a run. The key is the run's own: after a crash it finds the same item again."""

    source: WorkSource
    item: WorkItem
    key: str

    def report(self, outcome: Outcome, clock: Clock, *, will_retry: bool = False) -> str | None:
        """Tell the source how it went; what went wrong with that, if anything did. A run that `will_retry` gives
        its item back, and claims it again: should that never be, nobody has to find out."""
        now, turn = clock.now_ms(), outcome.turn
        text = ((turn.text if turn else "") or outcome.error or "")[:_MAX_REPORT_LENGTH]
        try:
            if outcome.succeeded:
                self.source.done(self.item, self.key, text, now)
            elif (
                will_retry
                or outcome.cancelled
                or outcome.interrupted
                or outcome.target_gone
                or outcome.limit is not None
            ):
                self.source.release(self.item.id, self.key, now)
            elif not outcome.lost:
                self.source.failed(self.item, self.key, text, now)
        except MatinsError as error:  # the run is what it is; that the source could not be told is told
            log.warning("work item %s could not be told how it went: %s", self.item.id, error)
            return error.message
        return None


def find_held(source: WorkSource, key: str, clock: Clock) -> HeldWorkItem | None:
    """What a run has claimed already, if it has."""
    item = source.held(key, clock.now_ms())
    return None if item is None else HeldWorkItem(source, item, key)


def claim_item(source: WorkSource, key: str, clock: Clock) -> HeldWorkItem:
    item = source.claim(key, clock.now_ms())
    if item is None:
        raise NoWork(source.name)
    return HeldWorkItem(source, item, key)
