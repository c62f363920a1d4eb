"""Pages of schedules and runs that match a filter."""

from __future__ import annotations

from typing import Protocol

from matins.model.listing import RunFilter, ScheduleFilter, ScheduleSort, TabCounts
from matins.model.rows import RunRow, ScheduleRow


class ListingRows(Protocol):
    def listed(self, chosen: ScheduleFilter, sort: ScheduleSort, after: int, limit: int) -> list[ScheduleRow]:
        """The schedules after one of them, in an order. Those without a next slot are the last."""
        ...

    def schedules_called(self, name: str, agent: str | None) -> list[ScheduleRow]:
        """The schedules of this name, of one agent or of any."""
        ...

    def tab_counts(self, agent: str | None, query: str | None, reader: str | None = None) -> TabCounts: ...
    def listed_runs(self, chosen: RunFilter, before: int, limit: int) -> list[RunRow]:
        """Whole runs, the newest first."""
        ...
