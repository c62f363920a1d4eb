"""A run that needs a job or a runner goes only to an engine that has it. Rows C15, B18."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import orjson
import pytest

import postgres_fixtures
from matins.engine.when.triggers import to_datetime
from matins.errors import InvalidInput
from matins.runtime import capacity
from matins.runtime.capacity import MAX_PLACES, needs_sentence, unserved
from matins.testing import ManualClock, Sandbox

postgres_server, postgres_url = postgres_fixtures.postgres_server, postgres_fixtures.postgres_url
url = postgres_fixtures.kept_url
START, NINE = "2026-03-27T08:00:00Z", "2026-03-27T09:00:00Z"


@pytest.fixture
def bench(url: str) -> Iterator[Sandbox]:
    with closing(Sandbox(url, clock=ManualClock(START))) as made:
        yield made


def without(bench: Sandbox, name: str) -> None:
    """The engine loses a job, as when its program is replaced by another."""
    del bench.jobs._own[name]
    bench.jobs._counted = False


def test_c15_a_run_waits_for_an_engine_that_has_its_job(bench: Sandbox) -> None:
    """C15 B2: it is ready, `why` says what it needs, an event tells after a minute, once; then it runs"""
    bench.job("backup")(lambda run: None)
    bench.add("s", when="0 9 * * *", job="backup")
    bench.settle()
    without(bench, "backup")
    bench.run_until(NINE)
    (run,) = bench.runs.list(schedule="s")
    assert run.state == "ready"
    assert bench.why("s").now[-1].sentence == 'No running engine has the job "backup". Runs wait for one.'
    assert told(bench) == []
    for _ in range(3):
        bench.clock.advance(61_000)
        bench.settle()
    assert told(bench) == [{"needs": ["job:backup"], "since": bench.runs.get(run.id).planned_at}]
    bench.job("backup")(lambda run: None)
    bench.settle()
    assert [run.state for run in bench.runs.list(schedule="s")] == ["succeeded"]


def test_v11_a_run_fails_without_its_job_where_the_schedule_says_so(bench: Sandbox) -> None:
    """V11 B2: once an engine had the time of its lease to come back; `why` and `doctor` say so before"""
    bench.job("backup")(lambda run: None)
    bench.add("fails", when="0 9 * * *", job="backup", missing_job="fail", pause_after_failures=1)
    bench.add("waits", when="0 9 * * *", job="backup")
    steps = [{"title": "Save", "job": "backup"}, {"title": "Check", "job": "backup", "after": ["Save"]}]
    bench.add("steps", when="0 9 * * *", steps=steps, missing_job="fail")
    bench.settle()
    without(bench, "backup")
    bench.run_until(NINE)
    assert {bench.runs.list(schedule=name)[0].state for name in ("fails", "waits")} == {"ready"}
    assert bench.why("fails").now[-1].sentence == 'No running engine has the job "backup". Runs fail.'
    (found,) = [one for one in bench.system.doctor() if one.what == "job backup"]
    assert found.sentence == "No running engine has it, so runs of waits wait and runs of fails, steps fail"
    bench.clock.advance(10_000)
    bench.settle()
    assert bench.runs.list(schedule="fails")[0].state == "ready", "an engine may be on its way"
    bench.clock.advance(10_000)
    bench.settle()
    (run,) = bench.runs.list(schedule="fails")
    assert (run.state, run.reason, run.started_at) == ("failed", "missing_job", None)
    assert bench.why("fails", at=NINE).summary.endswith('Failed: no running engine had the job "backup".')
    assert bench.get("fails").state == "paused", "it counts as a failure"
    (whole,) = bench.runs.list(schedule="steps")
    assert [step.state for step in bench.runs.get(whole.id).steps] == ["failed", "skipped"]
    assert whole.state == "failed"
    bench.clock.advance(3_600_000)
    bench.settle()
    assert bench.runs.list(schedule="waits")[0].state == "ready"
    bench.job("backup")(lambda run: None)
    bench.settle()
    assert bench.runs.list(schedule="waits")[0].state == "succeeded"
    assert bench.audit.verify().problems == []


def test_v11_runs_that_wait_do_not_hide_those_that_fail(bench: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """V11: more runs of the same job than one look reads"""
    monkeypatch.setattr(capacity, "_PAGE", 3)
    bench.job("backup")(lambda run: None)
    for n in range(7):
        bench.add(f"waits{n}", when="0 9 * * *", job="backup")
    bench.add("fails", when="0 9 * * *", job="backup", missing_job="fail")
    bench.settle()
    without(bench, "backup")
    bench.run_until(NINE)
    for _ in range(6):
        bench.clock.advance(11_000)
        bench.settle()
    assert bench.runs.list(schedule="fails")[0].state == "failed"
    assert {bench.runs.list(schedule=f"waits{n}")[0].state for n in range(7)} == {"ready"}


def told(bench: Sandbox) -> list[dict[str, object]]:
    with bench.store.reading() as transaction:
        events = [event for event in transaction.events_after(0, 1_000) if event.type == "run.no_engine"]
    found = [orjson.loads(event.data) if isinstance(event.data, str) else event.data for event in events]
    return [{**data, "since": to_datetime(data["since"])} for data in found]


def test_c15_a_run_that_is_planned_by_one_engine_is_claimed_by_the_other(postgres_url: str) -> None:
    """C15: due slots are planned anywhere; what can start at once starts only where it can be done"""
    clock = ManualClock(START)
    with closing(Sandbox(postgres_url, clock=clock)) as one, closing(Sandbox(postgres_url, clock=clock)) as other:
        ran: list[str] = []
        one.job("here")(lambda run: ran.append("one"))
        other.job("there")(lambda run: ran.append("other"))
        one.settle()
        other.settle()
        for n in range(3):
            one.add(f"s{n}", when="0 9 * * *", job="there")
            one.add(f"t{n}", when="0 9 * * *", job="here")
        clock.advance_to(NINE)
        one.settle()
        assert ran == ["one"] * 3
        assert {run.state for n in range(3) for run in one.runs.list(schedule=f"s{n}")} == {"ready"}
        other.settle()
        assert ran == ["one"] * 3 + ["other"] * 3


def test_c15_a_manual_run_goes_to_its_engine_too(postgres_url: str) -> None:
    clock = ManualClock(START)
    with closing(Sandbox(postgres_url, clock=clock)) as one, closing(Sandbox(postgres_url, clock=clock)) as other:
        other.job("there")(lambda run: None)
        other.settle()
        one.add("s", when="0 0 1 1 *", job="there")
        one.run("s")
        one.settle()
        assert one.runs.list(schedule="s")[0].state == "ready"
        other.settle()
        assert one.runs.list(schedule="s")[0].state == "succeeded"


def test_c15_an_engine_of_many_jobs_serves_all_of_them(bench: Sandbox) -> None:
    """C15: more places than one statement reads; none is left out"""
    count = 3 * MAX_PLACES + 1
    for n in range(count):
        bench.job(f"job{n}")(lambda run: None)
        bench.add(f"s{n}", when="0 9 * * *", job=f"job{n}", approval="owner_approve")
    bench.run_until(NINE)
    for request in bench.approvals.list():
        bench.approvals.approve(request.id)
    bench.settle()
    assert {bench.runs.list(schedule=f"s{n}")[0].state for n in range(count)} == {"succeeded"}


class OnlyDemo(Sandbox):
    """An engine that has the runner `demo` alone."""

    def __init__(self, url: str, clock: ManualClock) -> None:
        super().__init__(url, clock=clock)
        self.executor.offers = lambda: self.jobs.offers | {"runner:demo"}  # type: ignore[method-assign]


def test_c15_a_run_moves_with_the_runner_of_its_agent(url: str) -> None:
    """C15: an edit of the agent moves the runs that have not started"""
    with closing(OnlyDemo(url, ManualClock(START))) as bench:
        bench.job("scheduled-task")(lambda run: None)
        bench.agents.set("scout", runner="codex")
        bench.add("s", when="0 9 * * *", agent="scout", prompt="Look around")
        bench.run_until(NINE)
        assert bench.runs.list(schedule="s")[0].state == "ready"
        assert bench.why("s").now[-1].sentence == 'No running engine has the tool "codex". Runs wait for one.'
        assert "runner codex" in [finding.what for finding in bench.system.doctor()]
        bench.agents.edit("scout", runner="demo")
        bench.settle()
        assert bench.runs.list(schedule="s")[0].state == "succeeded"


def test_what_the_best_engine_lacks() -> None:
    needs = frozenset(["job:a", "runner:b"])
    assert unserved(needs, ['["job:a"]', "[]"]) == {"runner:b"}
    assert unserved(needs, ['["job:a", "runner:b", "x"]', "[]"]) is None
    assert unserved(needs, []) is None
    assert needs_sentence(needs) == 'the job "a" and the tool "b"'


def test_b18_a_node_has_a_name_labels_agents_and_a_maximum(url: str) -> None:
    """B18: what it offers is in the row of its worker; it has at most `max_runs` runs at once"""
    node: dict[str, Any] = {"name": "build-1", "labels": ["gpu", "eu"], "agents": ["trainer"], "max_runs": 2}
    with closing(Sandbox(url, clock=ManualClock(START), **node)) as bench:
        bench.job("scheduled-task")(lambda run: None)
        bench.job("work")(lambda run: None)
        with bench.store.reading() as transaction:
            (worker,) = transaction.workers()
        assert worker.node == "build-1"
        assert {"host:build-1", f"os:{sys.platform}", "gpu", "eu", "agent:trainer"} <= set(orjson.loads(worker.offers))
        bench.agents.set("trainer", runner="demo")
        for n in range(2):
            bench.add(f"job{n}", when="0 9 * * *", job="work")
            bench.add(f"agent{n}", when="0 9 * * *", agent="trainer", prompt="Train")
        sizes, submit = list[int](), bench.executor.submit
        bench.executor.submit = lambda batch: (sizes.append(len(batch)), submit(batch))[1]  # type: ignore[method-assign]
        bench.run_until(NINE)
        assert sizes == [2, 2]
        assert {run.state for run in bench.runs.list()} == {"succeeded"}


@pytest.mark.parametrize(
    ("wrong", "field", "sentence"),
    [
        ({"name": "build 1"}, "name", '"name" is not the name of a node'),
        ({"labels": ["host:web-2"]}, "labels", "must be a label of 1 to 64 letters"),
        ({"labels": "gpu"}, "labels", "must be a list of strings"),
        ({"agents": []}, "agents", "must be a list of agents"),
        ({"max_runs": 0}, "max_runs", "must be an integer from 1"),
    ],
)
def test_b18_a_bad_description_of_a_node_is_refused(wrong: dict[str, Any], field: str, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence) as caught:
        Sandbox(**wrong)
    assert caught.value.field == field
    assert caught.value.hint or caught.value.allowed


def test_b18_an_engine_without_a_name_is_its_host() -> None:
    with closing(Sandbox()) as bench:
        assert bench.node.name == socket.gethostname()
