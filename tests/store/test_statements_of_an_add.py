"""PostgreSQL: statements that nobody waits for go out together, in a pipeline of psycopg. Rows H2, H10."""

from __future__ import annotations

import contextlib
import logging
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from pgbouncer import pgbouncer
from store_records import NOW, add_schedules, found_faults, page_of_events, say

from matins import Matins
from matins.errors import Conflict, StoreUnavailable
from matins.model.rows import NewEvent, NewSchedule
from matins.store.postgres import session
from matins.store.postgres.session import SQL, Session
from matins.store.postgres.store import PostgresStore

NAMES = {text: name for name, text in SQL.items()}
MINE = "application_name = current_setting('application_name') AND pid <> pg_backend_pid()"
DAILY: dict[str, Any] = {"when": "0 9 * * *", "job": "work"}


@pytest.fixture
def store(postgres_store: PostgresStore) -> PostgresStore:
    return postgres_store


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The statements of each round trip."""
    found: list[list[str]] = []
    execute, together = psycopg.Cursor.execute, Session.execute
    inside = threading.local()

    def executed(cursor: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        name = NAMES.get(query, query.decode() if isinstance(query, bytes) else str(query)).partition(" matins_")[0]
        if getattr(inside, "trip", None) is None:
            found.append([name])
        else:
            inside.trip.append(name)
        return execute(cursor, query, *arguments, **options)

    def sent(session: Session, statements: Any, **options: Any) -> None:
        inside.trip = list[str]()
        found.append(inside.trip)
        try:
            together(session, statements, **options)
        finally:
            inside.trip = None

    monkeypatch.setattr(psycopg.Cursor, "execute", executed)
    monkeypatch.setattr(Session, "execute", sent)
    return found


@pytest.fixture
def matins(postgres_url: str) -> Iterator[Matins]:
    with contextlib.closing(Matins(postgres_url)) as made:
        made.job("work")(lambda run: None)
        made.add("first", **DAILY)
        yield made


def test_an_add_takes_three_round_trips(matins: Matins, trips: list[list[str]]) -> None:
    """It took sixteen."""
    matins.add("s", **DAILY)
    assert trips == [
        ["policy_rev"],
        ["BEGIN", "schedule_ids"],
        ["insert_schedules", "insert_events", "COMMIT", "NOTIFY"],
    ]
    trips.clear()
    matins.add("t", **DAILY, timezone="Europe/London")
    assert trips[2] == ["insert_schedules", "note_zone", "insert_events", "COMMIT", "NOTIFY"]


def test_a_transaction_that_asks_nothing_sends_nothing(store: PostgresStore, trips: list[list[str]]) -> None:
    for _ in range(2):
        trips.clear()
        with store.transaction(NOW):
            pass
        with store.reading():
            pass
    assert trips == []


def test_p8_a_taken_name_is_named(matins: Matins) -> None:
    """P8: by the unique index, also among many, with the agent's own names, and in a transaction of the caller"""
    matins.agents.set("scout", runner="demo")
    matins.add("x, y", agent="scout", **DAILY)
    before = page_of_events(matins.store)
    many = [{"name": f"s{n}", **DAILY} for n in range(5)]
    taken = {"name": "first", **DAILY}
    for name, given in (
        ("first", [taken]),
        ("first", [*many, taken]),
        ("x, y", [*many, {"name": "x, y", "agent": "scout", **DAILY}, {"name": "x, y", **DAILY}]),
    ):
        with pytest.raises(Conflict, match=f'There is a schedule "{name}" already') as caught:
            matins.add_many(given)
        assert (caught.value.field, caught.value.value) == ("name", name)
    assert page_of_events(matins.store) == before
    assert matins.add_many(many) != []
    assert found_faults(matins.store) == []


def test_p8_a_taken_name_in_a_transaction_of_the_caller(matins: Matins, postgres_url: str) -> None:
    """P8: the caller's transaction goes on"""
    with psycopg.connect(postgres_url) as connection:
        matins.add("s", **DAILY, connection=connection)
        with pytest.raises(Conflict, match='There is a schedule "first" already'):
            matins.add("first", **DAILY, connection=connection)
        matins.add("t", **DAILY, connection=connection)
    assert {one.name for one in matins.list()} == {"first", "s", "t"}
    assert found_faults(matins.store) == []


def test_p8_a_part_of_a_joined_transaction_that_fails_is_undone_alone(store: PostgresStore) -> None:
    """P8: a request with an idempotency key keeps its answer also when it fails"""
    add_schedules(store)
    with store.join(lambda transaction: None):
        with pytest.raises(Conflict, match='There is a schedule "s1" already'), store.transaction(NOW) as part:
            part.insert_schedules([NewSchedule(7, "", "s1", "{}", NOW, NOW)], NOW)
        with store.transaction(NOW) as part:
            part.insert_schedules([NewSchedule(8, "", "s8", "{}", NOW, NOW)], NOW)
    with store.reading() as transaction:
        assert [row.name for row in transaction.schedules(0, None, 9)] == ["s1", "s8"]


def test_what_was_not_sent_is_undone_with_its_part(store: PostgresStore) -> None:
    """And not sent before: it may fail"""
    (taken,) = add_schedules(store)

    def half() -> None:
        with store.transaction(NOW) as part:
            part.insert_schedules([NewSchedule(7, "", "s1", "{}", NOW, NOW)], NOW)
            raise ZeroDivisionError

    with store.join(lambda transaction: None):
        with pytest.raises(ZeroDivisionError):
            half()
        with store.transaction(NOW) as part:
            assert [row.id for row in part.schedules(0, None, 9)] == [taken]


def test_the_first_error_of_several_statements_is_told(store: PostgresStore, caplog: pytest.LogCaptureFixture) -> None:
    """And not that the rest was not executed, nor an error that the caller is handling; psycopg logs nothing"""

    def nameless() -> None:
        with store.transaction(NOW) as transaction:
            transaction.insert_schedules([NewSchedule(7, "", None, "{}", NOW, NOW)], NOW)  # type: ignore[arg-type]
            for number in range(9):
                transaction.note_zone("UTC", str(number), bytes(99_999))
            transaction.policy_rev()

    for _ in range(9):
        with pytest.raises(psycopg.errors.NotNullViolation):
            nameless()
    try:
        raise psycopg.DataError("another")
    except psycopg.DataError:
        with pytest.raises(psycopg.errors.NotNullViolation):
            nameless()
    say(store, "after")
    assert [event.type for event in page_of_events(store)] == ["after"]
    assert caplog.records == []


@pytest.mark.parametrize("joined", [False, True])
def test_h10_statements_of_a_trip_that_failed_are_prepared_again(store: PostgresStore, joined: bool) -> None:
    """H10: psycopg counts them as prepared when they were to be"""

    def conflict(number: int) -> None:
        with store.transaction(NOW) as transaction:
            transaction.insert_schedules([NewSchedule(100 + number, "", "s1", "{}", NOW, NOW)], NOW)
            transaction.note_zone("UTC", "digest", b"data")

    add_schedules(store)
    for number in range(20):
        with store.join(lambda transaction: None) if joined else contextlib.nullcontext():
            with pytest.raises(Conflict):
                conflict(number)
            with store.transaction(NOW) as transaction:
                transaction.note_zone("UTC", f"digest {number}", b"data")
        say(store, "something")
    with store.reading() as transaction:
        assert len(transaction.zone_versions()) == 20
    assert found_faults(store) == []


def test_h10_a_trip_that_is_not_answered_says_so(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """H10: and not what the caller is handling, nor that psycopg cannot end it"""
    end_all(store)  # the first connection keeps its own patience
    monkeypatch.setattr(session.Connection, "answer_s", 0.2)
    try:
        raise psycopg.DataError("another")
    except psycopg.DataError:
        with (
            pytest.raises(StoreUnavailable, match="wait timeout expired"),
            store.transaction(NOW) as transaction,
        ):
            transaction.execute("SELECT pg_sleep(1)")
    monkeypatch.undo()
    say(store, "after")


def end_backends(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity WHERE {MINE}")


@pytest.mark.parametrize("reads", [True, False])
def test_h10_a_connection_that_is_lost_with_the_first_statement_is_replaced(
    store: PostgresStore, postgres_url: str, reads: bool
) -> None:
    """H10: nothing was done yet, so it is asked again; later it is not"""
    (schedule,) = add_schedules(store)

    def lost(times: int) -> list[int]:
        with store.reading() if reads else store.transaction(NOW) as transaction:
            for _ in range(times):
                end_backends(postgres_url)
                found = [row.id for row in transaction.schedules(0, None, 9)]
        return found

    assert lost(1) == [schedule]
    with pytest.raises(StoreUnavailable):
        lost(2)
    say(store, "after")
    assert found_faults(store) == []


def test_h10_a_commit_in_doubt_is_not_repeated(store: PostgresStore, postgres_url: str, trips: list[list[str]]) -> None:
    """H10: all of it was sent in one round trip with its commit, which may have happened"""

    def note() -> None:
        with store.transaction(NOW) as transaction:
            transaction.note_zone("UTC", "digest", b"data")
            end_backends(postgres_url)
            trips.clear()

    say(store, "first")
    with pytest.raises(StoreUnavailable):
        note()
    assert sum("BEGIN" in trip for trip in trips) == 1
    with store.reading() as transaction:
        assert transaction.zone_versions() == []


def test_h3_an_add_notifies_other_processes(matins: Matins, postgres_url: str) -> None:
    """H3: when it is committed, and only then"""
    woken = threading.Semaphore(0)
    with contextlib.closing(PostgresStore(postgres_url, NOW)) as other:
        other.listen(woken.release)
        assert woken.acquire(timeout=90)
        matins.add("s", **DAILY)
        assert woken.acquire(timeout=90)
        matins.add_many([{"name": "t", **DAILY}])
        assert woken.acquire(timeout=90)
        with psycopg.connect(postgres_url) as connection:
            matins.add("u", **DAILY, connection=connection)
        assert woken.acquire(timeout=90)
        with pytest.raises(Conflict):
            matins.add("s", **DAILY)
        matins.add("v", **DAILY)
        assert woken.acquire(timeout=90)
        assert not woken.acquire(blocking=False)


def test_an_add_whose_notification_fails_is_there(
    matins: Matins, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It was committed before: an error would have the caller add it again"""
    monkeypatch.setattr(matins.store, "_notify", b"NOTIFY nobody, '" + b"x" * 9_000 + b"'")
    with caplog.at_level(logging.WARNING, "matins"):
        assert matins.add("s", **DAILY).name == "s"
    assert "not immediately" in caplog.text
    monkeypatch.undo()
    matins.add("t", **DAILY)
    assert len(matins.list()) == 3
    assert found_faults(matins.store) == []


def test_h10_a_bulk_goes_in_portions(store: PostgresStore, trips: list[list[str]]) -> None:
    """H10: no statement takes so much that it reaches the limit of the server"""

    def rows(count: int, length: int) -> list[NewSchedule]:
        with store.transaction(NOW) as transaction:
            ids = list(transaction.schedule_ids(count))
        return [NewSchedule(i, "", f"s{i}", f'"{"x" * length}"', NOW, NOW) for i in ids]

    many, large = rows(4_001, 2), rows(10, 3_000_000)
    trips.clear()
    with store.transaction(NOW) as transaction:
        transaction.insert_schedules(many, NOW)
    assert [trip.count("insert_schedules") for trip in trips] == [1, 1, 1]
    trips.clear()
    with store.transaction(NOW) as transaction:
        transaction.insert_schedules(large, NOW)
    assert [trip.count("insert_schedules") for trip in trips] == [1, 1, 1, 1]
    with store.reading() as transaction:
        assert len(transaction.schedules(0, None, 9_999)) == 4_011


def test_events_have_the_order_of_their_chain_whatever_way_they_are_written(store: PostgresStore) -> None:
    """S7: a few are inserted, many are copied"""
    for count in (1, 3, 200, 2):
        with store.transaction(NOW) as transaction:
            transaction.insert_worker("has a number", NOW)
            for n in range(count):
                transaction.events.append(NewEvent(NOW, f"e{n}", None, None, {"a": "ü"}))
    events = page_of_events(store)
    assert [event.type for event in events] == [f"e{n}" for count in (1, 3, 200, 2) for n in range(count)]
    assert found_faults(store) == []
    assert store.last_head is not None
    assert store.last_head.event_id == events[-1].id


def test_h10_without_pipelines_it_is_the_same(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """H10: an old libpq has none"""
    monkeypatch.setattr(session.psycopg.Pipeline, "is_supported", lambda: False)
    end_all(store)
    add_schedules(store, 2)
    with pytest.raises(Conflict, match='"s1"'), store.transaction(NOW) as transaction:
        transaction.insert_schedules([NewSchedule(7, "", "s1", "{}", NOW, NOW)], NOW)
    say(store, "after")
    assert found_faults(store) == []


def end_all(store: PostgresStore) -> None:
    while store.pool._idle:
        store.pool._idle.pop().close()


def test_h10_pipelines_work_behind_a_pooler(postgres_server: str) -> None:
    """H10: PgBouncer with a session for each connection; statements are prepared in the pipeline"""
    schema = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_server, autocommit=True) as connection, pgbouncer(postgres_server, "session") as url:
        connection.execute(f"CREATE SCHEMA {schema}")
        with contextlib.closing(Matins(f"{url}&options=-csearch_path%3D{schema}")) as matins:
            matins.job("work")(lambda run: None)
            for nth in range(12):
                matins.add(f"s{nth}", **DAILY, timezone="Europe/London", payload={"nth": nth})
                with pytest.raises(Conflict, match=f'There is a schedule "s{nth}" already'):
                    matins.add(f"s{nth}", **DAILY)
            matins.add_many([{"name": f"t{nth}", **DAILY} for nth in range(100)])
            assert len(matins.list(limit=1_000)) == 112
            assert found_faults(matins.store) == []
        connection.execute("SET client_min_messages = warning")
        connection.execute(f"DROP SCHEMA {schema} CASCADE")


def test_h10_a_bulk_reaches_the_server_in_portions(
    matins: Matins, trips: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """H10 B8: the server hears of each portion before the next one is prepared, and of all of them or none"""
    monkeypatch.setattr("matins.service.schedule_changes._PORTION", 20)
    monkeypatch.setattr("matins.store.postgres.transaction._MAX_ROWS", 30)
    many = [{"name": f"s{nth}", **DAILY, "payload": nth} for nth in range(70)]
    with pytest.raises(Conflict, match='"s3" is given twice'):
        matins.add_many([*many, many[3]])
    with pytest.raises(Conflict, match='"first"'):
        matins.add_many([*many, {"name": "first", **DAILY}])
    trips.clear()
    ids = matins.add_many(many)
    assert [name for trip in trips for name in trip].count("insert_schedules") == 4
    assert [matins.get(f"s{nth}").id for nth in (0, 19, 20, 69)] == [ids[nth] for nth in (0, 19, 20, 69)]
    assert matins.audit.verify().problems == []
    assert matins.counts().all == 71
