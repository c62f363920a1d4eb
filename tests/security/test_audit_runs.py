"""Runs and their attempts are bound to the log, on every store: what is changed or deleted beside it is named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import apsw
import psycopg
import pytest
from security_cast import Open, Watched, at

DAY, HOUR = 86_400_000, 3_600_000
CREATED = "Run {} was changed after it was created."
STARTED = "Run {} was changed after it started."
ENDED = "Run {} was changed after it ended."
ATTEMPT = "Attempt 1 of run {} was changed or deleted."
UNKNOWN = "Run {} is not in the log."
DELETED = "Run {} was deleted, and the log does not say so."

FORGED = {
    # what: (whose run, the statement, what is said)
    "another slot": ("good", "UPDATE runs SET slot = slot - 60000 WHERE id = {}", CREATED),
    "no slot": ("good", "UPDATE runs SET slot = NULL WHERE id = {}", CREATED),
    "another creation": ("good", "UPDATE runs SET planned_at = planned_at - 1 WHERE id = {}", CREATED),
    "another schedule": ("good", "UPDATE runs SET schedule_id = schedule_id + 1 WHERE id = {}", CREATED),
    "more slots": ("late", "UPDATE runs SET slots = slots + 1 WHERE id = {}", CREATED),
    "an earlier first slot": ("late", "UPDATE runs SET first_slot = first_slot - 1 WHERE id = {}", CREATED),
    "a slot of a missed one": ("missed", "UPDATE runs SET slot = slot + 60000 WHERE id = {}", CREATED),
    "a slot for one by hand": ("asked", "UPDATE runs SET slot = 1 WHERE id = {}", CREATED),
    "another requester": ("asked", "UPDATE runs SET evidence = '{{\"by\": \"eve\"}}' WHERE id = {}", CREATED),
    "a step of another run": ("step", "UPDATE runs SET parent = parent + 100 WHERE id = {}", CREATED),
    "another step": ("step", "UPDATE runs SET step = 9 WHERE id = {}", CREATED),
    "another start": ("good", "UPDATE runs SET started_at = started_at + 1 WHERE id = {}", STARTED),
    "no start": ("bad", "UPDATE runs SET started_at = NULL WHERE id = {}", STARTED),
    "a start of a run of steps": ("steps", "UPDATE runs SET started_at = 1 WHERE id = {}", STARTED),
    "a start of a missed one": ("missed", "UPDATE runs SET started_at = 1 WHERE id = {}", ENDED),
    "fewer attempts": ("bad", "UPDATE runs SET attempt = 0 WHERE id = {}", STARTED),
    "another epoch": ("good", "UPDATE runs SET epoch = 2 WHERE id = {}", ENDED),
    "another worker": ("good", "UPDATE attempts SET owner = owner + 1 WHERE run_id = {}", ATTEMPT),
    "another attempt's start": ("good", "UPDATE attempts SET started_at = 1 WHERE run_id = {}", ATTEMPT),
    "an attempt's epoch": ("good", "UPDATE attempts SET epoch = 7 WHERE run_id = {}", ATTEMPT),
    "no attempt": ("bad", "DELETE FROM attempts WHERE run_id = {} AND epoch = 1", ATTEMPT),
    "an invented attempt": (
        "live", "INSERT INTO attempts (run_id, epoch, owner, started_at) SELECT {}, 1, 1, planned_at FROM runs LIMIT 1",
        "Attempt 1 of run {} is not in the log.",
    ),
    "another end": ("bad", "UPDATE runs SET state = 10 WHERE id = {}", ENDED),
    "live again": ("bad", "UPDATE runs SET state = 2 WHERE id = {}", "Run {} had ended, and is ready again."),
    "another outcome": ("good", "UPDATE runs SET outcome = '{{\"result\": \"paid\"}}' WHERE id = {}", ENDED),
    "no outcome": ("good", "UPDATE runs SET outcome = NULL WHERE id = {}", ENDED),
    "an outcome of a missed one": ("missed", "UPDATE runs SET outcome = '{{}}' WHERE id = {}", ENDED),
    "another reason": ("bad", "UPDATE runs SET reason = 'x' WHERE id = {}", ENDED),
    "another time": ("good", "UPDATE runs SET ended_at = 1 WHERE id = {}", ENDED),
    "other settings": ("good", "UPDATE runs SET rev = rev + 1 WHERE id = {}", ENDED),
    "another live slot": ("live", "UPDATE runs SET slot = slot - 1 WHERE id = {}", CREATED),
    "a live one ended": ("live", "UPDATE runs SET state = 10, ended_at = planned_at WHERE id = {}", UNKNOWN),
    "a deleted run": ("good", "DELETE FROM runs WHERE id = {}", DELETED),
    "a deleted step": ("step", "DELETE FROM runs WHERE id = {}", DELETED),
    "a deleted live run": ("live", "DELETE FROM runs WHERE id = {}", DELETED),
}  # fmt: skip


@contextmanager
def forger(url: str) -> Iterator[apsw.Connection | psycopg.Connection]:
    if url.startswith("postgresql"):
        with psycopg.connect(url, autocommit=True) as connection:
            yield connection
    else:
        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        connection.set_busy_timeout(5_000)
        yield connection
        connection.close()


@pytest.fixture
def bench(kept_url: str, open_bench: Open) -> Watched:
    return open_bench(kept_url, history_days=30)


@pytest.fixture
def lived(bench: Watched) -> dict[str, str]:
    """Runs of every kind: retried, late for several slots, missed, by hand, of steps with one carried over, waiting."""
    bench.jobs["fails"] = lambda run: 1 / 0
    bench.jobs["tells"] = lambda run: {"told": "all"}
    bench.add("bad", when="5 8 * * *", job="fails", retries=1)
    bench.add("good", when="5 8 * * *", job="tells")
    bench.add("late", when="*/10 * * * *", job="work", catch_up="run_once")
    bench.add("missed", when="0 9 * * *", job="work", catch_up="skip", grace="1m")
    steps = [{"title": "A", "job": "tells"}, {"title": "B", "job": "fails", "after": ["A"], "retries": 0}]
    bench.add("steps", when="5 8 * * *", steps=steps, retries=1)
    bench.run_until(at("08:15"))
    bench.clock.advance(2 * HOUR)
    bench.add("live", when="20 10 * * *", job="work", approval="owner_approve")
    bench.settle()
    asked = bench.run("good")
    bench.run_until(at("10:25"))
    late = next(run for run in bench.runs.list(schedule="late") if run.slots > 1)
    found = {name: bench.runs.list(schedule=name)[-1].id for name in ("bad", "good", "missed", "steps", "live")}
    step = next(one for one in bench.runs.get(found["steps"]).steps if one.title == "A")
    return {**found, "late": late.id, "asked": asked.id, "step": step.run_id or ""}


def test_b16_a_run_that_was_changed_in_the_store_is_named(kept_url: str, bench: Watched, lived: dict[str, str]) -> None:
    """B16 S7: whatever is changed of its creation, its attempts and its end, and its deletion"""
    told = {kind for kind in bench.told_types() if kind.startswith(("run.", "step.", "schedule.missed"))}
    assert told >= {"run.retrying", "run.started", "schedule.missed", "run.awaiting_approval", "step.succeeded"}
    said: dict[str, str | None] = {}
    with forger(kept_url) as connection:
        for table in ("runs", "attempts"):
            connection.execute(f"CREATE TABLE kept_{table} AS SELECT * FROM {table}")
        for what, (whose, statement, _) in FORGED.items():
            assert bench.audit.verify().problems == [], what
            connection.execute(statement.format(lived[whose]))
            said[what] = next(iter(bench.audit.verify().problems), None)
            for table in ("runs", "attempts"):
                connection.execute(f"DELETE FROM {table}")
                connection.execute(f"INSERT INTO {table} SELECT * FROM kept_{table}")
    assert said == {what: problem.format(lived[whose]) for what, (whose, _, problem) in FORGED.items()}


def test_b16_an_invented_run_is_named_also_when_it_has_run(kept_url: str, bench: Watched) -> None:
    """B16: a row that says that it may start"""
    bench.add("s", when="5 8 * * *", job="work")
    bench.run_until(at("08:06"))
    with forger(kept_url) as connection:
        connection.execute(
            "INSERT INTO runs (id, schedule_id, rev, state, exclusive, epoch, attempt, not_before, planned_at, slots)"
            " SELECT 777, schedule_id, rev, 2, 0, 0, 0, planned_at, planned_at, 1 FROM runs"
        )
    assert bench.audit.verify().problems == ["Run 777 is not in the log."]
    bench.clock.advance(1_000)
    bench.settle()
    assert bench.runs.get("777").state == "succeeded"
    assert bench.audit.verify().problems == ["Run 777 is not in the log."]


@pytest.mark.parametrize("by", [{"history_runs": 2}, {"history_days": 0.1}])
def test_b16_pruned_runs_are_in_the_log_and_others_are_not_taken_for_them(
    kept_url: str, open_bench: Open, by: dict[str, float]
) -> None:
    """B16: the log says which ones went; one that is deleted beside it is named"""
    bench = open_bench(kept_url, **{"history_days": 30, **by})
    bench.jobs["tells"] = lambda run: {"told": "all"}
    bench.add("s", when="*/20 * * * *", job="work")
    bench.add("slow", when="5 * * * *", steps=[{"title": "A", "job": "tells"}])
    bench.run_until(at("13:01"))
    bench.engine.maintenance.prune(bench.clock.now_ms())
    assert len(bench.runs.list(schedule="s", limit=1_000)) < 15
    (gone, *_) = bench.told("history.runs_pruned")
    assert all(first <= last for first, last in gone["runs"])
    assert bench.audit.verify().problems == []
    (_, kept, *_) = bench.runs.list(schedule="slow")
    with forger(kept_url) as connection:
        connection.execute(f"DELETE FROM runs WHERE id = {kept.id}")
    assert bench.audit.verify().problems[0] == DELETED.format(kept.id)


@pytest.mark.parametrize("ended", [True, False])
def test_b16_a_clock_that_is_set_back_keeps_runs_and_log_in_agreement(
    kept_url: str, bench: Watched, ended: bool
) -> None:
    """B16 H2: a run that covers several slots covers fewer of them then, also when it has ended or goes on"""
    bench.jobs["held"] = lambda run: None if ended else bench.clock.step(-40 * 60_000)
    bench.add("s", when="*/10 * * * *", job="held", catch_up="run_once")
    bench.run_until(at("08:01"))
    bench.clock.advance(HOUR)
    bench.settle()
    if ended:
        bench.clock.step(-40 * 60_000)
    bench.settle()
    (run,) = bench.runs.list(schedule="s")
    (shortened,) = bench.told("run.shortened")
    assert (run.state, shortened["slots"]) == ("succeeded", run.slots)
    assert bench.audit.verify().problems == []
    with forger(kept_url) as connection:
        connection.execute(f"UPDATE runs SET slot = slot + 600000, slots = slots + 1 WHERE id = {run.id}")
    assert bench.audit.verify().problems == [CREATED.format(run.id)]


def test_b16_a_clock_that_was_ahead_while_history_was_pruned_raises_no_alarm(bench: Watched) -> None:
    """B16 H2"""
    bench.add("s", when="0 * * * *", job="work")
    bench.run_until(at("10:01"))
    bench.clock.step(60 * DAY)
    bench.settle()
    bench.clock.advance(HOUR)
    bench.settle()
    bench.clock.step(-60 * DAY)
    bench.settle()
    bench.run_until(at("14:01"))
    bench.engine.maintenance.prune(bench.clock.now_ms())
    assert bench.audit.verify().problems == []
