"""Reading a bench: what became of a schedule's slots, and what was told about it."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

import orjson

from matins.api.results import BudgetUsage, Run
from matins.engine.events import TERMINAL_EVENTS
from matins.testing import Sandbox, iso

START = "2026-03-27T08:00:00Z"
"""A Friday; on Sunday the clocks of Europe go forward."""


def at(clock: str, day: int = 27) -> str:
    """An instant of the days around the start: `09:30`."""
    return f"2026-03-{day:02}T{clock}{':00' * (clock.count(':') < 2)}Z"


def moment(clock: str, day: int = 27) -> datetime:
    return datetime.fromisoformat(at(clock, day))


def lines(bench: Sandbox, name: str = "s") -> list[str]:
    """A schedule's records, oldest first: `09:00 succeeded`, `10:00 skipped already_running`, `22:00 quiet_hours`."""
    return [f"{_when(run)} {_what(run)}" for run in reversed(bench.runs.list(schedule=name, limit=1_000))]


def _when(run: Run) -> str:
    return "manual" if run.slot is None else str(iso(run.slot))[11:19].removesuffix(":00")


def _what(run: Run) -> str:
    return run.status if run.reason in (None, run.status) else f"{run.status} {run.reason}"


def last(bench: Sandbox, name: str = "s") -> Run:
    return bench.runs.list(schedule=name)[0]


def evidence(bench: Sandbox, name: str = "s") -> dict[str, Any]:
    """Of the newest record; a record without any is no evidence."""
    found = last(bench, name).evidence
    assert found is not None
    return found


def told(bench: Sandbox, *types: str) -> list[dict[str, Any]]:
    """The data of all events of these types, in their order."""
    with bench._store.reading() as transaction:
        found = sorted(transaction.logged(0, 10**9))
    return [orjson.loads(event.data) if event.data else {} for event in found if event.type in types]


def times(bench: Sandbox, *types: str) -> list[str | None]:
    """When events of these types were."""
    with bench._store.reading() as transaction:
        return [iso(event.at) for event in sorted(transaction.logged(0, 10**9)) if event.type in types]


def purse(bench: Sandbox, name: str = "day") -> BudgetUsage:
    """What a budget for all has seen in the current period."""
    (found,) = bench.budgets.get(name).usage
    return found


def check_ledger(bench: Sandbox) -> None:
    """B1: no slot has two records, and each run that is over was told to be, once."""
    with bench._store.reading() as transaction:
        ends = Counter(event.run_id for event in sorted(transaction.logged(0, 10**9)) if event.type in TERMINAL_EVENTS)
    for schedule in bench.list():
        runs = bench.runs.list(schedule=schedule.name, agent=schedule.agent, limit=1_000)
        slots = Counter(run.slot for run in runs if run.slot is not None)
        assert not [iso(slot) for slot, count in slots.items() if count > 1], schedule.name
        assert {run.id: ends[int(run.id)] for run in runs} == {run.id: int(not run.live) for run in runs}


_damaged: set[str] = set()


def check_log(bench: Sandbox) -> None:
    """The log says nothing against the records, apart from those that a test has damaged."""
    damaged = tuple(f"schedule {name}: its definition is not the one of event " for name in _damaged)
    _damaged.clear()
    assert [problem for problem in bench.audit.verify().problems if not problem.startswith(damaged)] == []


def damage(bench: Sandbox, name: str) -> None:
    """What a schedule said cannot be read any more, by this process either."""
    agent = bench.get(name).agent
    _damaged.add(f"{agent}/{name}" if agent else name)
    statement = f"UPDATE revisions SET definition = '?' WHERE schedule_id = {bench.get(name).id}"
    store: Any = bench._store
    if store.shared:
        with store.pool.borrow(b"BEGIN") as session:
            session.cursor.execute(statement.encode())
            session.cursor.execute(b"COMMIT")
    else:
        store._connection.execute(statement)
    bench._catalog._cache.clear()
