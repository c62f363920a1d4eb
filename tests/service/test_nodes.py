"""Nodes are cordoned, drained and opened. Row B18."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

import postgres_fixtures
from matins import Matins
from matins.engine.when.triggers import to_ms
from matins.errors import Conflict, NotAllowed, NotFound
from matins.model.access import Principal
from matins.testing import ManualClock, Sandbox

postgres_server, postgres_url = postgres_fixtures.postgres_server, postgres_fixtures.postgres_url
SOON, NINE = "2026-03-27T08:59:55Z", "2026-03-27T09:00:00Z"
ANA = Principal("operator", "ana")


def test_b18_a_cordoned_node_takes_no_runs(postgres_url: str) -> None:
    """B18: its slots go to others; `why` says who cordoned it; a restart does not open it"""
    clock = ManualClock(SOON)
    build = Sandbox(postgres_url, clock=clock, name="build-1", labels=["gpu"], max_runs=8)
    with closing(build), closing(Sandbox(postgres_url, clock=clock, name="web-2")) as web:
        for bench in (build, web):
            bench.job("work")(lambda run: None)
            bench.settle()
        web.add("gpu", when="0 9 * * *", job="work", runs_on=["gpu"])
        web.add("any", when="0 9 * * *", job="work")
        node = web.acting_as(ANA).nodes.cordon("build-1", note="new driver")
        assert (node.state, node.by, node.note, node.max_runs, node.labels) == (
            "cordoned", "ana", "new driver", 8, ["gpu"],
        )  # fmt: skip
        clock.advance_to(NINE)
        build.settle()
        assert {run.schedule: run.state for run in web.runs.list()} == {"gpu": "ready", "any": "ready"}
        web.settle()
        assert {run.schedule: run.state for run in web.runs.list()} == {"gpu": "ready", "any": "succeeded"}
        why = web.why("gpu")
        assert "build-1 is cordoned by ana since 2026-03-27T08:59:55Z. web-2 has no gpu." in why.summary
        assert why.quote == "new driver"

        again = Sandbox(postgres_url, clock=clock, name="build-1", labels=["gpu"])
        with closing(again):
            again.job("work")(lambda run: None)
            again.settle()
            assert web.runs.list(schedule="gpu")[0].state == "ready"
        assert web.nodes.open("build-1").state == "open"
        build.settle()
        assert web.runs.list(schedule="gpu")[0].state == "succeeded"
        kinds = [event.type for event in web.events.list() if event.type.startswith("node.")]
        assert kinds == ["node.cordoned", "node.opened"]
        assert web.audit.verify().problems == []


def test_b18_rights_and_names_of_nodes() -> None:
    """B18: a viewer and an agent cordon nothing; an unknown node is refused with those that there are"""
    with closing(Sandbox(clock=ManualClock(SOON), name="build-1")) as bench:
        assert [node.name for node in bench.nodes.list()] == ["build-1"]
        for principal in (Principal("viewer", "vic"), Principal("agent", "scout")):
            with pytest.raises(NotAllowed, match=r"cannot (cordon nodes|call nodes.cordon)"):
                bench.acting_as(principal).nodes.cordon("build-1")
        with pytest.raises(NotFound, match='There is no node "build-2"'):
            bench.nodes.cordon("build-2")


def test_b18_a_node_is_drained(tmp_path: Path) -> None:
    """B18: what runs goes on, and is interrupted at the end of the time; then the node is empty, and can be opened"""
    clock = ManualClock(SOON)
    with closing(Sandbox(clock=clock, name="build-1")) as bench:
        calls = list[str]()
        bench.executor.interrupt = lambda: calls.append("interrupt") or 0  # type: ignore[method-assign]
        bench.executor.accept = lambda: calls.append("accept")  # type: ignore[method-assign]
        node = bench.nodes.drain("build-1", within="10m")
        assert node.ends_at is not None
        assert to_ms(node.ends_at) == clock.now_ms() + int(timedelta(minutes=10).total_seconds() * 1000)
        clock.advance(599_000)
        bench.settle()
        assert calls == []
        clock.advance(1_000)
        bench.settle()
        bench.settle()
        assert calls == ["interrupt"]
        bench.nodes.open("build-1")
        bench.settle()
        assert calls == ["interrupt", "accept"]


def test_b18_the_name_of_a_node_is_taken_once(postgres_url: str, tmp_path: Path) -> None:
    """B18: on this machine by an engine with another folder, and on another machine"""
    first = Matins(postgres_url, name="a", state_folder=str(tmp_path / "a"))
    first.start()
    try:
        for name in ("a", "far"):
            if name == "far":
                with first.store.transaction(0) as transaction:
                    beat = first.clock.now_ms()
                    transaction.insert_worker('{"host": "moon", "boot": "b"}', beat, json.dumps([]), "far")
            other = Matins(postgres_url, name=name, state_folder=str(tmp_path / "b"))
            with pytest.raises(Conflict, match=f'The node "{name}" runs already, on ') as caught:
                other.start()
            assert caught.value.field == "name"
            assert f"matins up --name {name}-2" in str(caught.value.hint)
            other.close()
    finally:
        first.stop()
        first.close()
