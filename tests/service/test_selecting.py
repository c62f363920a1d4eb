"""Selectors in the statements of both stores: they choose what the pure rule chooses."""

from __future__ import annotations

import random

import every_store
import pytest

from matins.engine.selectors import format_selector, selects
from matins.errors import InvalidInput
from matins.model.access import Principal
from matins.model.selector import Selectable, Selector, Term, Value
from matins.testing import Sandbox

postgres_server, postgres_url = every_store.postgres_server, every_store.postgres_url
url = every_store.each_dialect
bench, in_memory = every_store.bench, every_store.in_memory
SCOUT = Principal("agent", "scout")
_VALUES = {
    "name": ["a", "a[1]", "ops/b", "ops/*", "A", "*a*", "ops*", "a?", "50%", "*%", "*_*", "once", "*", "a/b"],
    "agent": ["ops", "dev", "", "o*", "O*", "*"],
    "state": ["active", "paused", "completed", "pending", "broken", "a*", "*e*", "*"],
    "pause": ["*", "none"],
    "label.team": ["ops", "Ops", "o*", "*", "%"],
    "label.a b": ["x", "*"],
}


def fill(bench: Sandbox) -> None:
    for agent in ("ops", "dev"):
        bench.agents.set(agent, runner="demo")
    for number, name in enumerate(["a", "A", "a[1]", "b", "50%", "x_y", "a/b", "ops"]):
        agent = ("", "ops", "dev")[number % 3]
        labels = ({"team": "ops"}, {"team": "Ops", "a b": "x"}, None, {"size": "%"})[number % 4]
        bench.add(name, when="0 9 * * *", job="work", agent=agent, labels=labels)
    bench.add("b", when="0 9 * * *", job="work", agent="dev", labels={"team": "%"})
    bench.add("once", when="2026-03-27T08:30:00Z", job="work")
    bench.add("called", on={"schedule": "once"}, job="work")
    bench.add("called-once", on={"schedule": "once"}, job="work", max_executions=1)
    bench.add("by-hand", steps=[{"title": "one", "job": "work"}])
    bench.acting_as(SCOUT).add("made", when="0 13 * * *", job="work")
    bench.pause("A", note="quota")
    bench.edit("a/b", labels={"team": "dev", "a b": "y"})
    bench.run_until("2026-03-27T08:40:00Z")


def test_stores_choose_as_the_rule_does(bench: Sandbox) -> None:
    """B20 B12: names, agents, states, labels and pauses, alone, together and negated, with patterns and signs of SQL"""
    fill(bench)
    everything = bench.list()
    assert {one.state for one in everything} == {"active", "paused", "completed", "pending"}
    chance = random.Random(7)
    for _ in range(80):
        terms: list[Term] = []
        for key in chance.sample(sorted(_VALUES), chance.choice([1, 1, 2, 3])):
            texts = chance.sample(_VALUES[key], min(chance.choice([1, 1, 2, 4]), len(_VALUES[key])))
            values = tuple(Value(text, "*" not in text) for text in texts)
            terms.append(Term(key, values, chance.random() < 0.3))
        select = format_selector(Selector(tuple(terms)))
        expected = [
            one.id
            for one in everything
            if selects(Selector(tuple(terms)), Selectable(one.name, one.agent, one.state, one.labels))
        ]
        assert [one.id for one in bench.list(select=select)] == expected, select
        assert bench.counts(select=select).all == len(expected), select
        found = [run.schedule for run in bench.runs.list(select=select, limit=1000)]
        known = {one.id: one.name for one in everything}
        assert set(found) == {"once"} & {known[number] for number in expected}, select


def test_labels_follow_the_revision(bench: Sandbox) -> None:
    """B20"""
    bench.add("s", when="0 9 * * *", job="work", labels={"team": "ops"})
    bench.edit("s", labels={"team": "dev"})
    assert bench.list(select="label.team=ops") == []
    bench.edit("s", labels=None)
    assert bench.list(select="label.team") == []
    bench.delete("s")
    bench.add("s", when="0 9 * * *", job="work", labels={"team": "ops"})
    assert [one.name for one in bench.list(select="label.team=ops")] == ["s"]
    bench.add_many([{"name": "t", "when": "0 9 * * *", "job": "work", "labels": {"team": "ops"}}])
    assert bench.counts(select="label.team=ops").all == 2


def test_a_list_of_names_may_be_long(bench: Sandbox) -> None:
    """B20"""
    bench.add("s", when="0 9 * * *", job="work")
    names = ",".join(f"s{number}" for number in range(499))
    assert [one.name for one in bench.list(select=f"s,{names}")] == ["s"]
    with pytest.raises(InvalidInput, match="more than 500 values"):
        bench.list(select=f"s,{names},t")
