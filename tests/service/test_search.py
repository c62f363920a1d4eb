"""Searches: the index of what runs said, and the lines of their outputs, on both dialects."""

from __future__ import annotations

import every_store
import pytest

from matins.engine.when.durations import DAY_MS
from matins.errors import InvalidInput
from matins.executors.job_context import JobContext
from matins.model.access import Principal
from matins.testing import Sandbox

postgres_server, postgres_url = every_store.postgres_server, every_store.postgres_url
url = every_store.each_dialect
bench, in_memory = every_store.bench, every_store.in_memory
SCOUT = Principal("agent", "scout")


def fill(bench: Sandbox) -> None:
    def quota(run: JobContext) -> None:
        raise ValueError("429: Quota-limit exceeded für the_month\0")

    bench.job("quota")(quota)
    bench.job("answers")(lambda run: {"text": "Four pull requests; nothing exceeded the quota"})
    bench.add("report", when="0 9 * * *", job="quota", retries=0, labels={"team": "ops"})
    bench.add("digest", when="30 9 * * *", job="answers", agent="ann")
    bench.add("plain", when="45 9 * * *", job="work")
    bench.add("asks-quota", when="0 9 1 1 *", job="work")
    bench.run_until("2026-03-27T10:00:00Z")
    bench.outbox.run_once(bench.clock.now_ms())


@pytest.mark.parametrize(
    ("text", "expected"),
    [("quota", ["digest", "report"]), ("QUOTA exceeded", ["digest", "report"]), ('"limit exceeded"', ["report"]),
     ("exc quo", ["digest", "report"]), ("für", ["report"]), ("fur", []), ("month 429", ["report"]), ("absent", []),
     ("pull requ", ["digest"])],
)  # fmt: skip
def test_runs_by_words_and_phrases(bench: Sandbox, text: str, expected: list[str]) -> None:
    """B20: words by their beginnings, in any order; a phrase as it is written; signs part words alike on both stores"""
    fill(bench)
    assert sorted(run.schedule for run in bench.runs.list(text=text)) == expected


def test_what_a_search_finds(bench: Sandbox) -> None:
    """B20 B12: by name first, then by what runs said, with the part around it; and not what others said"""
    fill(bench)
    hits = bench.search("quota")
    assert [(hit.kind, hit.title.partition(",")[0]) for hit in hits] == [
        ("schedule", "asks-quota"), ("schedule", "report"), ("run", "digest"), ("run", "report"),
    ]  # fmt: skip
    assert "Quota-limit exceeded" in (hits[-1].excerpt or "")
    assert [(hit.kind, hit.detail) for hit in bench.search("report failed")][-1] == ("incident", "open")
    assert [run.schedule for run in bench.runs.list(text="quota", select="label.team=ops")] == ["report"]
    assert bench.runs.list(text="quota", state="succeeded", agent="ann", schedule="digest")
    assert bench.acting_as(SCOUT).runs.list(text="quota") == []
    assert [hit.kind for hit in bench.acting_as(SCOUT).search("exceeded")] == []
    for wrong in ("?!", "x" * 201):
        with pytest.raises(InvalidInput) as caught:
            bench.runs.list(text=wrong)
        assert caught.value.field == "text"


def test_the_index_forgets_runs_that_are_deleted(bench: Sandbox) -> None:
    """B20 B12"""
    fill(bench)
    (run,) = bench.runs.list(text="429")
    bench.clock.advance(100 * DAY_MS)
    bench.engine.maintenance.prune(bench.clock.now_ms())
    with bench.store.reading() as transaction:
        assert transaction.run_text(int(run.id)) is None
    assert bench.runs.list(text="429") == []
