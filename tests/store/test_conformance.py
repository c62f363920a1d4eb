"""One suite for every store: what each method of a transaction promises to the loops.

Rows P8, C9, C12, H2, H3, H8, V3.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import apsw
import psycopg
import pytest
from store_records import (
    MINUTE,
    NOW,
    S,
    add_run,
    add_schedules,
    end,
    say,
    started_run,
    state_of,
)

from matins.engine.audit import PRUNED
from matins.model.rows import AttemptRow, Claim, Cursor, DefinitionRow, Due, NewEvent, NewSchedule, NextSlot, Release
from matins.store import Store
from matins.store.postgres.session import SQL as OF_POSTGRES
from matins.store.sqlite.store import SqliteStore
from matins.store.sqlite.transaction import SQL as OF_SQLITE

TAKEN = (apsw.ConstraintError, psycopg.errors.UniqueViolation)


def test_due_gives_what_is_due_from_either_end(store: Store) -> None:
    first, second, _ = add_schedules(store, 3)
    with store.transaction(NOW) as transaction:
        assert transaction.due(NOW - 1, 10) == []
        assert [row.schedule_id for row in transaction.due(NOW + MINUTE, 10)] == [first, second]
        assert transaction.due(NOW + MINUTE, 1) == [Due(first, NOW, 1, 0, 0)]
        assert [row.schedule_id for row in transaction.due(NOW + MINUTE, 10, newest=True)] == [second, first]


def test_the_next_instants(store: Store) -> None:
    with store.reading() as transaction:
        assert transaction.next_due() is None
        assert transaction.next_ready() is None
    (schedule,) = add_schedules(store)
    add_run(store, schedule, not_before=NOW + 9, exclusive=0)
    add_run(store, schedule, not_before=NOW + 3, scope="agent:a", exclusive=0)
    add_run(store, schedule, not_before=NOW + 1, state=S.QUEUED)
    with store.reading() as transaction:
        assert transaction.next_due() == NOW
        assert transaction.next_ready() == NOW + 3
        assert transaction.next_ready(["agent:a"]) == NOW + 9


def test_cursors_come_in_pages_and_without_those_that_stand_nowhere(store: Store) -> None:
    ids = add_schedules(store, 3)
    add_schedules(store, due_at=None)
    with store.transaction(NOW) as transaction:
        assert [row.schedule_id for row in transaction.cursors(0, 2)] == ids[:2]
        assert [row.schedule_id for row in transaction.cursors(ids[1], 9)] == ids[2:]
        assert [row.schedule_id for row in transaction.lock_due([ids[2], ids[0]])] in (ids[::2], ids[::-2])


def test_a_cursor_moves_only_from_where_it_was_read(store: Store) -> None:
    """C9: two planners that saw the same slot make one record."""
    here, elsewhere, edited = add_schedules(store, 3)
    moves = [
        Cursor(here, NOW, 1, NOW + MINUTE, NOW + MINUTE, 2, 3),
        Cursor(elsewhere, NOW - MINUTE, 1, NOW + MINUTE, NOW + MINUTE, 0, 1),
        Cursor(edited, NOW, 2, NOW + MINUTE, NOW + MINUTE, 0, 1),
    ]
    with store.transaction(NOW) as transaction:
        assert transaction.advance(moves) == {here}
        assert transaction.advance(moves) == set()
        assert transaction.advance([]) == set()
        assert {row.schedule_id: row for row in transaction.lock_due([here, elsewhere, edited])} == {
            here: Due(here, NOW + MINUTE, 1, 2, 3),
            elsewhere: Due(elsewhere, NOW, 1, 0, 0),
            edited: Due(edited, NOW, 1, 0, 0),
        }


def test_an_interval_goes_on_only_while_it_waits_for_a_completion(store: Store) -> None:
    waiting, busy, paused = add_schedules(store, 3)
    with store.transaction(NOW) as transaction:
        transaction.advance([Cursor(waiting, NOW, 1, NOW + 1, None, 0, 1)])
        transaction.replace_cursor(paused, NOW + 1, None, 1, paused=True, waiting=True)
        transaction.set_cursors([NextSlot(i, 1, NOW + 7, NOW + 8) for i in (waiting, busy, paused)])
        transaction.set_cursors([NextSlot(waiting, 1, NOW + 9, NOW + 9)])
        rows = {row.schedule_id: row.slot for row in transaction.lock_due([waiting, busy, paused])}
        assert rows == {waiting: NOW + 7, busy: NOW, paused: NOW + 7}
        assert {row.schedule_id for row in transaction.due(NOW + 8, 9)} == {waiting}


def test_the_first_of_two_completions_moves_an_interval(store: Store) -> None:
    (schedule,) = add_schedules(store)
    with store.transaction(NOW) as transaction:
        transaction.replace_cursor(schedule, NOW, None, 1, waiting=True)
        transaction.set_cursors([NextSlot(schedule, 1, NOW + 1, NOW + 1), NextSlot(schedule, 1, NOW + 2, NOW + 2)])
        assert transaction.lock_due([schedule])[0].slot == NOW + 1


def test_a_slot_has_one_record(store: Store) -> None:
    """C9: whatever happens, a slot cannot be recorded twice, nor a request."""
    (schedule,) = add_schedules(store)
    add_run(store, schedule, slot=NOW, state=S.SUCCEEDED)
    add_run(store, schedule, request_key="k", state=S.SUCCEEDED)
    with pytest.raises(TAKEN):
        add_run(store, schedule, slot=NOW, state=S.SUCCEEDED)
    with pytest.raises(TAKEN):
        add_run(store, schedule, request_key="k", state=S.SUCCEEDED)
    with store.reading() as transaction:
        assert len(transaction.runs_of(schedule, 1 << 62, 10)) == 2


@pytest.mark.parametrize("state", [S.READY, S.STARTING, S.RUNNING])
def test_one_run_at_a_time_unless_overlap_is_allowed(store: Store, state: S) -> None:
    """C12: the database itself refuses a second run from ready to running."""
    (schedule,) = add_schedules(store)
    add_run(store, schedule, state=S.RUNNING)
    with pytest.raises(TAKEN):
        add_run(store, schedule, state=state)
    for other in (S.WAITING, S.QUEUED, S.HELD, S.SUCCEEDED):
        add_run(store, schedule, state=other)
    add_run(store, schedule, state=state, exclusive=0)


def test_live_runs_and_started_runs(store: Store) -> None:
    one, two = add_schedules(store, 2)
    queued = add_run(store, one, state=S.QUEUED)
    mine = started_run(store, one, worker=7)
    other = started_run(store, two, worker=8, slot=NOW)
    over = add_run(store, two, state=S.FAILED)
    with store.transaction(NOW) as transaction:
        live = [(row.schedule_id, row.id, row.state) for row in transaction.live([one])]
        assert sorted(live) == [(one, queued, S.QUEUED), (one, mine, S.STARTING)]
        assert [row.id for row in transaction.live_runs([over, mine, queued])] in ([mine, queued], [queued, mine])
        assert [row.id for row in transaction.started(7, mine=True)] == [mine]
        assert transaction.started(7, mine=False) == [(other, two, 1, NOW, 1, 1, S.STARTING, 8, 0, 0)]


def test_run_ids_are_never_given_twice(store: Store) -> None:
    """P8: also after a rollback, and always rising."""
    given: list[int] = []
    for size in (1, 0, 3, 12_000, 2):
        with store.transaction(NOW) as transaction:
            ids = transaction.run_ids(size)
        assert len(ids) == size
        given += ids
    with contextlib.suppress(ZeroDivisionError), store.transaction(NOW) as transaction:
        transaction.run_ids(5)
        raise ZeroDivisionError
    (schedule,) = add_schedules(store)
    given += [add_run(store, schedule, state=S.FAILED) for _ in range(3)]
    assert given == sorted(set(given))


def test_ready_leaves_out_what_is_early_and_scopes_that_are_full(store: Store) -> None:
    (schedule,) = add_schedules(store)
    later = add_run(store, schedule, not_before=NOW + 2, exclusive=0)
    sooner = add_run(store, schedule, not_before=NOW + 1, exclusive=0, scope="agent:a", slot=5, slots=3, first_slot=2)
    add_run(store, schedule, not_before=NOW + 9, exclusive=0)
    with store.transaction(NOW) as transaction:
        assert [row.id for row in transaction.ready(NOW + 2, 9)] == [sooner, later]
        assert [row.id for row in transaction.ready(NOW + 2, 1)] == [sooner]
        assert [row.id for row in transaction.ready(NOW + 2, 9, ["agent:a"])] == [later]
        assert transaction.ready(NOW + 1, 9) == [
            (sooner, schedule, 1, 5, 0, 0, 3, 2, NOW, 0, 0, 0, NOW + 1, None, None)
        ]


def test_a_claim_needs_the_epoch_that_was_read(store: Store) -> None:
    """H2: a run is claimed once in each epoch."""
    (schedule,) = add_schedules(store)
    run = add_run(store, schedule)
    with store.transaction(NOW) as transaction:
        assert transaction.claim([Claim(run, 1, 7, NOW)]) == set()
        assert transaction.claim([Claim(run, 0, 7, NOW)]) == {run}
        transaction.insert_attempts([AttemptRow(run, 1, 7, NOW)])
        assert transaction.claim([Claim(run, 0, 8, NOW), Claim(run, 1, 8, NOW)]) == set()
        (row,) = transaction.started(7, mine=True)
        assert (row.epoch, row.attempt, row.state) == (1, 1, S.STARTING)
    with pytest.raises(TAKEN), store.transaction(NOW) as transaction:
        transaction.insert_attempts([AttemptRow(run, 1, 8, NOW)])


def test_only_the_present_epoch_settles_a_run_and_only_once(store: Store) -> None:
    """H2, V3: what a worker says that was taken for dead changes nothing."""
    (schedule,) = add_schedules(store)
    run = started_run(store, schedule, epoch=2)
    with store.transaction(NOW) as transaction:
        assert transaction.change_states([]) == {}
        assert transaction.change_states([end(run, epoch=1)]) == {}
        assert transaction.change_states([end(run, epoch=2, low=S.WAITING, high=S.READY)]) == {}
        assert state_of(transaction, run) is S.STARTING
        change = end(run, epoch=2, target=S.FAILED, reason="failed", outcome='{"error": "ß"}')
        assert transaction.change_states([change]) == {(run, change.epoch): False}
        assert transaction.change_states([change]) == {}
        row = transaction.run(run)
    assert row is not None
    assert (row.state, row.ended_at, row.reason, row.outcome) == (S.FAILED, NOW + 5, "failed", '{"error": "ß"}')


def test_a_released_run_is_ready_again_and_its_attempt_does_not_count(store: Store) -> None:
    (schedule,) = add_schedules(store)
    run = started_run(store, schedule)
    with store.transaction(NOW) as transaction:
        assert transaction.release([Release(run, 2, NOW)]) == set()
        assert transaction.release([Release(run, 1, NOW + 4)]) == {run}
        (row,) = transaction.ready(NOW + 4, 9)
        assert (row.epoch, row.attempt) == (1, 0)
        assert transaction.release([Release(run, 1, NOW)]) == set()


def test_permits_are_taken_once_and_given_back(store: Store) -> None:
    """C12: a scope of two holds two."""
    with store.transaction(NOW) as transaction:
        assert transaction.limits() == []
        transaction.set_limit("global", 2)
        assert sorted(transaction.take_permits("global", [1, 2, 3])) == [1, 2]
        assert not transaction.take_permits("agent:none", [1])
        transaction.release_permits([1, 9])
        assert transaction.limits() == [("global", 2, 1)]
        assert transaction.take_permits("global", [3])


def test_a_scope_grows_and_shrinks_but_never_takes_a_permit_away(store: Store) -> None:
    """C12: what is held beyond a lowered limit is gone when it is given back, and counts again when it is raised."""
    with store.transaction(NOW) as transaction:
        transaction.set_limit("global", 4)
        transaction.take_permits("global", [1, 2, 3, 4])
        transaction.release_permits([2])
        transaction.set_limit("global", 1)
        assert transaction.limits() == [("global", 1, 3)]
        transaction.release_permits([4])
        assert transaction.limits() == [("global", 1, 2)]
        assert not transaction.take_permits("global", [5])
        transaction.set_limit("global", 3)
        assert transaction.limits() == [("global", 3, 2)]
        assert transaction.take_permits("global", [5, 6]) == [5]


def test_live_runs_come_oldest_first_whatever_they_do(store: Store) -> None:
    """C12: the first of them is the one that others are said to wait for."""
    one, other = add_schedules(store, 2)
    made = [
        (schedule, add_run(store, schedule, state=state), state)
        for schedule in (one, other)
        for state in (S.HELD, S.QUEUED, S.WAITING, S.QUEUED)
    ]
    with store.reading() as transaction:
        assert [(row.schedule_id, row.id, row.state) for row in transaction.live([other, one])] == made


def test_the_oldest_queued_run_is_promoted_when_nothing_is_in_its_way(store: Store) -> None:
    """C12: and only then; runs that are held back are in the way too, older or younger."""
    free, *others = add_schedules(store, 4)
    oldest, _ = [add_run(store, free, state=S.QUEUED) for _ in range(2)]
    for schedule, first, second in zip(
        others, (S.RUNNING, S.WAITING, S.QUEUED), (S.QUEUED, S.QUEUED, S.WAITING), strict=True
    ):
        add_run(store, schedule, state=first)
        add_run(store, schedule, state=second)
    with store.transaction(NOW) as transaction:
        before = transaction.live(others)
        assert transaction.promote([free, *others], NOW + 1) == [(oldest, free)]
        assert transaction.promote([free, *others], NOW + 1) == []
        assert [row.id for row in transaction.ready(NOW + 1, 9)] == [oldest]
        assert transaction.live(others) == before


def test_queued_runs_of_a_backfill_are_promoted_last(store: Store) -> None:
    """C12: the oldest of them when only they are left."""
    (schedule,) = add_schedules(store, 1)
    of_backfill = [add_run(store, schedule, state=S.QUEUED, slot=None) for _ in range(2)]
    own = add_run(store, schedule, state=S.QUEUED)
    with store.transaction(NOW) as transaction:
        for nth, run_id in enumerate(of_backfill):
            transaction.set_for_slot(run_id, NOW - 1 - nth, 1)
        for run_id in (own, *of_backfill):
            assert transaction.promote([schedule], NOW) == [(run_id, schedule)]
            transaction.execute(f"UPDATE runs SET state = {S.SUCCEEDED:d} WHERE id = {run_id}")


def test_after_the_clock_went_back_nothing_waits_for_the_old_time(store: Store) -> None:
    one, two = add_schedules(store, 2)
    late = add_run(store, one, not_before=NOW + 9)
    early = add_run(store, two, not_before=NOW - 9)
    with store.transaction(NOW) as transaction:
        assert transaction.last_written() == 0
        transaction.undefer_runs(NOW)
        assert [row.id for row in transaction.ready(NOW, 9)] == [early, late]
        assert [row.id for row in transaction.ready(NOW - 1, 9)] == [early]
    say(store, "a", at=NOW + 3)
    with store.reading() as transaction:
        assert transaction.last_written() == NOW + 3


def test_failures_in_a_row_are_counted(store: Store) -> None:
    one, two = add_schedules(store, 2)
    with store.transaction(NOW) as transaction:
        transaction.count_failures([])
        transaction.count_failures([(one, NOW), (two, NOW), (one, NOW + 1)])
        transaction.count_failures([(one, NOW + 2), (two, NOW + 3), (two, None), (two, NOW + 4)])
        counted = [transaction.schedule(schedule) for schedule in (one, two)]
        assert [row and (row.failures, row.failed_at) for row in counted] == [(3, NOW + 2), (1, NOW + 4)]
        assert sorted(row[5:] for row in transaction.lock_due([one, two])) == [(1, NOW + 4), (3, NOW + 2)]
        transaction.count_failures([(one, None)])
        row = transaction.schedule(one)
        assert row is not None
        assert (row.failures, row.failed_at) == (0, None)
        transaction.reset_failures(two)
        assert transaction.lock_due([two])[0][5:] == (0, None)


@pytest.mark.parametrize(("rev", "paused", "kept"), [(1, False, True), (2, False, False), (1, True, False)])
def test_an_edit_or_a_pause_forgets_the_last_failure(store: Store, rev: int, paused: bool, kept: bool) -> None:
    (one,) = add_schedules(store)
    with store.transaction(NOW) as transaction:
        transaction.insert_revision(one, 2, '{"rev": 2}', NOW)
        transaction.count_failures([(one, NOW)])
        transaction.replace_cursor(one, NOW + 3, NOW + 3, rev, paused=paused)
        assert transaction.lock_due([one])[0][5:] == (1, NOW if kept else None)


def test_started_runs_are_marked_to_end_once(store: Store) -> None:
    one, two = add_schedules(store, 2)
    run, waiting = started_run(store, one), add_run(store, two)
    with store.transaction(NOW) as transaction:
        assert transaction.mark_cancelling([run, waiting]) == [(run, one, 7)]
        assert transaction.mark_cancelling([run, waiting]) == []
        assert [row.cancelling for row in transaction.started(7, mine=True)] == [1]


def test_pausing_holds_back_what_waits_and_resuming_lets_it_go(store: Store) -> None:
    (schedule,) = add_schedules(store)
    queued = add_run(store, schedule, state=S.QUEUED)
    ready = add_run(store, schedule)
    free = add_run(store, schedule, exclusive=0)
    running = started_run(store, schedule, exclusive=0)
    approval = add_run(store, schedule, state=S.WAITING, reason="approval")
    with store.transaction(NOW) as transaction:
        assert sorted(transaction.suspend_runs(schedule)) == [queued, ready, free]
        assert {state_of(transaction, run) for run in (queued, ready, free)} == {S.WAITING}
        transaction.resume_runs(schedule, NOW + 9)
        states = [state_of(transaction, run) for run in (queued, ready, free, running, approval)]
        assert states == [S.QUEUED, S.QUEUED, S.READY, S.STARTING, S.WAITING]
        assert [row.id for row in transaction.ready(NOW + 8, 9)] == []
        assert [row.id for row in transaction.ready(NOW + 9, 9)] == [free]


def test_schedules_are_found_by_name_agent_and_page(store: Store) -> None:
    with store.transaction(NOW) as transaction:
        ids = list(transaction.schedule_ids(3))
        names = [("", "x"), ("ann", "x"), ("ann", "y")]
        rows = [NewSchedule(i, agent, name, "{}", NOW, NOW) for i, (agent, name) in zip(ids, names, strict=True)]
        transaction.insert_schedules(rows, NOW)
        assert sorted(transaction.schedules_named("x", None)) == ids[:2]
        assert transaction.schedules_named("x", "ann") == [ids[1]]
        assert [row.id for row in transaction.schedules(0, None, 2)] == ids[:2]
        assert [row.id for row in transaction.schedules(ids[0], "ann", 9)] == ids[1:]
        assert transaction.taken_names([("", "y"), ("bob", "x")]) == []
        assert transaction.taken_names([("", "y"), ("ann", "y")]) == ["y"]
        transaction.set_schedule_state(ids[2], "removed", NOW, None, "me")
        assert transaction.taken_names([("ann", "y")]) == []
        assert transaction.schedules_named("y", None) == []
        assert [row.id for row in transaction.schedules(0, "ann", 9)] == [ids[1]]
        assert transaction.schedule(max(ids) + 1) is None


def test_an_edit_is_a_new_revision_and_the_old_one_stays(store: Store) -> None:
    (schedule,) = add_schedules(store, agent="ann")
    with store.transaction(NOW) as transaction:
        transaction.insert_revision(schedule, 2, '{"rev": 2}', NOW + 1)
        transaction.set_schedule_state(schedule, "paused", NOW + 2, "why", "me")
        transaction.replace_cursor(schedule, NOW + 3, None, 2, paused=True)
        name = f"s{schedule}"
        found = sorted(transaction.definitions([(schedule, 1), (schedule, 2), (schedule, 3)]))
        uid = found[0].uid
        assert len(uid) == 16
        assert found == [
            DefinitionRow(schedule, 1, name, "ann", '{"rev": 1}', uid, None, None, None),
            DefinitionRow(schedule, 2, name, "ann", '{"rev": 2}', uid, None, None, None),
        ]
        row = transaction.schedule(schedule)
        assert row == (
            schedule, name, "ann", "paused", 2, '{"rev": 2}', "why", "me", NOW + 2, NOW + 3, None, 0, 0, None, NOW,
            NOW + 2, None, "owner", "owner", None, None, 0, False,
        )  # fmt: skip
        assert transaction.due(NOW + MINUTE, 9) == []


def test_runs_are_found_by_id_request_and_page(store: Store) -> None:
    (schedule,) = add_schedules(store)
    done = [add_run(store, schedule, state=S.FAILED) for _ in range(3)]
    asked = add_run(store, schedule, request_key="k", evidence='{"a": 1}')
    with store.reading() as transaction:
        assert transaction.run_by_request(schedule, "k") == asked
        assert transaction.run_by_request(schedule, "other") is None
        assert [row.id for row in transaction.runs_of(schedule, 1 << 62, 2)] == [asked, done[2]]
        assert [row.id for row in transaction.runs_of(schedule, done[2], 9)] == [done[1], done[0]]
        assert transaction.run(asked) == (
            asked, schedule, f"s{schedule}", "", 1, S.READY, None, "k", 1, None, 0, 0, NOW, NOW, None, None, None,
            '{"a": 1}', None, 0, None, 0, None, None, None, None, None,
        )  # fmt: skip
        assert transaction.run(asked + 1) is None


def test_what_covers_a_slot_and_how_the_run_before_ended(store: Store) -> None:
    one, other = add_schedules(store, 2)
    first = add_run(store, one, slot=NOW, state=S.FAILED)
    add_run(store, one, slot=NOW + MINUTE, state=S.SKIPPED)
    add_run(store, other, slot=NOW + 9 * MINUTE, state=S.SUCCEEDED)
    last = add_run(store, one)
    with store.reading() as transaction:
        assert transaction.covered(one, NOW) == [(NOW, NOW), (NOW + MINUTE, NOW + MINUTE)]
        assert transaction.covered(one, NOW + MINUTE + 1) == []
        assert transaction.previous_state(one, last) == S.FAILED
        assert transaction.previous_state(one, first) is None


def test_a_worker_beats_until_it_is_stopped(store: Store) -> None:
    """H3: whoever declares it dead does so once, and it learns of it with its next beat."""
    with store.transaction(NOW) as transaction:
        worker, other = transaction.insert_worker("one", NOW), transaction.insert_worker("two", NOW)
        first, second = transaction.workers()
        beat = max(
            transaction.heartbeat(worker) or 0 for _ in range(1_000)
        )  # on a server it is the time, in milliseconds
        assert (first.id, first.identity, second.id) == (worker, "one", other)
        assert transaction.workers() == [first._replace(beat=beat), second] != [first, second]
        assert transaction.stop_worker(worker, NOW)
        assert not transaction.stop_worker(worker, NOW)
        assert transaction.heartbeat(worker) is None
        assert transaction.workers() == [second]


def test_figures(store: Store) -> None:
    one, two = add_schedules(store, 2)
    add_run(store, one)
    add_run(store, one, state=S.HELD, owner=1)
    add_run(store, two, state=S.SUCCEEDED)
    with store.transaction(NOW) as transaction:
        transaction.set_schedule_state(two, "paused", NOW, None, None)
        assert list(transaction.counts()) == [1, 1, 0, 1, 1, 0, 0, None, NOW]


def test_s7_the_last_pruning_is_found_without_reading_the_log(
    store: Store, sql: Callable[[str], list[tuple[Any, ...]]]
) -> None:
    """S7: the engine asks each hour, and a log of millions of events may have none"""
    with store.transaction(NOW) as transaction:
        transaction.events.extend([NewEvent(NOW, "run.started", None, None, None)] * 2_000)
        transaction.events.append(NewEvent(NOW, PRUNED, None, None, {"nth": 1}))
        transaction.events.extend([NewEvent(NOW, "run.started", None, None, None)] * 2_000)
    with store.reading() as transaction:
        found = transaction.last_pruning()
    assert found is not None
    assert (found.type, found.data) == (PRUNED, '{"nth":1}')
    if isinstance(store, SqliteStore):
        plan = sql(f"EXPLAIN QUERY PLAN {OF_SQLITE['last_pruning']}")
    else:
        sql("ANALYZE events")
        plan = sql(f"EXPLAIN {OF_POSTGRES['last_pruning'].decode()}")
    assert "events_pruning" in str(plan)
