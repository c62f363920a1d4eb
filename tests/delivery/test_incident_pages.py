"""A page of events costs what it changes, and not statements for each event; fires get their turn between pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from outbox_recorder import deliver

import postgres_fixtures
from matins.model.rows import NewEvent
from matins.store._rows import IncidentRows
from matins.testing import ManualClock, Sandbox

Said = tuple[str, str | None]
_PAGE = 50
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


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The calls of the store's incidents, each of which is one statement."""
    counts: Counter[str] = Counter()
    for name in ("open_incidents", "opened_since", "insert_incident", "update_incident", "sent_since"):
        real = getattr(IncidentRows, name)

        def counted(self: Any, *values: Any, real: Any = real, name: str = name) -> Any:
            counts[name] += 1
            return real(self, *values)

        monkeypatch.setattr(IncidentRows, name, counted)
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
    assert [asked[name] for name in ("opened_since", "sent_since", "insert_incident", "update_incident")] == [
        1,
        1,
        5,
        0,
    ]
    with bench.store.reading() as transaction:
        assert [row.told for row in reversed(transaction.incidents(None, 1 << 60, 9))] == [1, 1, 1, 0, 0]


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
