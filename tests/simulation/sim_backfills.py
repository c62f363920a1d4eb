"""Invariant 13: no slot is skipped because of a backfill, each past slot runs once for it, and both go on."""

from __future__ import annotations

from collections.abc import Mapping

from sim_rows import Commit, Reader, RunRow
from sim_violation import require

_FOR_OTHERS = ("already_running", "queue_full", "coalesced")


class BackfillRules:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._made: set[tuple[int, int]] = set()

    def born(self, run: RunRow) -> None:
        if run.backfill is None:
            return
        require(13, run.slot is None and run.for_slot is not None, f"a backfill made a run for no past slot: {run}")
        require(13, (run.backfill, run.for_slot) not in self._made, f"a second run of it for the slot: {run}")
        self._made.add((run.backfill, run.for_slot or 0))

    def check(self, commit: Commit, before: Mapping[int, RunRow]) -> None:
        for event, data in commit.data("run.skipped"):
            other = before.get(int(data.get("run") or 0))
            blames = data.get("reason") in _FOR_OTHERS and other is not None and other.backfill is not None
            require(13, not blames, f"skipped because of a backfill: {event}: {other}")

    def unfinished(self) -> list[str]:
        rows = self._reader.query("SELECT id, schedule_id, made, planned FROM backfills WHERE state = 'running'")
        return [f"a backfill goes on: {row}" for row in rows]
