"""Bugs to plant: each is a change that a hasty hand could make, and that the simulation must find."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from matins.runtime.engine import Engine
from matins.store.sqlite.transaction import SQL, SqliteTransaction

Planted = AbstractContextManager[Any]


@contextmanager
def _sql(name: str, old: str, new: str) -> Generator[None]:
    """One statement, otherwise as it is."""
    assert old in SQL[name], f"{name} no longer says {old!r}: plant this bug anew"
    with patch.dict(SQL, {name: SQL[name].replace(old, new)}):
        yield


def no_epoch_check() -> Planted:
    """Outcomes are taken from whoever brings them."""
    return _sql("settle", "epoch = ?2", "?2 = ?2")


def cursor_before_records() -> Planted:
    """The cursor is made durable before the records of the slots that it passes."""
    advance = SqliteTransaction.advance

    def early(self: SqliteTransaction, cursors: Any) -> set[int]:
        moved = advance(self, cursors)
        self._connection.execute("COMMIT")
        self._connection.execute("BEGIN IMMEDIATE")
        return moved

    return patch.object(SqliteTransaction, "advance", early)


def start_before_commit() -> Planted:
    """Runs are handed over while their attempts are not durable yet."""
    transact = Engine._transact

    def hasty(self: Engine, now: int) -> Any:
        plan = self.planner.plan

        def plan_and_start(*arguments: Any) -> Any:
            planned = plan(*arguments)
            self.executor.submit(planned.start)
            return planned._replace(start=[])

        with patch.object(self.planner, "plan", plan_and_start):
            return transact(self, now)

    return patch.object(Engine, "_transact", hasty)


def permits_kept() -> Planted:
    """Runs that are over keep their permits."""
    return patch.object(SqliteTransaction, "release_permits", lambda self, run_ids: None)


def permit_taken_twice() -> Planted:
    """A permit is taken whether it is free or not."""
    return _sql("take_permit", " AND run_id IS NULL)", ")")


def promoted_past_others() -> Planted:
    """A queued run is promoted whatever else is live."""
    return _sql("promote", "q.state BETWEEN 0 AND 5 GROUP BY", "q.state = 1 GROUP BY")


def window_forgotten() -> Planted:
    """Each tick grants a missed window its cap anew."""
    return _sql("advance", "window_used = ?6", "window_used = 0 * ?6")


def lost_answer_ignored() -> Planted:
    """What was claimed in a commit whose answer was lost is forgotten."""
    return patch.object(Engine, "_still_ours", lambda self, transaction, claimed: [])


def never_comes_back() -> Planted:
    """Whom others took for dead stays so, although it lives."""
    return patch.object(Engine, "_come_back", lambda self, now: None)


def history_overlooked() -> Planted:
    """After the clock went back, slots that have their records are planned again."""
    return patch.object(SqliteTransaction, "covered_until", lambda self, schedule_id, since: None)


BUGS: dict[str, Callable[[], Planted]] = {
    bug.__name__: bug
    for bug in (
        no_epoch_check,
        cursor_before_records,
        start_before_commit,
        permits_kept,
        permit_taken_twice,
        promoted_past_others,
        window_forgotten,
        lost_answer_ignored,
        never_comes_back,
        history_overlooked,
    )
}
