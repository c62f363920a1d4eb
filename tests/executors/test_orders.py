"""Orders and outcomes as data: they survive JSON, say all that executors ask, and hold no secret."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterator
from dataclasses import replace
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matins.engine.schedules import SETTINGS, parse_schedule
from matins.errors import InvalidInput
from matins.executors.commands import Commands
from matins.executors.isolation import Isolation, Places
from matins.executors.job_context import JobContext
from matins.executors.orders import (
    OF_DEFINITION,
    VERSION,
    NotHere,
    Order,
    OrderContexts,
    OrderWriter,
    attempt_of,
    decode_order,
    decode_outcome,
    encode_order,
    encode_outcome,
    narrowed,
)
from matins.executors.preparation import Preparation
from matins.executors.processes.supervisor import SharedSupervisor
from matins.executors.processes.walls import Probe
from matins.executors.python import PythonExecutor, run_job
from matins.executors.registry import runners
from matins.executors.work_items import NoWork
from matins.model.run import Outcome
from matins.runtime.attempt import Attempt
from matins.runtime.catalog import Catalog
from matins.runtime.run_context import ContextLoader, RunContexts
from matins.testing import Sandbox

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
SIMPLE: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(max_size=8),
    int: st.integers(-(2**53), 2**53),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    types.NoneType: st.none(),
    Any: JSON,
}


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Made from annotations."""
    if kind in SIMPLE:
        return SIMPLE[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return st.one_of([values_of(argument) for argument in arguments])
    if origin is Annotated:
        return values_of(arguments[0])
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is dict:
        return st.dictionaries(values_of(arguments[0]), values_of(arguments[1]), max_size=2)
    if origin is tuple and arguments[-1] is Ellipsis:
        return st.lists(values_of(arguments[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*[values_of(argument) for argument in arguments])
    if issubclass(kind, IntEnum):
        return st.sampled_from(list(kind))
    return st.builds(kind, **{name: values_of(hint) for name, hint in get_type_hints(kind).items()})


@settings(max_examples=60)
@given(values_of(Order).map(lambda order: msgspec.structs.replace(order, v=VERSION)))
def test_an_order_survives_json(order: Order) -> None:
    """B18: what a worker reads is what the engine wrote"""
    assert decode_order(encode_order(order)) == order


@settings(max_examples=60)
@given(values_of(Outcome))
def test_an_outcome_survives_json(outcome: Outcome) -> None:
    """B18: what the engine reads is what the worker wrote"""
    tails = {"stdout": (90_000, b"packed")}
    assert decode_outcome(encode_outcome(outcome, tails)) == (outcome, tails)
    assert decode_outcome(encode_outcome(outcome)) == (outcome, {})


def test_a_result_that_json_cannot_hold_is_written_as_an_engine_stores_it() -> None:
    assert decode_outcome(encode_outcome(Outcome(True, {1})))[0].result == "{1}"


def test_a_newer_order_is_not_for_this_worker() -> None:
    """B18: a worker refuses what it may not understand, before anything starts"""
    with pytest.raises(NotHere) as caught:
        decode_order(b'{"v": 2, "run": {"in": "another form"}}')
    assert str(caught.value) == "The order has version 2, and this worker reads up to 1."
    assert caught.value.code == "not_here"
    for bad in (b"[]", b"{}", b"", b"\xff", b'{"v": 1, "run": "one"}'):
        with pytest.raises(InvalidInput, match="This is no "):
            decode_order(bad)
        with pytest.raises(InvalidInput, match="This is no outcome"):
            decode_outcome(bad)


OF_ENGINE = """
description labels workdir environment target inputs work_source steps runs_on host overlap queue_limit at_capacity
missing_job held_keeps_capacity catch_up catch_up_limit grace retries retry_delay max_retry_delay jitter ends_at
max_executions pause_after_failures late_after slow_after failure_backoff quiet_hours skip_on move_to
pre_check before_run after_run check_timeout approval approval_jobs approvers
approvals_required approval_timeout approval_default notify notify_on deliver deliver_on ping ping_style
fallback fallback_timeout final_fallback fresh_after fresh_after_tokens
"""
"""The settings that no executor reads, or that the agent of the order has already."""


def test_every_setting_is_sent_or_left_out_on_purpose() -> None:
    """A setting that executors read and orders lack would work on nodes and be ignored on workers."""
    of_engine = OF_ENGINE.split()
    given = {"job": "work", "payload": {"a": 1}, "ping": "https://hc.example/secret-key"}
    definition, _ = parse_schedule("0 9 * * *", given, 0)
    fields = {field.name for field in dataclasses.fields(definition)}
    own = {name for name, declared in SETTINGS.items() if declared.field in fields}
    sent = {name for name, declared in SETTINGS.items() if declared.field in (*OF_DEFINITION, "deliver_if")}
    assert sorted(own - sent) == sorted(of_engine)
    assert "secret-key" not in str(narrowed(definition, silence=False))


class Desk:
    """An engine whose attempts become orders instead of being started."""

    def __init__(self, folder: Path) -> None:
        self.matins = m = Sandbox(f"sqlite:///{folder}/matins.db")
        self.loader = ContextLoader(m.store, Catalog(), m.clock, 15_000, 60_000)
        self.writer = OrderWriter(m.store, self.loader, m.clock, m.jobs, str(folder))
        self.contexts = OrderContexts()
        self.orders: list[Order | None] = []
        self._folder = folder
        m.executor.before = self._take

    def _take(self, attempt: Attempt) -> None:
        order = self.writer.write(attempt)
        self.orders.append(order)
        if order is None:
            return
        there = decode_order(encode_order(order))
        self.contexts.orders[order.mark] = there
        here = self._prepared(self.loader, attempt)
        sent = self._prepared(self.contexts, attempt_of(there))
        assert sent == here, "a worker starts what a node would start"

    def _prepared(self, contexts: RunContexts, attempt: Attempt) -> Any:
        if not attempt.compiled.wakes_agent:
            executor = PythonExecutor(self.matins.jobs, self.matins.clock, lambda: None, contexts, threads=1)
            return run_job(executor, attempt)
        isolation = Isolation(lambda: Places(self._folder), lambda: Probe(False, "no keeper", "keeper"))
        commands = Commands(SharedSupervisor(lambda: pytest.fail("no process is started")))
        made = Preparation(runners(), self.matins.clock, contexts, str(self._folder), isolation, commands)
        found = made.recall(attempt, contexts.run_context(attempt))
        return replace(found.call, ask=None), found.command, found.limits, found.meter.session, found.meter.before

    def fire(self, name: str, **given: Any) -> Order:
        self.matins.run(name, **given)
        self.matins.settle()
        order = self.orders.pop()
        assert order is not None
        return order


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.matins.close()


def test_a_worker_prepares_what_a_node_prepares(desk: Desk, tmp_path: Path) -> None:
    """B18: prompt, input, call, steps, conversation, prices and limits reach the worker"""
    m = desk.matins
    m.agents.set("ann", runner="claude", workdir=str(tmp_path), max_cost="$2", environment={"KEY": "env:SOME_KEY"})
    m.agents.set(
        "oli", runner="openai", model="m", url="https://api.example/v1", environment={"OPENAI_API_KEY": "env:K"}
    )
    m.prices.set("m", input="$1", output="$2")
    m.budgets.set("all", max_cost="$5", period="day")
    m.add("plain", when="0 9 * * *", agent="ann", prompt="Run {{run}} of {{schedule}}", timeout="5m", model="opus")
    order = desk.fire("plain")
    assert order.settings is not None
    assert (order.name, order.attempt, order.settings["runner"]) == ("plain", 1, "claude")
    assert [(limit.money, limit.of) for limit in order.limits] == [
        (2_000_000, "allowed for one run"),
        (5_000_000, 'left in budget "all"'),
    ]
    assert order.prices.keys() == {"m"}
    inputs = {"topic": {"type": "text"}}
    m.add("asks", when="0 9 * * *", agent="ann", prompt="About {{input.topic}}", inputs=inputs, payload={"topic": "x"})
    assert desk.fire("asks", input={"topic": "otters"}).input == {"topic": "otters"}
    talk = {"kind": "channel", "channel": "C1"}
    m.add("talk", when="0 9 * * *", agent="oli", prompt="Hello", target=talk, keep="what is open", fresh_after=3)
    assert desk.fire("talk").assignment is not None
    m.add("run", when="0 9 * * *", command=["/bin/echo", "hi"], stdin="{{slot}}")
    assert desk.fire("run").definition["command"] == ["/bin/echo", "hi"]


def test_a_job_on_a_worker_sees_what_it_sees_on_a_node(desk: Desk) -> None:
    """B18: a step sees the results before it, its own payload, and the input of the whole run"""
    m = desk.matins

    @m.job("work")
    def work(run: JobContext) -> Any:
        seen = run.payload, run.input, dict(run.steps), run.call, run.previous_state, run.key, run.slot, run.workdir
        return [str(one) for one in seen]

    steps: list[Any] = [
        {"title": "Look", "job": "work", "payload": {"own": 1}},
        {"title": "Write", "job": "work", "after": ["Look"]},
    ]
    m.add("both", when="0 9 * * *", steps=steps, payload={"of": "all"})
    m.run_until("2026-01-01T10:00:00Z")
    first, second = (order for order in desk.orders if order is not None)
    assert (first.input, first.definition["payload"], first.steps) == ({"of": "all"}, {"own": 1}, {})
    assert second.steps.keys() == {"Look"}
    assert second.key == first.key[:-1] + "2"
    assert m.assert_ran("both", times=1)


def test_a_worker_writes_no_events_and_says_so(desk: Desk) -> None:
    m = desk.matins
    m.jobs["work"] = lambda run: run.emit("message.emitted", {})
    m.add("s", when="0 9 * * *", job="work")
    desk._prepared = lambda contexts, attempt: None  # type: ignore[method-assign]
    order = desk.fire("s")
    contexts = OrderContexts()
    contexts.orders[order.mark] = order
    executor = PythonExecutor(m.jobs, m.clock, lambda: None, contexts, threads=1)
    error = run_job(executor, attempt_of(order)).error
    assert error is not None
    assert 'A job on a worker cannot write the event "message.emitted": the worker has no store.' in error


def test_orders_hold_references_and_no_secret(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B18: values never leave for the history of another system"""
    monkeypatch.setenv("SOME_KEY", "sk-live-aaaa")
    (tmp_path / "key").write_text("sk-live-bbbb\n")
    m = desk.matins
    given = {"A_KEY": "env:SOME_KEY", "B_TOKEN": f"file:{tmp_path}/key", "LANG": "C"}
    m.agents.set("ann", runner="claude", workdir=str(tmp_path), environment=given)
    m.add(
        "s",
        when="0 9 * * *",
        agent="ann",
        prompt="Go",
        environment={"C_KEY": "env:SOME_KEY"},
        ping="https://p.example/k3y",
    )
    text = encode_order(desk.fire("s"))
    assert orjson.loads(text)["settings"]["environment"] == [
        *([*pair] for pair in given.items()),
        ["C_KEY", "env:SOME_KEY"],
    ]
    assert not any(secret in text for secret in (b"sk-live", b"k3y", m.store.run_key.encode(), b"mtr_"))
    m.agents.set("bob", runner="claude", environment={"MY_API_KEY": "sk-live-cccc"})
    m.add("t", when="0 9 * * *", agent="bob", prompt="Go")
    with pytest.raises(InvalidInput) as caught:
        desk.fire("t")
    assert str(caught.value) == (
        "MY_API_KEY of agent bob has a value, and values of secrets are not sent to other machines."
    )
    assert caught.value.hint == 'For example: environment={"MY_API_KEY": "env:MY_API_KEY"}.'


def test_the_sender_claims_the_work_item_and_reports_it(desk: Desk, tmp_path: Path) -> None:
    """B18: work items stay with the engine that sent the order"""
    m, tasks = desk.matins, tmp_path / "TASKS.yaml"
    tasks.write_text("tasks:\n  - {id: T-1, title: Water the fern, status: open}\n")
    m.work_sources.set("todo", kind="tasks", path=str(tasks))
    m.agents.set("ann", runner="claude", workdir=str(tmp_path))
    m.add("s", when="0 9 * * *", agent="ann", prompt="Do it", work_source="todo")
    attempts: list[Attempt] = []
    take = m.executor.before

    def noted(attempt: Attempt) -> None:
        take(attempt)
        attempts.append(attempt)

    m.executor.before = noted
    order = desk.fire("s")
    assert order.item is not None
    assert order.item.title == "Water the fern"
    assert "work_source" not in order.definition
    assert desk.writer.write_again(attempts[0]).item == order.item, "asked about again, it is the same item"
    done = desk.writer.received(attempts[0], Outcome(True, {"text": "done"}))
    assert done.result["work"] == {"item": order.item.id, "source": "todo", "untold": None}
    assert "done_at" in tasks.read_text()
    tasks.write_text("tasks:\n  - {id: T-2, title: Feed the cat, status: open}\n")
    desk.fire("s")
    assert '"claimed"' in tasks.read_text()
    desk.writer.give_back(attempts[1])
    assert '"open"' in tasks.read_text()
    tasks.write_text("tasks: []\n")
    with pytest.raises(NoWork):
        desk.fire("s")


def test_a_run_that_needs_an_approval_again_gets_no_order(desk: Desk, tmp_path: Path) -> None:
    """B18: an approval is for exactly what was shown; the sender compares"""
    m = desk.matins
    m.agents.set("ann", runner="claude", workdir=str(tmp_path))
    m.add("s", when="0 9 * * *", agent="ann", prompt="Go", approval="owner_approve")
    m.run("s")
    m.settle()
    take = m.executor.before

    def changed(attempt: Attempt) -> None:
        m.agents.set("ann", runner="claude", workdir=str(tmp_path), tools=["Bash"])
        take(attempt)

    m.executor.before = changed
    m.approvals.approve(m.approvals.list()[0].id)
    m.settle()
    assert desk.orders == [None]
