"""Short ways to make the rows that tests of stores need."""

from __future__ import annotations

from typing import Any

from matins.model.event import StoredEvent
from matins.model.rows import NewEvent, NewRun, NewSchedule, StateChange
from matins.model.run import RunState
from matins.store import Store
from matins.store.transaction import Transaction
from whole_log import WholeLog, chain_problems

NOW = 1_800_000_000_000
MINUTE = 60_000
S = RunState


def add_schedules(store: Store, count: int = 1, *, agent: str = "", due_at: int | None = NOW) -> list[int]:
    """Schedules named s1, s2, … by their ids, due a minute apart."""
    with store.transaction(NOW) as transaction:
        ids = list(transaction.schedule_ids(count))
        rows = [
            NewSchedule(i, agent, f"s{i}", '{"rev": 1}', NOW, None if due_at is None else due_at + n * MINUTE)
            for n, i in enumerate(ids)
        ]
        transaction.insert_schedules(rows, NOW)
    return ids


def new_run(run_id: int, schedule_id: int, **changes: Any) -> NewRun:
    run = NewRun(
        run_id, schedule_id, 1, None, None, S.READY, 1, None, 0, 0, None, NOW, NOW, None, None, 1, None, None, None
    )  # fmt: skip
    return run._replace(**changes)


def add_run(store: Store, schedule_id: int, **changes: Any) -> int:
    with store.transaction(NOW) as transaction:
        (run_id,) = transaction.run_ids(1)
        transaction.insert_runs([new_run(run_id, schedule_id, **changes)])
    return run_id


def started_run(store: Store, schedule_id: int, worker: int = 7, **changes: Any) -> int:
    """A run that a worker has claimed, under epoch 1."""
    changes = {"state": S.STARTING, "epoch": 1, "attempt": 1, "owner": worker, "started_at": NOW, **changes}
    return add_run(store, schedule_id, **changes)


def end(run_id: int, epoch: int = 1, target: RunState = S.SUCCEEDED, **changes: Any) -> StateChange:
    settlement = StateChange(run_id, epoch, S.STARTING, S.HELD, target, None, NOW + 5, None, None)
    return settlement._replace(**changes)


def state_of(transaction: Transaction, run_id: int) -> RunState:
    row = transaction.run(run_id)
    assert row is not None
    return RunState(row.state)


def say(store: Store, *kinds: str, at: int = NOW) -> None:
    """Events, in one transaction."""
    with store.transaction(at) as transaction:
        transaction.events += [NewEvent(at, kind, 1, n, {"n": n}) for n, kind in enumerate(kinds)]


def page_of_events(store: Store, after: int = 0, limit: int = 999) -> list[StoredEvent]:
    """A page, once it is complete: on PostgreSQL events come when no older transaction of any user is under way."""
    with store.reading() as transaction:
        there = sorted(event.id for event in transaction.logged(0, 10**9) if event.id > after)[:limit]
    while True:
        with store.reading() as transaction:
            page = transaction.events_after(after, limit)
        if [event.id for event in page] == there:
            return page


def found_faults(store: Store) -> list[str]:
    with store.reading() as transaction:
        return chain_problems(whole_log(transaction))


def whole_log(transaction: Transaction) -> WholeLog:
    events = sorted(transaction.logged(0, 10**9), key=lambda event: (event.writer, event.seq))
    return WholeLog(events, transaction.writers(), transaction.seals(0, 10**9))
