"""Pipelines: the end of a run starts runs of the schedules that follow, through the outbox."""

from __future__ import annotations

from typing import Any

import pytest
from outbox_recorder import deliver

import postgres_fixtures
from matins.errors import Conflict
from matins.testing import ManualClock, Sandbox

postgres_server = postgres_fixtures.postgres_server
postgres_url = postgres_fixtures.postgres_url
url = postgres_fixtures.kept_url
START = "2026-03-27T08:00:00Z"


@pytest.fixture
def bench(url: str) -> Any:
    made = Sandbox(url, clock=ManualClock(START))
    made.job("work")(lambda run: {"text": "released 1.2"})
    made.job("fail")(lambda run: 1 / 0)
    yield made
    assert made.audit.verify().problems == []
    made.close()


def work_through(bench: Sandbox, rounds: int = 14) -> None:
    """As engine and outbox do in turns."""
    for _ in range(rounds):
        bench.settle()
        deliver(bench)


def states(bench: Sandbox, name: str) -> list[str]:
    return [run.state for run in reversed(bench.runs.list(schedule=name))]


def test_b13_a_schedule_fires_on_anothers_success_failure_or_end(bench: Sandbox) -> None:
    """B13: success, failure, end; what did not run starts nothing"""
    bench.add("good", when="0 9 * * *", job="work")
    bench.add("bad", when="0 9 * * *", job="fail")
    for source in ("good", "bad"):
        for outcome in ("success", "failure", "end"):
            bench.add(f"{source}-{outcome}", on={"schedule": source, "outcome": outcome}, job="work")
    bench.run_until("2026-03-27T09:00:00Z")
    work_through(bench)
    ran = {schedule.name for schedule in bench.list() if bench.runs.list(schedule=schedule.name)}
    assert ran == {"good", "bad", "good-success", "good-end", "bad-failure", "bad-end"}
    bench.pause("good")
    bench.run_until("2026-03-28T09:00:00Z")
    work_through(bench)
    assert len(bench.runs.list(schedule="good-success")) == 1


def test_the_follower_gets_what_the_run_said(bench: Sandbox) -> None:
    """B13: run, outcome and text, by the placeholders of every call"""
    bench.add("release", when="0 9 * * *", job="work")
    heard: list[Any] = []
    bench.job("announce")(lambda run: heard.append(run.call))
    bench.add("announce", when="after release succeeds", job="announce")
    assert bench.get("announce").trigger_text == "after release succeeds"
    bench.run_until("2026-03-27T09:00:00Z")
    work_through(bench)
    (release,), (call,) = bench.runs.list(schedule="release"), heard
    assert (call.source, call.type, call.text) == ("schedule", "succeeded", "released 1.2")
    assert (call.body["schedule"], call.body["run"]) == ("release", release.id)
    (run,) = bench.runs.list(schedule="announce")
    assert run.request_key == f"after:{release.id}"
    (listed,) = bench.calls.list(source="schedule")
    assert (listed.name, listed.key, listed.hops, listed.outcome) == ("release", release.id, 1, "accepted")


def test_an_end_that_is_delivered_twice_starts_one_run(bench: Sandbox) -> None:
    bench.add("release", when="0 9 * * *", job="work")
    bench.add("announce", on="release succeeds", job="work")
    bench.run_until("2026-03-27T09:00:00Z")
    work_through(bench)
    (ended,) = bench.events.list(types="run.succeeded", schedule="release")
    bench.subscriptions.redeliver("pipelines", ended.id)
    work_through(bench)
    assert states(bench, "announce") == ["succeeded"]


def test_a_circle_is_refused_when_it_is_made(bench: Sandbox) -> None:
    bench.add("a", when="0 9 * * *", job="work")
    bench.add("b", on={"schedule": "a"}, job="work")
    bench.add("c", on={"schedule": "b", "outcome": "end"}, job="work")
    with pytest.raises(Conflict, match="a → b → c → a") as caught:
        bench.edit("a", on={"schedule": "c"})
    assert caught.value.field == "on"
    assert "on" not in bench.get("a").settings
    with pytest.raises(Conflict, match="b → b"):
        bench.edit("b", on={"schedule": "b"})
    bench.delete("b")
    bench.edit("a", on={"schedule": "c"})  # the circle is cut


def test_a_chain_ends_after_ten_hops(bench: Sandbox) -> None:
    bench.add("s0", when="0 9 * * *", job="work")
    for number in range(1, 13):
        bench.add(f"s{number}", on={"schedule": f"s{number - 1}"}, job="work")
    bench.run_until("2026-03-27T09:00:00Z")
    work_through(bench)
    assert [bool(bench.runs.list(schedule=f"s{number}")) for number in (10, 11)] == [True, False]
    last = bench.calls.list()[0]
    assert (last.name, last.hops, last.outcome) == ("s10", 11, "ignored")
    assert last.reason == "The chain of calls has more than 10 schedules."


def test_names_are_those_of_agents_where_there_are_several(bench: Sandbox) -> None:
    bench.agents.set("ada", runner="message")
    bench.agents.set("bob", runner="message")
    for agent in ("ada", "bob"):
        bench.add("report", when="0 9 * * *", agent=agent, prompt="Report")
    with pytest.raises(Conflict, match="Several schedules"):
        bench.add("after", on={"schedule": "report"}, job="work")
    bench.add("after", on={"schedule": "ada/report"}, job="work")
    bench.run_until("2026-03-27T09:00:00Z")
    work_through(bench)
    (call,) = bench.calls.list()
    assert call.name == "ada/report"
    assert states(bench, "after") == ["succeeded"]


def test_before_the_first_pipeline_nothing_is_read(bench: Sandbox) -> None:
    """The subscription begins with the first follower: ends before it start nothing."""
    bench.add("release", when="0 9 * * *", job="work")
    bench.run_until("2026-03-27T09:00:00Z")
    bench.add("announce", on="release succeeds", job="work")
    work_through(bench)
    assert states(bench, "announce") == []
    bench.run_until("2026-03-28T09:00:00Z")
    work_through(bench)
    assert states(bench, "announce") == ["succeeded"]
