"""Pages of schedules and runs that match a filter, in statements of both stores."""

from __future__ import annotations

from matins.model.listing import RunFilter, ScheduleFilter, ScheduleSort, TabCounts
from matins.model.rows import RunRow, ScheduleRow
from matins.store.common.statements import Statements


class ListingQueries(Statements):
    def listed(self, chosen: ScheduleFilter, sort: ScheduleSort, after: int, limit: int) -> list[ScheduleRow]:
        values = chosen._asdict()
        if sort != "next":
            return self._rows(ScheduleRow, f"listed_{sort}", after=after, limit=limit, **values)
        soon: list[ScheduleRow] = []
        if not after or self._value("fires_next", id=after):
            soon = self._rows(ScheduleRow, "listed_next", after=after, limit=limit, **values)
            after = 0
        if len(soon) < limit:
            soon += self._rows(ScheduleRow, "listed_never", after=after, limit=limit - len(soon), **values)
        return soon

    def schedules_called(self, name: str, agent: str | None) -> list[ScheduleRow]:
        return self._rows(ScheduleRow, "schedules_called", name=name, agent=agent)

    def tab_counts(self, agent: str | None, query: str | None, reader: str | None = None) -> TabCounts:
        found = self._row(TabCounts, "tab_counts", agent=agent, query=query, reader=reader)
        assert found is not None
        return found

    def listed_runs(self, chosen: RunFilter, before: int, limit: int) -> list[RunRow]:
        values = chosen._asdict()
        schedule_id = values.pop("schedule_id")
        if schedule_id is None:
            return self._rows(RunRow, "listed_runs", before=before, limit=limit, **values)
        del values["agent"]
        return self._rows(RunRow, "listed_runs_of", schedule_id=schedule_id, before=before, limit=limit, **values)
