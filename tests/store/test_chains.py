"""Event chains and seals on every store: what is written stays as it was written, or it is seen. Rows H8, S7, V7."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from store_records import NOW, S, add_run, add_schedules, found_faults, new_run, page_of_events, say, whole_log

from matins.model.rows import AttemptRow, Cursor, Due, NewEvent
from matins.store import Store

Sql = Callable[[str], list[tuple[Any, ...]]]
DAY = 86_400_000


def seal(store: Store, at: int = NOW) -> None:
    with store.transaction(at) as transaction:
        transaction.seal(at)


def test_chains_and_seals_verify(store: Store) -> None:
    say(store, "a", "b")
    seal(store)
    say(store, "c")
    seal(store)
    assert found_faults(store) == []
    with store.reading() as transaction:
        events, writers, seals = whole_log(transaction)
    assert [(event.type, event.seq, event.data) for event in page_of_events(store)] == [
        ("a", 1, '{"n":0}'),
        ("b", 2, '{"n":1}'),
        ("c", 3, '{"n":0}'),
    ]
    assert [event.type for event in page_of_events(store, events[0].id, 1)] == ["b"]
    assert (len(events), len(writers), len(seals)) == (3, 1, 2)


def test_a_seal_is_made_only_when_something_happened(store: Store) -> None:
    for _ in range(2):
        seal(store)
    say(store, "a")
    for _ in range(3):
        seal(store)
    with store.reading() as transaction:
        assert len(transaction.seals(0, 10**9)) == 1


@pytest.mark.parametrize(
    ("deed", "fault"),
    [
        ("UPDATE events SET type = 'x' WHERE seq = 2", r"Event \d+ was changed after it was written\."),
        ("UPDATE events SET data = NULL WHERE seq = 2", r"Event \d+ was changed after it was written\."),
        ("UPDATE events SET at = at + 1 WHERE seq = 1", r"Event \d+ was changed after it was written\."),
        ("DELETE FROM events WHERE seq = 2", r"Event \d+: number 2 of writer 1 is missing\."),
        ("DELETE FROM events WHERE seq = 1", r"Event \d+: number 1 of writer 1 is missing\."),
        ("DELETE FROM events WHERE seq = 4", r"Seal 2: event 4 of writer 1 was deleted or changed\."),
        ("DELETE FROM events", r"Seal 1: event 2 of writer 1 was deleted or changed\."),
        ("UPDATE seals SET at = at + 1 WHERE id = 1", r"Seal 1 was changed after it was written\."),
        ("DELETE FROM seals WHERE id = 1", r"Seal 2 was changed after it was written\."),
    ],
)
def test_tampering_is_named(store: Store, sql: Sql, deed: str, fault: str) -> None:
    """S7: edits, deletions and a tail that was cut off are found, with the place."""
    say(store, "a", "b")
    seal(store)
    say(store, "c", "d")
    seal(store)
    assert found_faults(store) == []
    sql(deed)
    assert any(re.fullmatch(fault, found) for found in found_faults(store)), found_faults(store)


def test_events_that_changed_places_are_named(store: Store, sql: Sql) -> None:
    say(store, "a", "b", "c")
    for before, after in ((2, -1), (3, 2), (-1, 3)):
        sql(f"UPDATE events SET seq = {after} WHERE seq = {before}")
    assert len(found_faults(store)) == 1


def test_forgetting_old_events_keeps_the_chain_whole(store: Store) -> None:
    """H8: the beginning goes, with its hash kept; what follows verifies, also against seals of before."""
    say(store, "old", "old")
    seal(store)
    say(store, "new", at=NOW + DAY)
    seal(store, NOW + DAY)
    with store.transaction(NOW) as transaction:
        assert transaction.prune_events(NOW, ()) is None
        assert transaction.prune_events(NOW + 1, ()) == []
    assert found_faults(store) == []
    say(store, "newer", at=NOW + DAY)
    seal(store, NOW + DAY)
    assert found_faults(store) == []
    assert [event.type for event in page_of_events(store)] == ["new", "newer"]
    with store.transaction(NOW) as transaction:
        transaction.prune_events(NOW + DAY + 1, ())
        left = transaction.events_after(0, 9)
    # On SQLite the newest stays: ids go on from it.
    assert [event.type for event in left] in ([], ["newer"])
    assert found_faults(store) == []


def test_what_is_left_after_forgetting_is_still_guarded(store: Store, sql: Sql) -> None:
    say(store, "old")
    say(store, "new", "new", at=NOW + DAY)
    with store.transaction(NOW) as transaction:
        transaction.prune_events(NOW + 1, ())
    sql("DELETE FROM events WHERE seq = 2")
    assert len(found_faults(store)) == 1


def test_a_run_stays_until_its_slot_has_passed(store: Store) -> None:
    """P8, H2: the clock was ahead when it ran; without its record the slot would run again."""
    (schedule,) = add_schedules(store)
    passed, not_planned, to_come = (
        add_run(store, schedule, slot=slot, state=S.SUCCEEDED, ended_at=NOW - 2) for slot in (1, NOW - 1, NOW + 1)
    )
    with store.transaction(NOW) as transaction:
        transaction.replace_cursor(schedule, NOW - 1, NOW - 1, 1)
        assert transaction.prunable(NOW, NOW, 9) == transaction.prunable_beyond(0, NOW, 9) == [passed]
        transaction.replace_cursor(schedule, NOW + 5, NOW + 5, 1)
        found = transaction.prunable(NOW, NOW, 9)
        assert found == transaction.prunable_beyond(0, NOW, 9) == [passed, not_planned]
        assert transaction.prunable(NOW, NOW + 1, 9) == [passed, not_planned, to_come]


def test_forgetting_runs_keeps_cursors_and_what_lives(store: Store) -> None:
    """P8: purging never fires anything again."""
    (schedule,) = add_schedules(store)
    old, older, recent = (
        add_run(store, schedule, slot=slot, state=S.SUCCEEDED, ended_at=ended)
        for slot, ended in ((1, NOW - 2), (2, NOW - 3), (3, NOW))
    )
    live = add_run(store, schedule, slot=4)
    with store.transaction(NOW) as transaction:
        transaction.insert_attempts([AttemptRow(run, 1, 7, NOW) for run in (old, recent)])
        cursor = transaction.lock_due([schedule])
        assert transaction.prunable(NOW, NOW, 9) == [old, older]
        assert len(transaction.prunable(NOW, NOW, 1)) == 1
        assert transaction.prunable_beyond(2, NOW, 9) == [old, older]
        assert transaction.prunable_beyond(0, NOW, 9) == [old, older, recent]
        transaction.delete_runs([old, older, live])
        assert [row.id for row in transaction.runs_of(schedule, 1 << 62, 9)] == [live, recent]
        assert transaction.lock_due([schedule]) == cursor
        transaction.insert_attempts([AttemptRow(old, 1, 7, NOW)])  # its first attempt was forgotten with it


def test_a_slot_whose_record_is_forgotten_stays_covered(store: Store) -> None:
    """P8: so that it is not planned again when the clock goes back."""
    (schedule,) = add_schedules(store)
    runs = [add_run(store, schedule, slot=slot, state=S.SUCCEEDED, ended_at=NOW) for slot in (7, 9, 8)]
    with store.transaction(NOW) as transaction:
        for run in runs:
            transaction.delete_runs([run])
        assert transaction.runs_of(schedule, 1 << 62, 9) == []
        assert transaction.covered(schedule, 9) == [(9, 9)]
        assert transaction.covered(schedule, 10) == []


def test_threads_write_at_once_and_every_chain_holds(store: Store) -> None:
    """S7: several threads write through one store; nothing is lost, and all chains verify."""
    together = threading.Barrier(4)

    def write(name: str) -> None:
        together.wait()
        for n in range(20):
            with store.transaction(NOW) as transaction:
                transaction.events.append(NewEvent(NOW, name, None, n))
                if n % 5 == 0:
                    transaction.seal(NOW)

    threads = [threading.Thread(target=write, args=(f"t{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seal(store)
    assert found_faults(store) == []
    with store.reading() as transaction:
        events, writers, seals = whole_log(transaction)
    for n in range(4):
        mine = [event.run_id for event in events if event.type == f"t{n}"]
        assert sorted(mine) == list(range(20))
    assert 1 <= len(writers) <= 4
    assert len(seals) > 4


def test_a_rollback_leaves_nothing(store: Store) -> None:
    """H8: neither rows nor events; and the event chain goes on as if it had not been."""
    say(store, "before")
    (schedule,) = add_schedules(store)
    with suppress(ZeroDivisionError), store.transaction(NOW) as transaction:
        transaction.events.append(NewEvent(NOW, "lost", None, None))
        (run,) = transaction.run_ids(1)
        transaction.insert_runs([new_run(run, schedule)])
        transaction.advance([Cursor(schedule, NOW, 1, None, None, 0, 1)])
        raise ZeroDivisionError
    say(store, "after")
    with store.transaction(NOW) as transaction:
        assert transaction.lock_due([schedule]) == [Due(schedule, NOW, 1, 0, 0)]
        assert transaction.live([schedule]) == []
    assert [(event.type, event.seq) for event in page_of_events(store)] == [("before", 1), ("after", 2)]
