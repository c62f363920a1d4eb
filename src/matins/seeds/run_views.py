"""A schedule's records, as the views of the five systems read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar

from matins.api.results import Mission, Run, RunStateName, Schedule
from matins.api.schedules import Api
from matins.engine.when.definitions import instant_text
from matins.engine.when.triggers import to_ms

_PAGE = 50
Item = TypeVar("Item", Schedule, Mission, Run)


def each_item(page_after: Callable[[str | None], Sequence[Item]]) -> Iterator[Item]:
    """All items of a collection, a page at a time, each page after the id of an item: who has found what it looked for
    reads no further."""
    last: str | None = None
    while page := page_after(last):
        yield from page
        last = page[-1].id


def newest_first(m: Api, schedule: Schedule, state: RunStateName | None = None) -> Iterator[Run]:
    """The runs of a schedule that history holds; with a state, those that are in it."""
    return each_item(
        lambda before: m.runs.list(
            schedule=schedule.name, agent=schedule.agent, state=state, before=before, limit=_PAGE
        )
    )


def last_started(m: Api, schedule: Schedule) -> Run | None:
    """The newest run that has started. What was skipped since, because that one still runs, has not."""
    return next((run for run in newest_first(m, schedule) if run.started_at is not None), None)


def under_way(run: Run | None) -> bool:
    return run is not None and run.state in ("running", "held")


def error_of(run: Run) -> str | None:
    """The last output of a failed run, or else the reason of its failure."""
    outcome: dict[str, Any] = run.outcome or {}
    document: str | None = outcome.get("error") or run.reason
    return document and document.strip().rpartition("\n")[2]


def text_of(at: datetime | None) -> str | None:
    """An ISO timestamp."""
    return None if at is None else instant_text(to_ms(at))


def ms_of(at: datetime | None) -> int | None:
    """Epoch milliseconds."""
    return None if at is None else to_ms(at)
