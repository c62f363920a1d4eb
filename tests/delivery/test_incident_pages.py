"""A page of events costs what it changes, and not statements for each event; fires get their turn between pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from outbox_recorder import deliver

import postgres_fixtures
from matins.model.rows import NewEvent
from matins.store.postgres.transaction import PostgresTransaction
from matins.store.sqlite.transaction import SqliteTransaction
from matins.store.transaction import Transaction
from matins.testing import ManualClock, Sandbox

Said = tuple[str, str | None]
_PAGE = 100
"""Events that one transaction takes up."""


postgres_server, postgres_url = postgres_fixtures.postgres_server, postgres_fixtures.postgres_url
url = postgres_fixtures.kept_url


@pytest.fixture
def bench(url: str) -> Iterator[Sandbox]:
    found = Sandbox(url, clock=ManualClock("2026-03-27T08:00:00Z"))
    found.destinations.set("ops", kind="webhook", url="http://127.0.0.1:9/nobody")
    found.outbox._senders = {}
    yield found
    found.close()


_NAMES = {"copy_incidents": "insert_incident", "update_incidents": "update_incident", "copy_notices": "insert_notice"}
"""How PostgreSQL calls statements on many rows that SQLite has for one."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The statements, by name. One that writes many rows counts once, and without rows it is none."""
    counts: Counter[str] = Counter()

    def count(kind: type[Transaction], method: str) -> None:
        real = getattr(kind, method)

        def counted(self: Any, query: str, /, *values: Any, **named: Any) -> Any:
            if not values or values[-1]:
                counts[_NAMES.get(query, query)] += 1
            return real(self, query, *values, **named)

        monkeypatch.setattr(kind, method, counted)

    for kind, many in ((SqliteTransaction, "_many"), (PostgresTransaction, "_copy")):
        count(kind, "_all")
        count(kind, many)
    return counts


def _happened(bench: Sandbox, *said: Said) -> None:
    """Events of one schedule, in one transaction, and a turn of the outbox."""
    if not bench.list():
        bench.job("work")(lambda run: None)
        bench.add("nightly", when="0 0 1 1 *", job="work")
    schedule, now = int(bench.get("nightly").id), bench.clock.now_ms()
    with bench.store.transaction(now) as transaction:
        for kind, error in said:
            data = None if error is None else {"epoch": 1, "reason": "failed", "error": error}
            transaction.events.append(NewEvent(now, kind, schedule, None, data))
    deliver(bench)


def _incidents(bench: Sandbox) -> list[tuple[str | None, int, str]]:
    with bench.store.reading() as transaction:
        rows = transaction.incidents(None, 1 << 60, 100)
    return [(row.error, row.times, row.state) for row in reversed(rows)]


def test_a_page_of_equal_failures_is_one_look_and_one_change(bench: Sandbox, asked: Counter[str]) -> None:
    """B17"""
    _happened(bench, ("run.failed", "no disk"))
    assert (asked["insert_incident"], asked["update_incident"]) == (1, 0)
    asked.clear()
    _happened(bench, *[("run.failed", "no disk")] * (_PAGE - 10))
    assert _incidents(bench) == [("no disk", _PAGE - 9, "open")]
    assert asked["update_incident"] == 1
    assert asked["open_incidents"] <= 2  # of this page, and of the events that came of it
    assert asked["opened_since"] == 0


def test_a_page_asks_once_however_many_errors_it_has(bench: Sandbox, asked: Counter[str]) -> None:
    """B17: three are told in an hour, also when all come at once"""
    words = ("apple", "pear", "plum", "fig", "lime")
    _happened(bench, *[("run.failed", word) for word in words])
    assert _incidents(bench) == [(word, 1, "open") for word in words]
    names = ("opened_since", "sent_since", "incident_ids", "insert_incident", "update_incident")
    assert [asked[name] for name in names] == [1, 1, 1, 1, 0]
    with bench.store.reading() as transaction:
        assert [row.told for row in reversed(transaction.incidents(None, 1 << 60, 9))] == [1, 1, 1, 0, 0]


def test_many_schedules_that_fail_at_once_take_the_statements_of_one(bench: Sandbox, asked: Counter[str]) -> None:
    """B17: their incidents, their messages and the reminders of all"""
    bench.job("work")(lambda run: None)
    bench.add_many([{"name": f"s{n}", "when": "0 0 1 1 *", "job": "work"} for n in range(_PAGE)])
    ids = [int(bench.get(f"s{n}").id) for n in range(_PAGE)]
    bench.destinations.edit("ops", max_per_hour=1_000)
    deliver(bench)
    taken: list[Counter[str]] = []
    for some in (ids[:1], ids[1:]):
        now = bench.clock.now_ms()
        with bench.store.transaction(now) as transaction:
            data = {"epoch": 1, "reason": "failed", "error": "no disk"}
            transaction.events.extend([NewEvent(now, "run.failed", schedule, None, data) for schedule in some])
        asked.clear()
        bench.outbox.run_once(now, lambda: True)
        taken.append(asked.copy())
        deliver(bench)
    assert taken[0]["insert_incident"] == 1
    for copying in ("first_event_id", "copy_events"):  # PostgreSQL copies many events, and inserts few
        taken[1].pop(copying, None)
    assert taken[1] == taken[0]
    assert len(_incidents(bench)) == len(bench.events.list(types=["incident.opened"], limit=100)) == _PAGE
    bench.clock.advance(3_600_000)
    asked.clear()
    bench.outbox.run_once(bench.clock.now_ms(), lambda: True)
    assert (asked["update_incident"], asked["insert_notice"], asked["schedules_with"]) == (1, 0, 0)


def test_the_events_of_a_window_are_read_once(bench: Sandbox, asked: Counter[str]) -> None:
    """S8: page by page they are taken up, and none is looked for again"""
    _happened(bench)
    schedule, now = int(bench.get("nightly").id), bench.clock.now_ms()
    with bench.store.transaction(now) as transaction:
        data = {"epoch": 1, "reason": "failed", "error": "no disk"}
        transaction.events.extend([NewEvent(now, "run.failed", schedule, None, data)] * (5 * _PAGE))
    asked.clear()
    for _ in range(5):
        bench.outbox.run_once(now, lambda: True)
    assert _incidents(bench) == [("no disk", 5 * _PAGE, "open")]
    assert asked["incident_events"] == 1


def test_the_share_of_a_destination_holds_within_a_page(bench: Sandbox) -> None:
    """B17"""
    bench.destinations.edit("ops", max_per_hour=2)
    _happened(bench, *[("run.failed", word) for word in ("apple", "pear", "plum")])
    told = [event.data["to"] for event in bench.events.list(types=["incident.opened"])]
    assert sorted(told) == [[], ["ops"], ["ops"]]


def test_what_ends_in_a_page_may_begin_again_in_it(bench: Sandbox) -> None:
    """B17: open incidents are unique, so the end is written before the next begins"""
    fails: Said = ("run.failed", "no disk")
    _happened(bench, fails, fails, ("run.succeeded", None), fails)
    assert _incidents(bench) == [("no disk", 2, "resolved"), ("no disk", 1, "open")]
    _happened(bench, ("run.succeeded", None), fails)
    assert _incidents(bench)[1:] == [("no disk", 1, "resolved"), ("no disk", 1, "open")]
    told = [event.data["incident"] for event in bench.events.list(types=["incident.opened"])]
    assert told == [incident.id for incident in bench.incidents.list(all=True)][::-1] == ["1", "2", "3"]


def test_the_outbox_rests_after_a_page_that_only_incidents_want(bench: Sandbox) -> None:
    """S8: fires get their turn between pages, and listeners do not wait"""
    rests: list[float] = []
    _happened(bench)
    schedule, now = int(bench.get("nightly").id), bench.clock.now_ms()

    def fail(times: int) -> None:
        with bench.store.transaction(now) as transaction:
            data = {"epoch": 1, "reason": "failed", "error": "no disk"}
            transaction.events.extend([NewEvent(now, "run.failed", schedule, None, data)] * times)

    fail(3 * _PAGE)
    bench.destinations.delete("ops")
    deliver(bench)  # the list of subscribers is read again
    fail(3 * _PAGE)
    bench.outbox.run_once(now, rest=rests.append)
    assert len(rests) >= 3
    assert all(rest >= 0.004 for rest in rests), "four times as long as a page, which took a millisecond at most"
    rests.clear()
    heard: list[Any] = []
    bench.outbox.subscribe(heard.append, ("run.failed",))
    fail(_PAGE)
    bench.outbox.run_once(now, lambda: bool(heard), rests.append)
    assert (len(heard) > 0, rests) == (True, [])


def test_a_stop_is_heard_between_pages(bench: Sandbox) -> None:
    """S8"""
    _happened(bench)
    schedule, now = int(bench.get("nightly").id), bench.clock.now_ms()
    with bench.store.transaction(now) as transaction:
        data = {"epoch": 1, "reason": "failed", "error": "no disk"}
        transaction.events.extend([NewEvent(now, "run.failed", schedule, None, data)] * (10 * _PAGE))
    bench.outbox.run_once(now, lambda: True)
    assert _incidents(bench) == [("no disk", _PAGE, "open")]
