"""Erasing the words of a run: nothing of the store has them, the record stays, and the log verifies."""

from __future__ import annotations

from typing import Any

import every_store
import pytest

from matins.errors import Conflict, NotAllowed, NotFound
from matins.executors.job_context import JobContext
from matins.model.access import Principal
from matins.testing import Sandbox

postgres_server, postgres_url = every_store.postgres_server, every_store.postgres_url
url = every_store.each_dialect
bench = every_store.bench
WORD = "xyzzy"
_SET_OUTCOME = "UPDATE runs SET outcome = CAST(:outcome AS text) WHERE id = :id"


def everything(bench: Sandbox) -> str:
    """All rows of all tables, as text."""
    store: Any = bench.store
    with store.reading() as transaction:
        if store.kind == "sqlite":
            names = [row[0] for row in transaction.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        else:
            schema = "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
            names = [row[0] for row in transaction.execute(f"{schema} AND table_type = 'BASE TABLE'")]
        assert {"runs", "events", "run_texts", "incidents", "approvals", "requests"} <= set(names)
        return repr([transaction.execute(f"SELECT * FROM {name}") for name in names])


def fill(bench: Sandbox) -> str:
    def fail(run: JobContext) -> None:
        raise ValueError(f"the quota of {WORD} is spent")

    bench.job("tells")(fail)
    bench.add("tells", when="0 0 1 1 *", job="tells", retries=0, approval="owner_approve")
    run = bench.run("tells", input={"word": WORD})
    bench.settle()
    (asked,) = bench.approvals.list()
    bench.approvals.approve(asked.id, note=f"yes, {WORD}")
    bench.settle()
    bench.outbox.run_once(bench.clock.now_ms())
    return run.id


def test_nothing_has_the_words_and_the_log_verifies(bench: Sandbox) -> None:
    """B12: rows, requests, notes, the index, incidents and events; the record and its times stay"""
    run_id = fill(bench)
    before = bench.runs.get(run_id)
    assert WORD in everything(bench)
    assert bench.runs.list(text=WORD)
    found = bench.runs.erase(run_id)
    assert found.events > 0
    assert found.elsewhere == []
    assert WORD not in everything(bench)
    assert bench.runs.list(text=WORD) == []
    after = bench.runs.get(run_id)
    assert (after.state, after.reason, after.ended_at) == ("failed", before.reason, before.ended_at)
    assert after.outcome is None
    assert bench.runs.facts(run_id).sentence
    assert bench.audit.verify().problems == []
    assert bench.runs.erase(run_id).events == 0, "again changes nothing"
    bench.clock.advance(1_000)
    bench.outbox.run_once(bench.clock.now_ms())
    assert WORD not in everything(bench)


@pytest.mark.parametrize("kept", ["event", "run"])
def test_words_that_are_gone_without_an_erasure_are_found(bench: Sandbox, kept: str) -> None:
    """B12: an event that looks erased needs one that says so; a run without its outcome too"""
    run_id = fill(bench)
    with bench.store.transaction(bench.clock.now_ms()) as transaction:
        event = next(one for one in transaction.events_of_run(int(run_id)) if one.type == "run.failed")
        outcome = transaction.run(int(run_id)).outcome  # type: ignore[union-attr]
        if kept == "run":
            transaction.erase_event(event.id, '{"erased":true}')
        else:
            transaction.execute(_SET_OUTCOME, {"outcome": None, "id": int(run_id)})
    assert bench.audit.verify().problems != []
    with bench.store.transaction(bench.clock.now_ms()) as transaction:  # for the check at the end of each test
        transaction.erase_event(event.id, event.data or "")
        transaction.execute(_SET_OUTCOME, {"outcome": outcome, "id": int(run_id)})
    bench.runs.erase(run_id)


def test_what_cannot_be_erased(bench: Sandbox) -> None:
    """B12: a live run, one that is not there, and by one who does not govern"""
    bench.add("waits", when="0 0 1 1 *", job="work", approval="owner_approve")
    run = bench.run("waits")
    bench.settle()
    with pytest.raises(Conflict, match="has not ended"):
        bench.runs.erase(run.id)
    with pytest.raises(NotFound, match="no run 99"):
        bench.runs.erase(99)
    with pytest.raises(NotAllowed):
        bench.acting_as(Principal("operator", "ada")).runs.erase(run.id)
