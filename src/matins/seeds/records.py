"""A schedule's records, as the views of the five systems read them."""

from __future__ import annotations

from collections.abc import Iterator

from matins.calls import Calls
from matins.engine.when.definitions import instant_text
from matins.model.run import Run, RunState
from matins.model.schedule import Schedule

_PAGE = 1_000


def newest_first(m: Calls, schedule: Schedule) -> Iterator[Run]:
    """All that history holds, a page at a time: who has found what it looked for reads no further."""
    before: int | None = None
    while page := m.runs(schedule.name, agent=schedule.agent, before=before, limit=_PAGE):
        yield from page
        before = page[-1].id


def last_started(m: Calls, schedule: Schedule) -> Run | None:
    """The newest run that has started. What was skipped since, because that one still runs, has not."""
    return next((run for run in newest_first(m, schedule) if run.started_at is not None), None)


def under_way(run: Run | None) -> bool:
    return run is not None and RunState.STARTING <= run.state <= RunState.HELD


def error_of(run: Run) -> str | None:
    """What a failed run said last; where it said nothing, why it failed."""
    outcome: dict[str, str | None] = run.outcome or {}
    told = outcome.get("error") or run.reason
    return told and told.strip().rpartition("\n")[2]


def text_of(at_ms: int | None) -> str | None:
    """An ISO timestamp."""
    return None if at_ms is None else instant_text(at_ms)
