"""Schedules and runs as people look at them: a page at a time, with what happened last and what comes next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

from matins.engine.schedules import UNREADABLE
from matins.errors import InvalidInput
from matins.model.desk import FileEntry
from matins.model.principal import Principal
from matins.model.run import Run, RunState
from matins.model.schedule import Schedule, ScheduleState
from matins.ports import Transaction
from matins.runtime.rows import run_of, schedule_of
from matins.service.base import UseCases
from matins.service.previews import Preview, Previews
from matins.service.rights import needs
from matins.service.wording import described, words_of

MOST = 1_000
_NEWEST = 1 << 62
_STATES = tuple(state.word for state in RunState if state is not RunState.STARTING)


@dataclass(frozen=True, slots=True)
class Overview:
    schedule: Schedule
    description: str
    """When, in words."""
    words: dict[str, Any]
    """All that it says and that is not the usual, as people write it."""
    last: Run | None
    """Its newest record."""
    file: FileEntry | None
    """Where it is defined, when a file defines it."""


class Overviews(Previews, UseCases):
    @needs("read")
    def overview(
        self,
        principal: Principal,
        agent: str | None = None,
        state: ScheduleState | None = None,
        after: int = 0,
        limit: int = 100,
    ) -> list[Overview]:
        """A page of schedules in the order in which they were made."""
        check_limit(limit)
        check_choice("state", state, tuple(s for s in get_args(ScheduleState) if s != "removed"))
        found: list[Overview] = []
        with self._store.reading() as transaction:
            while len(found) < limit:
                rows = transaction.schedules(after, agent, limit)
                for schedule in map(schedule_of, rows):
                    after = schedule.id
                    if state in (None, schedule.state) and len(found) < limit:
                        found.append(_overview(transaction, schedule))
                if len(rows) < limit:
                    break
        return found

    @needs("read")
    def look(self, principal: Principal, name: str, agent: str | None = None) -> Overview:
        """One schedule, with its words and its newest record."""
        with self._store.reading() as transaction:
            return _overview(transaction, self._find(transaction, name, agent))

    @needs("read")
    def upcoming(self, principal: Principal, limit: int = 20) -> list[Overview]:
        """Whatever fires next, the soonest first."""
        check_limit(limit)
        with self._store.reading() as transaction:
            rows = [transaction.schedule(schedule_id) for schedule_id in transaction.upcoming(limit)]
            return [_overview(transaction, schedule_of(row)) for row in rows if row is not None]

    @needs("read")
    def recent(
        self, principal: Principal, state: str | None = None, before: int | None = None, limit: int = 100
    ) -> list[Run]:
        """Runs of all schedules, the newest first."""
        check_limit(limit)
        check_choice("state", state, _STATES)
        found: list[Run] = []
        cursor = _NEWEST if before is None else before
        with self._store.reading() as transaction:
            while len(found) < limit:
                rows = transaction.recent_runs(cursor, MOST if state else limit)
                found += [run for run in map(run_of, rows) if state in (None, run.said)]
                if not rows or not state:
                    break
                cursor = rows[-1][0]
        return found[:limit]

    @needs("read")
    def next_times(self, principal: Principal, text: str, **options: Any) -> Preview:
        """What a text means, and when it would fire."""
        return self.next_fires(text, **options)

    @needs("read")
    def whoami(self, principal: Principal) -> Principal:
        return principal


def _overview(transaction: Transaction, schedule: Schedule) -> Overview:
    readable = schedule.definition is not UNREADABLE
    last = transaction.newest_run(schedule.id)
    return Overview(
        schedule,
        described(schedule.definition.trigger) if readable else "cannot be read",
        words_of(schedule.definition) if readable else {},
        None if last is None else run_of(last),
        transaction.file_entry("schedule", f"{schedule.agent}/{schedule.name}"),
    )


def check_limit(limit: Any) -> None:
    if type(limit) is not int or not 1 <= limit <= MOST:
        allowed = f"a whole number from 1 to {MOST}"
        raise InvalidInput(f'"limit" must be {allowed}, got {limit!r}', value=limit, field="limit", allowed=allowed)


def check_choice(field: str, value: Any, choices: tuple[str, ...]) -> None:
    if value is not None and value not in choices:
        allowed = ", ".join(choices)
        message = f'"{field}" is never {value!r}'
        raise InvalidInput(message, value=value, field=field, allowed=allowed, hint=f"one of: {allowed}")
