"""The columns of each statement are the fields of the row that the transaction makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from inspect import getmembers, signature
from typing import Any, get_args, get_type_hints

import pytest
from store_records import NOW

from matins.chat._rows import ChatRows
from matins.model import event, rows
from matins.model.overview import LaneWindow
from matins.model.selector import ALL, RunFilter, ScheduleFilter
from matins.store import Store
from matins.store.postgres.store import PostgresStore
from matins.store.sqlite.store import SqliteStore
from matins.store.transaction import Transaction

Columns = list[tuple[str, ...]]

ARGUMENTS: dict[str, Any] = {
    "int": 1,
    "str": "x",
    "str | None": None,
    "int | None": None,
    "bool": True,
    "DeliveryState": "retrying",
    "ScheduleFilter": ScheduleFilter(),
    "RunFilter": RunFilter(),
    "Selector": ALL,
    "LaneWindow": LaneWindow(1, 0, 1, None),
    "ScheduleSort": "name",
    "Literal['agent', 'schedule']": "schedule",
    "Iterable[int]": [1],
    "Iterable[str]": ["x"],
    "Iterable[tuple[int, int]]": [(1, 1)],
}
PARTS = {
    "thread_assignment": "how a run landed, and its thread",
    "queue_events": "the attempts of a delivery, and its event",
    "bound_revision": "a row that is always there; it is compared by the tests of the log",
    "prune_events": "the events that were deleted, of each writer",
    "lane_runs": "the lane, and the fields of its row",
    "lane_cursors": "the same",
    "past_spend": "Usage without its last field",
    "reservations": "amounts that become those reserved",
    "take_reservations": "the same",
}
"""Methods whose rows are more or less than their statement's, and why."""


def _row_types(method: Callable[..., Any]) -> Iterator[type[Any]]:
    """The named tuples among what a method returns."""
    pending = [get_type_hints(method)["return"]]
    while pending:
        kind = pending.pop()
        pending += get_args(kind)
        if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
            yield kind


METHODS: dict[str, Callable[..., Any]] = {
    name: method
    for kind in (Transaction, ChatRows)
    for name, method in getmembers(kind, callable)
    if not name.startswith("_")
    and name not in ("upsert_throttle", "audit")
    and len({*_row_types(method)}) == 1
    and name not in PARTS
}


def _recorded(store: Store, monkeypatch: pytest.MonkeyPatch) -> Columns:
    """From now on, the names of the columns of every statement that returns rows."""
    found: Columns = []
    if isinstance(store, SqliteStore):

        def about_to(cursor: Any, sql: str, bindings: Any) -> bool:
            found.append(tuple(name for name, *_ in cursor.get_description()))
            return True

        store._connection.exec_trace = about_to
        return found
    assert isinstance(store, PostgresStore)
    with store.pool.borrow(b"SELECT 1") as session:
        kind = type(session.cursor)
    execute: Callable[..., Any] = kind.execute

    def recorded(cursor: Any, *arguments: Any, **options: Any) -> Any:
        done = execute(cursor, *arguments, **options)
        found.append(tuple(column.name for column in cursor.description or ()))
        return done

    monkeypatch.setattr(kind, "execute", recorded)
    return found


def _arguments(method: str) -> dict[str, Any]:
    parameters = signature(METHODS[method]).parameters
    return {name: ARGUMENTS[parameter.annotation] for name, parameter in parameters.items() if name != "self"}


def test_columns_are_the_fields(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    columns: dict[str, tuple[str, ...]] = {}
    with store.transaction(NOW) as transaction:
        transaction.policy_rev()  # the first statement has its columns later: it goes out together with BEGIN
        found = _recorded(store, monkeypatch)
        for method in METHODS:
            rows_of = transaction if hasattr(Transaction, method) else ChatRows(transaction)
            getattr(rows_of, method)(**_arguments(method))
            columns[method] = found[-1]
    assert columns == {method: _fields(method) for method in METHODS}


def _fields(method: str) -> tuple[str, ...]:
    (row,) = {*_row_types(METHODS[method])}
    return tuple(
        field
        for field in row._fields
        if (row.__name__, field) not in (("Approval", "votes"), ("Usage", "invalid"))  # elsewhere
    )


def test_rows_of_all_kinds_are_compared() -> None:
    """What a store gives is among the methods above; what it takes has no columns."""
    compared = {row for method in METHODS.values() for row in _row_types(method)}
    taken = {
        rows.Cursor,
        rows.NextSlot,
        rows.NewRun,
        rows.Claim,
        rows.Release,
        rows.PlainEnd,
        rows.StateChange,
        rows.NewEvent,
    }
    taken |= {event.ChainHead, event.NewNotice, rows.NewSchedule, rows.LabelRow, rows.NewStep}
    kinds = {kind for module in (rows, event) for kind in vars(module).values() if hasattr(kind, "_fields")}
    assert kinds - compared == taken
    assert {rows.ScheduleRow, rows.RunRow, rows.DefinitionRow, rows.CheckRow, rows.AttemptRow} <= compared
