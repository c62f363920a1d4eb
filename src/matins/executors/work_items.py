"""Work items: claimed before an agent starts, and updated with the outcome."""

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


class NoWork(Exception):  # noqa: N818 - the name is the finding
    """The work source has no item to claim."""


class HeldWorkItem(NamedTuple):
    """An item that a run has claimed. The key identifies the run, so the item is found again after a crash."""

    source: WorkSource
    item: WorkItem
    key: str

    def report(self, outcome: Outcome, clock: Clock, *, will_retry: bool = False) -> str | None:
        """Report the outcome to the source. Returns the error, if any. With `will_retry`, the item is released and
        the retry claims it again: an item must not stay claimed if the retry never happens."""
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
        except MatinsError as error:  # the run has its outcome; the failed report is logged and returned
            log.warning("the outcome of work item %s could not be reported: %s", self.item.id, error)
            return error.message
        return None


def find_held(source: WorkSource, key: str, clock: Clock) -> HeldWorkItem | None:
    """The item that a run has already claimed, if any."""
    item = source.held(key, clock.now_ms())
    return None if item is None else HeldWorkItem(source, item, key)


def claim_item(source: WorkSource, key: str, clock: Clock) -> HeldWorkItem:
    item = source.claim(key, clock.now_ms())
    if item is None:
        raise NoWork(source.name)
    return HeldWorkItem(source, item, key)
