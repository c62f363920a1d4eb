"""Workers on hosts whose clocks differ go by the database's. Rows H3, H10, V5."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import psycopg
import pytest
from store_records import NOW

from matins import JobContext, Matins, library
from matins.engine.when.triggers import to_datetime, to_ms
from matins.errors import StoreError, StoreUnavailable
from matins.runtime.clock import ClockWatch, SystemClock
from matins.store.postgres.store import DatabaseClock, PostgresStore
from matins.testing import ManualClock, Sandbox

PATIENCE = 60
HOUR_MS = 3_600_000


class Server:
    """A clock that goes with the host's boot time, can be set, and counts how often it is looked at."""

    def __init__(self, host: ManualClock) -> None:
        self.host = host
        self.ahead = NOW - host.boot_ms()
        self.asked = 0
        self.trouble: StoreError | None = None
        self.on_the_way = lambda: None

    def database_time_us(self) -> int:
        self.asked += 1
        if self.trouble is not None:
            raise self.trouble
        self.on_the_way()
        return (self.host.boot_ms() + self.ahead) * 1_000


@pytest.fixture
def host() -> ManualClock:
    return ManualClock("2001-01-01T00:00:00Z", zone="Asia/Tokyo")


@pytest.fixture
def server(host: ManualClock) -> Server:
    return Server(host)


@pytest.fixture
def clock(server: Server, host: ManualClock) -> DatabaseClock:
    return DatabaseClock(server, host)


def test_the_database_says_what_time_it_is(postgres_store: PostgresStore, host: ManualClock) -> None:
    """V5: a host whose clock is wrong agrees with the others; its own boot time carries it from reading to reading."""
    clock = DatabaseClock(postgres_store, host)
    assert abs(clock.now_ms() - SystemClock().now_ms()) < 60_000
    assert (clock.boot_ms(), clock.local_zone()) == (host.boot_ms(), "Asia/Tokyo")


def test_it_is_asked_once_a_second(clock: DatabaseClock, server: Server, host: ManualClock) -> None:
    """V5"""
    host.advance(999)
    assert (clock.now_ms(), server.asked) == (NOW + 999, 1)
    host.advance(1)
    server.ahead -= 50
    assert (clock.now_ms(), clock.now_ms(), server.asked) == (NOW + 950, NOW + 950, 2)
    host.advance(1_000)
    assert (clock.now_ms(), server.asked) == (NOW + 1_950, 3)


def test_what_the_hosts_wall_clock_does_is_nothing_to_it(
    clock: DatabaseClock, server: Server, host: ManualClock
) -> None:
    """V5: it may jump; and a sleep of hours is known before the database is asked again"""
    host.step(HOUR_MS)
    assert clock.now_ms() == NOW
    server.trouble = StoreUnavailable("the network is not up yet")
    host.advance(8 * HOUR_MS)
    assert clock.now_ms() == NOW + 8 * HOUR_MS


@pytest.mark.parametrize("trouble", [StoreUnavailable("away"), StoreError("closed")], ids=["away", "closed"])
def test_the_databases_silence_is_borne(
    clock: DatabaseClock, server: Server, host: ManualClock, trouble: StoreError
) -> None:
    """H10: and it is not asked at every look, since an answer may be long in not coming"""
    server.trouble = trouble
    host.advance(1_000)
    assert (clock.now_ms(), clock.now_ms(), server.asked) == (NOW + 1_000, NOW + 1_000, 2)
    host.advance(4_999)
    assert (clock.now_ms(), server.asked) == (NOW + 5_999, 2)
    server.trouble = None
    server.ahead -= 20
    host.advance(1)
    assert (clock.now_ms(), server.asked) == (NOW + 5_980, 3)


def test_nobody_waits_for_a_reading_of_somebody_else(clock: DatabaseClock, server: Server, host: ManualClock) -> None:
    """H10"""
    asked, answer, said = threading.Event(), threading.Event(), list[int]()

    def stand() -> None:
        asked.set()
        assert answer.wait(PATIENCE)

    server.on_the_way = stand
    host.advance(1_000)
    reader = threading.Thread(target=lambda: said.append(clock.now_ms()))
    reader.start()
    assert asked.wait(PATIENCE)
    server.ahead -= 50
    assert (clock.now_ms(), server.asked) == (NOW + 1_000, 2)
    answer.set()
    reader.join()
    assert said == [NOW + 950]


def test_a_database_that_hangs_stops_nobody(clock: DatabaseClock, server: Server, host: ManualClock) -> None:
    """S2: the reader goes on with the offset that it has, and does not ask again until there is an answer."""
    hangs, asked = threading.Event(), threading.Event()

    def wait() -> None:
        asked.set()
        hangs.wait(PATIENCE)

    before = clock.now_ms()
    server.on_the_way = wait
    host.advance(1_000)
    assert clock.now_ms() == before + 1_000  # it returns while the database hangs
    assert asked.is_set()
    host.advance(10_000)
    count = server.asked
    assert [clock.now_ms() - before, server.asked] == [11_000, count]
    server.on_the_way, server.ahead = lambda: None, server.ahead + 100
    hangs.set()
    with clock._reading:
        pass
    host.advance(10_000)
    assert before + 21_099 <= clock.now_ms() <= before + 21_100  # the offset moves no further than it must


class ServersClock(ManualClock):
    """A clock that is moved by hand, of a database server that can be set."""

    def __init__(self) -> None:
        super().__init__()
        self.server = Server(self)
        self.server.ahead = self._now - self._boot
        self.database = DatabaseClock(self.server, self)

    def now_ms(self) -> int:
        return self.database.now_ms()


def test_b1_the_servers_clock_leaps_a_day_ahead_for_two_seconds(postgres_url: str) -> None:
    """B1, H2: when it is right again, what is due is due, and every slot has run once"""
    clock = ServersClock()
    with closing(Sandbox(postgres_url, clock=clock)) as bench:
        bench.job("work")(lambda run: None)
        start = clock.now_ms() // 3_600_000 * 3_600_000 + 3_600_000
        bench.run_until(start)
        bench.add("s", when="*/5 * * * *", job="work")
        bench.run_until(start + 300_000)
        clock.server.ahead += 24 * HOUR_MS
        for _ in range(2):
            clock.advance(1_000)
            bench.settle()
        clock.server.ahead -= 24 * HOUR_MS
        for _ in range(2):
            clock.advance(1_000)
            bench.settle()
        bench.run_until(start + 30 * 60_000)
        ran = [to_ms(run.slot) - start for run in bench.assert_ran("s") if run.slot is not None]
        near = sorted(slot // 60_000 for slot in ran if slot <= 30 * 60_000)
        assert near == [5, 10, 15, 20, 25, 30]
        assert len(bench.events.list(types="run.withdrawn")) >= 1


def test_an_answer_that_took_long_moves_nothing_that_it_cannot_prove_wrong(
    clock: DatabaseClock, server: Server, host: ManualClock
) -> None:
    """V5: or a loaded machine would see time jump to and fro"""
    host.advance(1_000)
    server.on_the_way = lambda: host.advance(3_000)  # the whole way there: half of it would be 1.5 s wrong
    assert clock.now_ms() == NOW + 4_000
    server.ahead -= 10_000
    server.on_the_way = lambda: None
    host.advance(1_000)
    assert clock.now_ms() == NOW - 5_000


@pytest.mark.parametrize("by", [-5_000, -2 * HOUR_MS], ids=["seconds", "hours"])
def test_a_server_whose_clock_is_behind_takes_over(
    clock: DatabaseClock, server: Server, host: ManualClock, by: int
) -> None:
    """V5: the engine plans anew, as for any step back"""
    keeper = ClockWatch(clock.now_ms(), clock.boot_ms())
    server.ahead += by
    host.advance(1_000)
    assert keeper.check(clock.now_ms(), clock.boot_ms()) == "back"
    assert keeper.check(clock.now_ms(), clock.boot_ms()) == "steady"


@pytest.mark.parametrize("stays", [True, False])
def test_a_leap_forward_is_believed_when_a_second_reading_has_it_too(
    clock: DatabaseClock, server: Server, host: ManualClock, stays: bool
) -> None:
    """V5: the engine looks again within a second, which must not be the same reading"""
    keeper = ClockWatch(clock.now_ms(), clock.boot_ms())
    server.ahead += 2 * HOUR_MS
    host.advance(1_000)
    assert keeper.check(clock.now_ms(), clock.boot_ms()) == "wait"
    if not stays:
        server.ahead -= 2 * HOUR_MS
    host.advance(250)
    assert keeper.check(clock.now_ms(), clock.boot_ms()) == ("steady" if stays else "back")
    assert clock.now_ms() // 1_000 == (NOW + 1_250 + (2 * HOUR_MS if stays else 0)) // 1_000


class FineClock(ManualClock):
    """A host whose clocks have microseconds."""

    us = 0

    def now_us(self) -> int:
        return super().now_us() + self.us

    def boot_us(self) -> int:
        return super().boot_us() + self.us


@pytest.mark.parametrize(
    ("ahead_us", "seen_us"), [(-300, -300), (300, 0), (9_999, 0), (20_000, 20_000), (-20_000, -20_000)]
)
def test_v5_it_is_not_ahead_of_a_host_whose_clock_shows_the_same_time(ahead_us: int, seen_us: int) -> None:
    """V5: and where the two differ by more, the server's counts alone."""
    host = FineClock(NOW)
    host.us = 400

    class FineServer(Server):
        def database_time_us(self) -> int:
            return host.now_us() + ahead_us

    clock = DatabaseClock(FineServer(host), host)
    assert clock.now_us() - host.now_us() == seen_us
    assert clock.now_ms() == (NOW * 1_000 + 400 + seen_us) // 1_000


# -- the scheduler


class Astray(SystemClock):
    """The clock of a host on which nobody keeps it."""

    by = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.by

    def now_us(self) -> int:
        return super().now_us() + self.by * 1_000


@pytest.fixture
def on_host(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], Matins]]:
    """A Matins on a host whose clock is so much wrong."""
    made: list[Matins] = []

    def make(by: int) -> Matins:
        monkeypatch.setattr(library, "SystemClock", type("Astray", (Astray,), {"by": by}))
        made.append(Matins(postgres_url))
        return made[-1]

    yield make
    for matins in made:
        matins.close()


def at(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


def database_time(matins: Matins) -> int:
    store: Any = matins.store
    return store.database_time_us() // 1_000


@pytest.mark.parametrize("by", [-HOUR_MS, HOUR_MS], ids=["behind", "ahead"])
def test_a_host_whose_clock_is_an_hour_wrong(on_host: Callable[[int], Matins], by: int) -> None:
    """V5 H3: what is due by the database's clock fires, and nothing else"""
    matins, fired = on_host(by), threading.Event()
    matins.job("work")(lambda run: fired.set())
    now = database_time(matins)
    matins.add("soon", when=at(now + 300), job="work")
    matins.add("later", when=at(now + HOUR_MS // 2), job="work")
    with matins:
        assert fired.wait(PATIENCE)
    (run,) = matins.runs.list(schedule="soon")
    assert run.slot == to_datetime(now + 300)
    assert abs(to_ms(run.planned_at) - now) < HOUR_MS // 2
    assert matins.runs.list(schedule="later") == []


def test_hosts_whose_clocks_are_hours_apart_fire_a_slot_once(on_host: Callable[[int], Matins]) -> None:
    """H3 V5"""
    fired = threading.Semaphore(0)
    hosts = [on_host(-HOUR_MS), on_host(HOUR_MS)]
    for matins in hosts:
        matins.job("work")(lambda run: fired.release())
        assert abs(matins.clock.now_ms() - database_time(matins)) < HOUR_MS // 2
    now = database_time(hosts[0])
    slots = range(now + 300, now + 500, 10)
    hosts[0].add_many([{"name": f"at {slot}", "when": at(slot), "job": "work"} for slot in slots])
    hosts[1].add("later", when=at(now + HOUR_MS // 2), job="work")
    with hosts[0], hosts[1]:
        for _ in slots:
            assert fired.acquire(timeout=PATIENCE)
    assert not fired.acquire(blocking=False)
    found = [[run.slot for run in hosts[0].runs.list(schedule=f"at {slot}")] for slot in slots]
    assert found == [[to_datetime(slot)] for slot in slots]
    assert hosts[0].runs.list(schedule="later") == []


def test_b18_a_node_whose_clock_is_ahead_takes_its_share(on_host: Callable[[int], Matins]) -> None:
    """B18: ten minutes, and the other node is right"""
    fired, took = threading.Semaphore(0), Counter[int]()
    hosts = [on_host(0), on_host(600_000)]
    for number, matins in enumerate(hosts):

        def work(run: JobContext, number: int = number) -> None:
            took[number] += 1
            fired.release()

        matins.job("work")(work)
    now = database_time(hosts[0])
    slots = range(now + 500, now + 500 + 60 * 40, 40)
    hosts[0].add_many([{"name": f"at {slot}", "when": at(slot), "job": "work"} for slot in slots])
    with hosts[0], hosts[1]:
        for _ in slots:
            assert fired.acquire(timeout=PATIENCE)
    assert took.total() == len(slots)
    assert min(took.values()) >= 5
    assert len(took) == 2


def test_a_clock_that_is_given_counts(postgres_url: str) -> None:
    """V5"""
    clock = ManualClock("2030-01-01T00:00:00Z")
    matins = Matins(postgres_url, clock=clock)
    assert matins.clock is clock
    matins.close()


def test_a_database_that_goes_away_at_the_first_look_at_its_clock(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H10: the error is the usual one, and no connection stays behind"""

    def away(store: PostgresStore) -> int:
        raise StoreUnavailable("away")

    monkeypatch.setattr(PostgresStore, "database_time_us", away)
    with pytest.raises(StoreUnavailable, match="away"):
        Matins(postgres_url)
    mine = "application_name = current_setting('application_name') AND pid <> pg_backend_pid()"
    with psycopg.connect(postgres_url) as connection:
        for _ in range(600):  # the server notices in its own time
            left = connection.execute(f"SELECT pg_sleep(0.05), count(*) FROM pg_stat_activity WHERE {mine}").fetchone()
            if left is not None and left[1] == 0:
                return
    pytest.fail("a connection is left")


def test_a_database_that_is_not_there(tmp_path: Path) -> None:
    """H10"""
    with pytest.raises(StoreUnavailable, match="does not answer"):
        Matins(f"postgresql://me@/db?host={tmp_path}")


def test_v5_no_job_begins_before_its_slot(postgres_url: str) -> None:
    """V5, B1: not by a fraction of a millisecond, by the clock that the job itself reads."""
    began: SimpleQueue[int] = SimpleQueue()
    fires = 100
    with closing(Matins(postgres_url)) as matins:

        @matins.job("look")
        def _(run: JobContext) -> None:
            began.put(time.time_ns() // 1_000 - to_ms(run.slot) * 1_000)

        first = matins.clock.now_ms() + 1_500
        slots = range(first, first + 15 * fires, 15)
        matins.add_many([{"name": f"at {slot}", "when": at(slot), "job": "look"} for slot in slots])
        with matins:
            lateness_us = [began.get(timeout=PATIENCE) for _ in slots]
    assert min(lateness_us) >= 0
