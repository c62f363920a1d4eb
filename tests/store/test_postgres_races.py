"""Several processes on one PostgreSQL: each slot, claim, permit and key is won once. Rows C9, C12, H2, H10, P8."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import orjson
import psycopg
import pytest
from store_records import (
    MINUTE,
    NOW,
    S,
    add_run,
    add_schedules,
    end,
    found_faults,
    new_run,
    page_of_events,
    say,
    started_run,
    state_of,
)

from matins.errors import Conflict, StoreUnavailable
from matins.model.rows import Cursor, NewEvent, NewSchedule, Release
from matins.store.postgres.session import MAX_CONNECTIONS
from matins.store.postgres.store import PostgresStore
from matins.testing import ManualClock, Sandbox

MINE = "application_name = current_setting('application_name') AND pid <> pg_backend_pid()"


@pytest.fixture
def store(postgres_store: PostgresStore) -> PostgresStore:
    return postgres_store


def wait_for_lock(url: str, *waiting: Future[Any]) -> None:
    """Until each of them waits for a lock, or is done without."""
    with psycopg.connect(url, autocommit=True) as connection:
        blocked = f"SELECT pid FROM pg_stat_activity WHERE {MINE} AND wait_event_type = 'Lock'"
        while len(connection.execute(blocked).fetchall()) < sum(not one.done() for one in waiting):
            pass


def test_workers_see_different_due_rows(store: PostgresStore, other: PostgresStore) -> None:
    """H2: what one worker has locked, another leaves out, without waiting."""
    add_schedules(store, 10)
    late = NOW + 10 * MINUTE
    with store.transaction(NOW) as one, other.transaction(NOW) as two:
        mine = {row.schedule_id for row in one.due(late, 4)}
        others = {row.schedule_id for row in two.due(late, 20)}
        assert len(mine) == 4
        assert len(others) == 6
        assert mine.isdisjoint(others)


def test_workers_see_different_ready_runs_and_permits(store: PostgresStore, other: PostgresStore) -> None:
    """C12: a limit of three holds over several processes."""
    (schedule,) = add_schedules(store)
    for _ in range(6):
        add_run(store, schedule, exclusive=0)
    with store.transaction(NOW) as transaction:
        transaction.set_limit("global", 3)
    with store.transaction(NOW) as one, other.transaction(NOW) as two:
        mine, others = [row.id for row in one.ready(NOW, 3)], [row.id for row in two.ready(NOW, 9)]
        assert len(mine) == len(others) == 3
        assert set(mine).isdisjoint(others)
        assert sorted(one.take_permits("global", mine[:2])) == sorted(mine[:2])
        assert two.take_permits("global", others) == others[:1]


def test_racing_planners_record_each_slot_once(store: PostgresStore, other: PostgresStore) -> None:
    """C9, H2: four threads on two stores plan the same schedules; each cursor moves once."""
    count, together = 200, threading.Barrier(4)
    add_schedules(store, count)
    late = NOW + count * MINUTE

    def plan(mine: PostgresStore) -> list[int]:
        moved: list[int] = []
        together.wait()
        while True:
            with mine.transaction(NOW) as transaction:
                due = transaction.due(late, 7)
                rows = [Cursor(row.schedule_id, row.slot, row.rev, None, None, 0, 1) for row in due]
                moved += transaction.advance(rows)
                if not due and transaction.next_due() is None:
                    return moved

    with ThreadPoolExecutor(4) as threads:
        moved = [sid for found in threads.map(plan, [store, other, store, other]) for sid in found]
    assert len(moved) == count
    assert len(set(moved)) == count


def test_a_run_queued_while_its_predecessor_ends_is_promoted(
    store: PostgresStore, other: PostgresStore, postgres_url: str
) -> None:
    """C12: whoever ends a run waits for the planner that is adding to the queue, and then sees what it added."""
    (schedule,) = add_schedules(store)
    first = started_run(store, schedule)

    def record() -> list[tuple[int, int]]:
        with other.transaction(NOW) as transaction:
            transaction.change_states([end(first)])
            return transaction.promote([schedule], NOW)

    with ThreadPoolExecutor(1) as threads:
        with store.transaction(NOW) as transaction:
            transaction.lock_due([schedule])
            assert [row[:3] for row in transaction.live([schedule])] == [(schedule, first, S.STARTING)]
            recorded = threads.submit(record)
            wait_for_lock(postgres_url, recorded)
            (queued,) = transaction.run_ids(1)
            transaction.insert_runs([new_run(queued, schedule, state=S.QUEUED)])
        assert recorded.result() == [(queued, schedule)]


@pytest.mark.parametrize("way", ["change_states", "release", "mark_cancelling", "live_runs", "promote"])
def test_cursors_are_locked_before_runs(
    store: PostgresStore, other: PostgresStore, postgres_url: str, way: str
) -> None:
    """H10: an edit holds the cursor and then wants the run; whoever changes the run waits, so nobody is stuck."""
    (schedule,) = add_schedules(store)
    run = started_run(store, schedule)
    arguments = {"change_states": [[end(run)]], "release": [[Release(run, 1, NOW)]], "promote": [[schedule], NOW]}.get(
        way, [[run]]
    )

    def change() -> None:
        with other.transaction(NOW) as transaction:
            getattr(transaction, way)(*arguments)

    with ThreadPoolExecutor(1) as threads:
        with store.transaction(NOW) as transaction:
            transaction.lock_due([schedule])
            changed = threads.submit(change)
            wait_for_lock(postgres_url, changed)
            assert not changed.done()
            transaction.live_runs([run])
        changed.result()


def at_once(url: str, change: Callable[[Sandbox, int], Any]) -> list[Any]:
    """What two processes get that change the same schedule at the same moment."""
    benches = [Sandbox(url, clock=ManualClock(NOW)) for _ in range(2)]
    for bench in benches:
        bench.job("x")(lambda run: None)
    schedule = benches[0].add("s", when="0 0 1 1 *", job="x")
    with ThreadPoolExecutor(2) as threads:
        with benches[0]._store.transaction(NOW) as transaction:
            transaction.lock_due([int(schedule.id)])
            changes = [threads.submit(change, bench, n) for n, bench in enumerate(benches)]
            wait_for_lock(url, *changes)
        results = [change.result() for change in changes]
    for bench in benches:
        bench.close()
    return results


def test_one_key_asked_by_two_processes_at_once_is_one_run(postgres_url: str) -> None:
    """H2."""
    one, two = at_once(postgres_url, lambda bench, n: bench.run("s", key="k").id)
    assert one == two


def test_two_edits_at_once_are_two_revisions(postgres_url: str) -> None:
    """P8: neither is lost."""
    assert sorted(at_once(postgres_url, lambda bench, n: bench.edit("s", payload=n).rev)) in ([2, 3], [3, 3])


def test_a_deadlock_is_tried_again_by_whoever_meets_it(store: PostgresStore, other: PostgresStore) -> None:
    """H10: one of the two goes on, the other hears that it may try again."""
    one, two = add_schedules(store, 2)
    both = threading.Barrier(2)

    def lock(mine: PostgresStore, first: int, second: int) -> str:
        try:
            with mine.transaction(NOW) as transaction:
                transaction.lock_due([first])
                both.wait()
                transaction.lock_due([second])
        except StoreUnavailable as error:
            return "try again" if error.retryable else "give up"
        return "done"

    with ThreadPoolExecutor(2) as threads:
        ends = [threads.submit(lock, store, one, two), threads.submit(lock, other, two, one)]
        assert sorted(end.result() for end in ends) == ["done", "try again"]


def test_more_threads_than_connections_wait_for_their_turn(store: PostgresStore) -> None:
    with ThreadPoolExecutor(3 * MAX_CONNECTIONS) as threads:
        list(threads.map(lambda n: say(store, f"e{n}"), range(120)))
    assert found_faults(store) == []
    assert len(page_of_events(store)) == 120
    with store.reading() as transaction:
        assert len(transaction.writers()) <= MAX_CONNECTIONS


def test_readers_of_events_miss_nothing_that_commits_late(store: PostgresStore, other: PostgresStore) -> None:
    """V5: an event of a transaction that began earlier and commits later still comes after what was read."""
    with store.transaction(NOW) as early:
        early.insert_worker("has a transaction number", NOW)
        say(other, "second")
        with other.reading() as reader:
            assert reader.events_after(0, 9) == []
    say(store, "third")
    assert [event.type for event in page_of_events(other)] == ["second", "third"]


def test_two_schedules_of_one_name_made_at_the_same_moment(store: PostgresStore, other: PostgresStore) -> None:
    with pytest.raises(Conflict):
        make_twins(store, other)
    with store.reading() as transaction:
        assert [row.id for row in transaction.schedules(0, None, 9)] == [1]


def make_twins(store: PostgresStore, other: PostgresStore) -> None:
    twin = NewSchedule(1, "", "twin", "{}", NOW, NOW)
    with store.transaction(NOW) as transaction:
        assert transaction.taken_names([("", "twin")]) == []
        with other.transaction(NOW) as quicker:
            quicker.insert_schedules([twin], NOW)
        transaction.insert_schedules([twin._replace(id=2)], NOW)


def test_many_open_an_empty_schema_at_once(postgres_url: str) -> None:
    """S2: one of them migrates, the others wait for it."""
    with ThreadPoolExecutor(4) as threads:
        stores = list(threads.map(lambda _: PostgresStore(postgres_url, NOW), range(4)))
    assert len({store.store_id for store in stores}) == 1
    for store in stores:
        store.close()


def test_state_is_durable_for_another_process(store: PostgresStore, other: PostgresStore) -> None:
    (schedule,) = add_schedules(store)
    run = started_run(store, schedule)
    with other.transaction(NOW) as transaction:
        assert transaction.change_states([end(run)]) == {(run, 1): False}
    with store.transaction(NOW) as transaction:
        assert transaction.change_states([end(run, target=S.FAILED)]) == {}
        assert state_of(transaction, run) is S.SUCCEEDED


def test_seals_cover_what_commits_late_and_nothing_twice(store: PostgresStore, other: PostgresStore) -> None:
    """S7: an event of an older transaction is sealed when it is there, though a younger one was sealed before it."""

    def seals() -> list[str]:
        with other.transaction(NOW) as transaction:
            transaction.seal(NOW)
        with other.reading() as transaction:
            return [row.heads for row in transaction.seals(0, 10**9)]

    with store.transaction(NOW) as early:
        early.insert_worker("has a transaction number", NOW)
        early.events.append(NewEvent(NOW, "late", None, None))
        say(other, "quick")
        assert len(seals()) == len(seals()) == 1
    quick, late = seals()
    assert len(seals()) == 2
    assert orjson.loads(quick)[0][0] != orjson.loads(late)[0][0]
    assert found_faults(store) == []
