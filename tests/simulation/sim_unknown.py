"""Invariant 14: a job that began and whose outcome is unknown runs again only where it may."""

from __future__ import annotations

import orjson
from sim_rows import Commit, Reader, RunRow
from sim_violation import require

from matins.model.run import RunState

_STARTED = range(RunState.STARTING, RunState.HELD + 1)
_BY_A_PERSON = "resolved_by_"


class UnknownRules:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._begun: set[tuple[int, int]] = set()
        self.held = 0
        """Runs of `hold` whose outcome was lost, and which wait for a person."""

    def begun(self, run_id: int, epoch: int) -> None:
        self._begun.add((run_id, epoch))

    def check(self, commit: Commit) -> None:
        for old, new in commit.runs:
            if old is None or old.state not in _STARTED or (old.id, old.epoch) not in self._begun:
                continue
            if self._reader.words(new).on_unknown == "hold":
                self.held += old.state < RunState.HELD and new.state == RunState.HELD
                self._check_held(old, new)

    def _check_held(self, old: RunRow, new: RunRow) -> None:
        again = new.state < RunState.SUCCEEDED and (new.state not in _STARTED or new.epoch != old.epoch)
        told = new.outcome is not None and new.outcome != old.outcome and epoch_told(new.outcome) == old.epoch
        decided = (new.reason or "").startswith(_BY_A_PERSON)
        may = not again or told or decided
        require(14, may, f"its outcome is unknown, it is to be held, and it goes on: {old} became {new}")


def epoch_told(outcome: str) -> int:
    """The epoch that the simulated job put into its outcome."""
    told = orjson.loads(outcome)
    return told["result"]["epoch"] if "result" in told else int(told["error"].removeprefix("epoch "))
