"""A run that needs a job or a runner goes only to an engine that has it. Rows C15, B18."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import orjson
import psycopg
import pytest

import postgres_fixtures
from matins.engine.placement import NodeView, needs_sentence, no_node, unserved
from matins.engine.when.triggers import to_datetime
from matins.errors import InvalidInput
from matins.runtime import capacity
from matins.runtime.capacity import MAX_PLACES
from matins.store.postgres.session import SQL
from matins.testing import ManualClock, Sandbox

postgres_server, postgres_url = postgres_fixtures.postgres_server, postgres_fixtures.postgres_url
url = postgres_fixtures.kept_url
START, NINE = "2026-03-27T08:00:00Z", "2026-03-27T09:00:00Z"
SOON = "2026-03-27T08:59:55Z"
"""Two engines on one clock: a leap of more than a lease would end one of them."""


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
    assert bench.why("s").now[-1].sentence == f"{nowhere('job', 'backup')} Runs wait for one."
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
    assert bench.why("fails").now[-1].sentence == f"{nowhere('job', 'backup')} Runs fail."
    (found,) = [one for one in bench.system.doctor() if one.what == "job backup"]
    assert found.sentence == "No live node offers it, so runs of waits wait and runs of fails, steps fail"
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


def nowhere(kind: str, name: str) -> str:
    return f'No node can run it now: it needs the {kind} "{name}". {socket.gethostname()} has no {kind} "{name}".'


def told(bench: Sandbox) -> list[dict[str, object]]:
    with bench.store.reading() as transaction:
        events = [event for event in transaction.events_after(0, 1_000) if event.type == "run.no_node"]
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
        assert bench.why("s").now[-1].sentence == f"{nowhere('tool', 'codex')} Runs wait for one."
        assert "runner codex" in [finding.what for finding in bench.system.doctor()]
        bench.agents.edit("scout", runner="demo")
        bench.settle()
        assert bench.runs.list(schedule="s")[0].state == "succeeded"


def test_what_the_best_node_lacks() -> None:
    needs, nothing = frozenset(["job:a", "runner:b"]), frozenset[str]()
    assert unserved(needs, [frozenset(["job:a"]), nothing]) == {"runner:b"}
    assert unserved(needs, [frozenset(["job:a", "runner:b", "x"]), nothing]) is None
    assert unserved(needs, []) is None
    assert needs_sentence(needs) == 'it needs the job "a" and the tool "b"'


def test_what_each_node_lacks_is_said() -> None:
    """B18: `no_node` names each node with what it lacks, and groups those that lack the same"""
    needs = frozenset(["gpu", "host:b", "agent:ann", "not_on:d", "runner:claude"])
    nodes = [
        NodeView("a", frozenset(["host:a", "gpu", "runner:claude"])),
        NodeView("b", frozenset(["host:b", "runner:claude", "agent:bob"])),
        NodeView("d", frozenset(["host:d", "gpu", "runner:claude"])),
    ]
    assert no_node(needs, nodes, {"d": "/x is not a folder."}) == (
        'No node can run it now: it runs on gpu and the host b, wakes the agent ann and needs the tool "claude". '
        "a is another machine. b does not take the agent ann and has no gpu. "
        "d is another machine and turned it away (/x is not a folder)."
    )
    views = [NodeView(f"n{n}", frozenset()) for n in range(5)]
    assert no_node(frozenset(["gpu"]), views) == (
        "No node can run it now: it runs on gpu. n0, n1, n2 and 2 more have no gpu."
    )
    assert no_node(frozenset(["gpu"]), [*views, NodeView("g", frozenset(["gpu"]))]) is None
    assert no_node(frozenset(["session:b"]), nodes[:1]) == (
        "No node can run it now: it continues a conversation on b. a is another machine."
    )


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


def test_b18_a_run_goes_where_its_labels_are(postgres_url: str) -> None:
    """B18: those of the schedule and of its agent; an edit of the agent moves runs that wait, and leaves what their
    schedules ask for; `add`, `why`, doctor and figures say that nobody offers a label"""
    clock = ManualClock(SOON)
    build = Sandbox(postgres_url, clock=clock, name="build-1", labels=["gpu", "eu"])
    with closing(build), closing(Sandbox(postgres_url, clock=clock, name="web-2", labels=["eu"])) as web:
        for bench in (build, web):
            bench.job("work")(lambda run: None)
            bench.settle()
        web.agents.set("trainer", runner="demo", runs_on=["gpu"])
        web.add("train", when="0 9 * * *", agent="trainer", prompt="Train", runs_on=["eu"], catch_up="run_once")
        web.add("build", when="0 9 * * *", job="work", host="build-1")
        added = web.add("apart", when="0 9 * * *", job="work", runs_on=["tpu", "eu"])
        nobody = (
            'No node can run it now: it runs on eu and tpu and needs the job "work". build-1 and web-2 have no tpu.'
        )
        assert added.notes == [nobody]
        clock.advance_to(NINE)
        web.settle()
        assert states(web) == {"train": "ready", "build": "ready", "apart": "ready"}
        assert web.why("apart").summary.endswith(f"{nobody} It waits since 09:00 UTC.")
        assert web.system.stats().runs_without_node == 1
        (found,) = [one for one in web.system.doctor() if one.what == "label tpu"]
        assert found.sentence == "No live node offers it, so runs of apart wait"
        assert found.fix == "On a node that has it: matins up --label tpu. Until then: matins pause apart"

        web.agents.edit("trainer", runs_on=[], host="web-3")
        build.settle()
        assert states(web) == {"train": "ready", "build": "succeeded", "apart": "ready"}
        assert 'it runs on eu and the host web-3 and needs the tool "demo"' in web.why("train").summary
        web.agents.edit("trainer", host=None)
        build.job("scheduled-task")(lambda run: None)
        build.settle()
        assert states(web)["train"] == "succeeded"
        assert build.audit.verify().problems == []


def states(bench: Sandbox) -> dict[str, str]:
    return {run.schedule: run.state for run in bench.runs.list()}


def test_b18_a_node_with_a_list_of_agents_takes_no_others(postgres_url: str) -> None:
    """B18: runs of other agents go elsewhere; jobs go anywhere"""
    clock = ManualClock(SOON)
    lists = Sandbox(postgres_url, clock=clock, name="lists", agents=["ann"])
    with closing(lists), closing(Sandbox(postgres_url, clock=clock, name="any")) as other:
        for bench in (lists, other):
            bench.job("scheduled-task")(lambda run: None)
        for name in ("ann", "bob"):
            lists.agents.set(name, runner="demo")
            lists.add(name, when="0 9 * * *", agent=name, prompt="Go")
        lists.run_until(NINE)
        assert states(lists) == {"ann": "succeeded", "bob": "ready"}
        other.settle()
        assert states(lists) == {"ann": "succeeded", "bob": "succeeded"}


def test_b18_runs_of_other_places_are_not_read(postgres_url: str) -> None:
    """B18: `ready` walks the index of places, with many rows for others, and statistics that know of none"""
    with closing(Sandbox(postgres_url, clock=ManualClock(START))) as bench, psycopg.connect(postgres_url) as connection:
        connection.execute("ANALYZE runs")
        connection.execute(
            "INSERT INTO runs (id, schedule_id, rev, state, exclusive, epoch, attempt, not_before, planned_at, slots,"
            " place) SELECT 1000 + n, 1, 1, 2, 0, 0, 0, n, n, 1, 2 FROM generate_series(1, 20000) n"
        )
        values = {"places": [0, 3], "now": 10**15, "limit": 64, "without": list[str]()}
        plan = connection.execute(b"EXPLAIN (ANALYZE, FORMAT JSON) " + SQL["ready"], values, binary=True).fetchone()
        assert plan is not None
        text = plan[0] if isinstance(plan[0], str) else orjson.dumps(plan[0]).decode()
        assert '"Index Name":"runs_ready"' in text
        assert '"Index Cond":"((place = p.place) AND' in text
        assert "Seq Scan" not in text
        assert bench.engine.placement.reads_all


def test_b18_many_agents_do_not_keep_an_engine_from_resting() -> None:
    """B18: each agent has a place of its own; only those are read in which a run is ready"""
    with closing(Sandbox(clock=ManualClock(START))) as bench:
        bench.job("scheduled-task")(lambda run: None)
        for n in range(3 * MAX_PLACES):
            bench.agents.set(f"a{n}", runner="demo")
            bench.add(f"s{n}", when="0 9 * * *", agent=f"a{n}", prompt="Go")
        bench.run_until(NINE)
        assert set(states(bench).values()) == {"succeeded"}
        bench.engine.turn()
        assert bench.engine.placement.reads_all
        with bench.store.reading() as transaction:
            assert bench.engine.placement.batch(transaction) == []


@pytest.mark.parametrize(
    ("wrong", "field"),
    [({"runs_on": ["host:a"]}, "runs_on"), ({"runs_on": "gpu"}, "runs_on"), ({"host": "a b"}, "host")],
)
def test_b18_a_label_that_no_node_can_have_is_refused(wrong: dict[str, Any], field: str) -> None:
    with closing(Sandbox(clock=ManualClock(START))) as bench:
        bench.job("work")(lambda run: None)
        with pytest.raises(InvalidInput) as caught:
            bench.add("s", when="0 9 * * *", job="work", **wrong)
        assert caught.value.field == field
        assert caught.value.hint or caught.value.allowed
