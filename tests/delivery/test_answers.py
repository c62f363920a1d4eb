"""Answers of runs: who gets them, that they arrive once, and what is told of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from letterbox import Killed, Letterbox, away, installed, killed, lost
from outbox_recorder import HOUR, deliver, let_pass

import postgres_fixtures
from matins.errors import InvalidInput
from matins.testing import ManualClock, Sandbox

START = "2026-03-27T08:00:00Z"
postgres_server = postgres_fixtures.postgres_server
postgres_url = postgres_fixtures.postgres_url
Open = Callable[[], Sandbox]


@pytest.fixture
def box(monkeypatch: pytest.MonkeyPatch) -> Letterbox:
    """A channel that cannot tell a repetition."""
    return installed(monkeypatch, keyed=False)


@pytest.fixture
def keyed_box(monkeypatch: pytest.MonkeyPatch) -> Letterbox:
    return installed(monkeypatch, keyed=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path_factory.mktemp('store')}/m.db"


@pytest.fixture
def open_store(url: str) -> Iterator[Open]:
    """A bench on the store; the one before is dropped as a crash would drop it."""
    opened: list[Sandbox] = []

    def open_again() -> Sandbox:
        clock = opened[-1].clock if opened else ManualClock(START)
        if opened:
            opened[-1].close()
        made = Sandbox(url, clock=clock)
        made.job("report")(lambda run: "all is well")
        made.job("long")(lambda run: "one\n---\ntwo\n---\nthree")
        opened.append(made)
        return made

    yield open_again
    opened[-1].close()


def with_schedule(bench: Sandbox, job: str = "report", **settings: object) -> Sandbox:
    bench.destinations.set("post", kind="letterbox", to=["me"])
    bench.add("morning", when="0 9 * * *", job=job, deliver=["post"], **settings)
    return bench


def states(bench: Sandbox) -> list[str]:
    (run,) = bench.runs.list(schedule="morning")
    with bench.store.reading() as transaction:
        return [row.state for row in transaction.answers_of(int(run.id))]


def test_the_answer_arrives_once(open_store: Open, box: Letterbox) -> None:
    """B21: decided with the end of the run, sent by the outbox, on both stores."""
    bench = with_schedule(open_store())
    bench.run_until("2026-03-27T09:00:00Z")
    assert states(bench) == ["queued"]
    ended = next(event for event in bench.events.list() if event.type == "run.succeeded")
    assert ended.data["deliver"] == ["post"]
    let_pass(bench, HOUR)
    assert box.texts == ["✓ morning|all is well"]
    assert states(bench) == ["delivered"]
    assert "answer.delivered" in [event.type for event in bench.events.list()]
    bench = open_store()
    let_pass(bench, HOUR)
    assert len(box.letters) == 1


def test_a_run_that_delivers_nowhere_has_no_answer(open_store: Open, box: Letterbox) -> None:
    bench = open_store()
    bench.destinations.set("post", kind="letterbox", to=["me"])
    bench.add("morning", when="0 9 * * *", job="report")
    bench.run_until("2026-03-27T09:00:00Z")
    let_pass(bench, HOUR)
    assert box.letters == []
    assert states(bench) == []


def test_schedule_then_agent_then_file_then_nobody(box: Letterbox) -> None:
    """B21: the nearest setting counts, and `none` silences."""
    bench = Sandbox(clock=ManualClock(START))
    bench.job("report")(lambda run: run.schedule)
    for name in ("of_file", "of_agent", "own"):
        bench.destinations.set(name, kind="letterbox", to=[name])
    bench.deliver.set(to=["of_file"])
    bench.agents.set("scout", runner="demo", deliver=["of_agent"])
    bench.add("a", when="0 9 * * *", job="report", agent="scout", deliver=["own"])
    bench.add("b", when="0 9 * * *", job="report", agent="scout")
    bench.add("c", when="0 9 * * *", job="report")
    bench.add("d", when="0 9 * * *", job="report", deliver=["none"])
    bench.run_until("2026-03-27T09:00:00Z")
    with bench.store.reading() as transaction:
        runs = {run.schedule: transaction.answers_of(int(run.id)) for run in bench.runs.list()}
    found = {name: [row.destination for row in rows] for name, rows in runs.items()}
    assert found == {"a": ["own"], "b": ["of_agent"], "c": ["of_file"], "d": []}
    bench.close()


def test_an_unknown_destination_is_refused() -> None:
    bench = Sandbox(clock=ManualClock(START))
    bench.job("report")(lambda run: "x")
    with pytest.raises(InvalidInput, match='There is no destination "phone"'):
        bench.add("a", when="0 9 * * *", job="report", deliver=["phone"])
    bench.close()


# -- once: the table of cuts


def test_a_kill_between_end_and_sending_sends_it_later(open_store: Open, box: Letterbox) -> None:
    """B21"""
    bench = with_schedule(open_store())
    bench.run_until("2026-03-27T09:00:00Z")
    bench = open_store()
    let_pass(bench, HOUR)
    assert box.texts == ["✓ morning|all is well"]


def test_what_did_not_leave_is_sent_later_and_is_no_copy(open_store: Open, box: Letterbox) -> None:
    """B21: no connection, 429 and 5xx are no sending."""
    bench = with_schedule(open_store())
    box.on_send = lambda attempt: away(attempt) if attempt < 3 else None
    bench.run_until("2026-03-27T09:00:00Z")
    deliver(bench)
    assert states(bench) == ["retrying"]
    let_pass(bench, HOUR)
    assert box.texts == ["✓ morning|all is well"]
    assert states(bench) == ["delivered"]


@pytest.mark.parametrize("cut", [lost, killed])
def test_an_unconfirmed_part_repeats_once_and_says_so(
    open_store: Open, box: Letterbox, cut: Callable[[int], None]
) -> None:
    """B21: a channel that cannot tell a repetition gets a marked one."""
    bench = with_schedule(open_store())
    bench.run_until("2026-03-27T09:00:00Z")
    box.on_arrival = lambda attempt: cut(attempt) if attempt == 1 else None
    bench = sent_or_killed(bench, open_store)
    let_pass(bench, HOUR)
    assert box.texts == ["✓ morning|all is well", "Sent again. ✓ morning|all is well"]
    assert states(bench) == ["delivered"]


@pytest.mark.parametrize("cut", [lost, killed])
def test_a_keyed_part_repeats_under_its_key(open_store: Open, keyed_box: Letterbox, cut: Callable[[int], None]) -> None:
    """B21: the receiver tells the repetition by its key."""
    bench = with_schedule(open_store())
    bench.run_until("2026-03-27T09:00:00Z")
    keyed_box.on_arrival = lambda attempt: cut(attempt) if attempt == 1 else None
    bench = sent_or_killed(bench, open_store)
    let_pass(bench, HOUR)
    assert len(keyed_box.letters) == 2
    assert len(set(keyed_box.letters)) == 1
    assert states(bench) == ["delivered"]


@pytest.mark.parametrize("cut", [lost, killed])
def test_lost_again_is_unconfirmed_and_the_parts_behind_it_are_sent(
    open_store: Open, box: Letterbox, cut: Callable[[int], None]
) -> None:
    """B21: twice at most, then an incident; the later parts are not lost with it."""
    bench = with_schedule(open_store(), job="long")
    bench.run_until("2026-03-27T09:00:00Z")
    box.on_arrival = lambda attempt: cut(attempt) if attempt in (2, 3) else None
    for _ in range(2):
        bench = sent_or_killed(bench, open_store)
        bench.clock.advance(60_000)
    let_pass(bench, HOUR)
    assert [text.rpartition("|")[2] for text in box.texts] == ["one", "two", "two", "three"]
    assert states(bench) == ["unconfirmed"]
    assert [found.kind for found in bench.incidents.list(all=True)] == ["undelivered"]


def test_a_deleted_destination_discards_what_waits(open_store: Open, box: Letterbox) -> None:
    """B21"""
    bench = with_schedule(open_store())
    bench.run_until("2026-03-27T09:00:00Z")
    bench.edit("morning", deliver=None)
    bench.destinations.delete("post")
    let_pass(bench, HOUR)
    assert box.letters == []
    assert states(bench) == ["discarded"]


def test_after_twenty_attempts_it_is_discarded_and_people_hear_of_it(open_store: Open, box: Letterbox) -> None:
    bench = with_schedule(open_store())
    box.on_send = away
    bench.run_until("2026-03-27T09:00:00Z")
    let_pass(bench, 30 * HOUR)
    assert box.attempts == 20
    assert "discarded" in states_of_first(bench)


def states_of_first(bench: Sandbox) -> list[str]:
    run = bench.runs.list(schedule="morning")[-1]
    with bench.store.reading() as transaction:
        return [row.state for row in transaction.answers_of(int(run.id))]


def sent_or_killed(bench: Sandbox, open_store: Open) -> Sandbox:
    """Deliver once; when the process is killed meanwhile, the next one goes on."""
    try:
        deliver(bench)
    except Killed:
        return open_store()
    return bench
