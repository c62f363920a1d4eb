"""Messages: the event, the run and the cursor are written together, on every store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import orjson
import pytest

import postgres_fixtures
from matins.engine.when.triggers import to_datetime
from matins.errors import InvalidInput
from matins.executors.runners.builtin import Message
from matins.executors.runners.protocol import EndpointConnection, RunnerRequest
from matins.runtime.capacity import Capacity
from matins.runtime.message_runs import emit
from matins.seeds import syris
from matins.testing import ManualClock, Sandbox

postgres_server = postgres_fixtures.postgres_server
postgres_url = postgres_fixtures.postgres_url
url = postgres_fixtures.url
HOUR = 3_600_000
TEMPLATE = {"text": "Good morning from {{schedule}}", "to": ["{{slot}}"], "source": {"channel": "forged", "note": "n"}}


@pytest.fixture
def bench(url: str) -> Iterator[Sandbox]:
    made = Sandbox(url, clock=ManualClock("2026-03-27T08:00:00Z"))
    made.agents.set("bell", runner="message")
    yield made
    assert made.audit.verify().problems == []
    made.close()


def emitted(bench: Sandbox) -> list[tuple[str, str, dict[str, Any]]]:
    """Schedule, run and data of each message."""
    with bench._store.reading() as transaction:
        events = transaction.logged(0, 10**9)
    return [(str(e.schedule_id), str(e.run_id), orjson.loads(e.data)) for e in events if e.type == "message.emitted"]


def test_s5_a_fire_emits_a_message_from_its_template(bench: Sandbox) -> None:
    """S5: "Emit MessageEvent with source.channel = "scheduler" and source.connector_id = schedule_id." """
    made = syris.create_schedule(bench, "s", "cron", "0 * * * *", payload=TEMPLATE)
    bench.clock.advance(HOUR)
    bench.settle()
    (run,) = bench.assert_ran("s", times=1)
    source = {"channel": "scheduler", "connector_id": str(made.id), "note": "n"}
    data = {"text": "Good morning from s", "to": ["2026-03-27T09:00:00+00:00"], "source": source}
    assert emitted(bench) == [(made.id, run.id, data)]
    assert run.outcome["result"] == {"message": data}


@pytest.mark.parametrize("payload", ["Hello {{run}}", None, 7], ids=["text", "nothing", "number"])
def test_s5_a_payload_that_is_no_mapping(bench: Sandbox, payload: Any) -> None:
    """S5"""
    made = bench.add("s", when="0 * * * *", job="message", payload=payload)
    bench.clock.advance(HOUR)
    bench.settle()
    ((_, run_id, data),) = emitted(bench)
    text = {"text": f"Hello {run_id}"} if isinstance(payload, str) else {} if payload is None else {"text": 7}
    assert data == {**text, "source": {"channel": "scheduler", "connector_id": str(made.id)}}


def test_s5_an_agent_may_hear_of_its_runs_so(bench: Sandbox) -> None:
    """S5 C3: no process and no network; the thread has what was said"""
    made = bench.add("s", when="0 * * * *", agent="bell", prompt="Ring for {{schedule}}", payload={"loud": True})
    bench.clock.advance(HOUR)
    bench.settle()
    (run,) = bench.assert_ran("s", times=1)
    text = "[Scheduled Task] Ring for s"
    source = {"channel": "scheduler", "connector_id": str(made.id)}
    assert emitted(bench) == [(made.id, run.id, {"loud": True, "text": text, "source": source})]
    assignment = bench.runs.thread(run.id)
    assert assignment is not None
    assert [(message.role, message.text) for message in bench.threads.messages(assignment.thread.id)] == [
        ("user", text)
    ]
    assert assignment.thread.state == "waiting"


@pytest.mark.parametrize("words", [{"job": "message"}, {"agent": "bell", "prompt": "Ring"}], ids=["job", "agent"])
def test_s2_the_event_the_run_and_the_cursor_commit_together(bench: Sandbox, words: dict[str, Any]) -> None:
    """S2: "Commit atomically." """
    bench.add("s", when="0 * * * *", **words)
    bench.clock.advance(HOUR)
    now = bench.clock.now_ms()

    def turn(*, die: bool) -> None:
        engine = bench.engine
        with bench._store.transaction(now) as transaction:
            policies = bench._catalog.policies(transaction)
            engine.clearance.begin(policies, guarded=False, capacity=10)
            engine.placement.clear()
            engine.placement.renew(transaction, transaction.turn_facts().places, bench.executor.offers())
            free = Capacity(10)
            planned = engine.planner.plan(transaction, now, engine.worker, free, 10).start
            works = planned + engine.dispatcher.claim(
                transaction, now, engine.worker, free, engine.placement.batch(transaction)
            )
            assert len(works) == 1
            assert emit(transaction, works, policies, now) == []
            if die:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        turn(die=True)
    assert (bench.runs.list(schedule="s"), emitted(bench), bench.get("s").next_run_at) == ([], [], to_datetime(now))
    turn(die=False)
    (run,) = bench.runs.list(schedule="s")
    assert (run.state, len(emitted(bench)), bench.get("s").next_run_at) == ("succeeded", 1, to_datetime(now + HOUR))
    bench.settle()
    assert len(emitted(bench)) == 1


def test_s2_one_turn_is_enough(bench: Sandbox) -> None:
    """S2 H2: also when every place in this process is taken"""
    bench.add("s", when="0 * * * *", job="message")
    bench.executor.capacity = lambda *, for_agents=False: 0
    bench.clock.advance(HOUR)
    bench.engine.turn()
    assert (len(emitted(bench)), bench.runs.list(schedule="s")[0].state) == (1, "succeeded")


def test_s5_a_message_that_was_put_off_is_emitted_once(bench: Sandbox) -> None:
    """S5 C6: the gates hold for it as for any other"""
    bench.add("s", when="0 * * * *", job="message", pre_check="exit 1")
    bench.add("t", when="0 * * * *", job="message", pre_check="exit 0")
    bench.clock.advance(HOUR)
    bench.settle()
    assert [run.state for run in bench.runs.list(schedule="s")] == ["skipped"]
    assert [run_id for _, run_id, _ in emitted(bench)] == [bench.runs.list(schedule="t")[0].id]


def test_s2_a_schedule_that_another_worker_has_is_left_to_it(postgres_url: str) -> None:
    """S2: whoever holds a run and waits for its cursor could wait for ever"""
    bench = Sandbox(postgres_url, clock=ManualClock("2026-03-27T08:00:00Z"))
    other = Sandbox(postgres_url, clock=bench.clock)
    made = bench.add("s", when="0 * * * *", job="message")
    bench.run("s")
    with other._store.transaction(bench.clock.now_ms()) as transaction:
        assert transaction.try_lock_due([int(made.id)]) == {int(made.id)}
        bench.engine.turn()
    assert emitted(bench) == []
    bench.engine.turn()
    assert len(emitted(bench)) == 1
    other.close()
    bench.close()


def test_an_interval_goes_on_from_its_message(bench: Sandbox) -> None:
    """S1: counted from completion, which is at once"""
    bench.add("s", when="10m", job="message")
    bench.run_until(bench.clock.now_ms() + HOUR)
    assert len(emitted(bench)) == len(bench.assert_ran("s")) == 6


def test_a_template_with_an_unknown_field_is_refused(bench: Sandbox) -> None:
    """S5: before it is made, with a suggestion"""
    for payload in ("{{slto}}", {"a": ["x {{slto}}"]}):
        with pytest.raises(InvalidInput, match="slto") as caught:
            bench.add("s", when="0 * * * *", job="message", payload=payload)
        assert (caught.value.field, caught.value.hint) == ("payload", "Did you mean {{slot}}?")
    with pytest.raises(InvalidInput, match="the schedule has no work source"):
        bench.add("s", when="0 * * * *", job="message", payload="{{work.title}}")
    assert bench.list() == []


def test_a_run_that_was_claimed_for_another_runner_is_not_lost_in_silence() -> None:
    """S5: its agent became a message between the claim and the start"""
    result = Message().call(RunnerRequest(prompt="x", workdir="/"), cast("EndpointConnection", None))
    assert (result.executed, result.succeeded) == (False, False)
    assert "start the run again" in (result.error or "")
    with pytest.raises(InvalidInput, match="NUL"):
        Message().check(RunnerRequest(prompt="a\0b", workdir="/"))
