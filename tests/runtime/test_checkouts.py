"""Runs whose agents work in the same git checkout take turns, unless an agent shares it or has worktrees. B22."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import postgres_fixtures
from matins.model.run import AgentTurn, Outcome
from matins.runtime.attempt import Attempt, AttemptEnd
from matins.testing import InlineExecutor, ManualClock, Sandbox

postgres_server, postgres_url = postgres_fixtures.postgres_server, postgres_fixtures.postgres_url
url = postgres_fixtures.kept_url
BUSY = "checkout_busy"


class Tool(InlineExecutor):
    """Stands for the tools of agents: a run goes on until it is told to end."""

    def begin(self) -> None:
        self.working: dict[str, Attempt] = {}

    def submit(self, batch: list[Attempt]) -> None:
        self._submitted |= {work.mark for work in batch}
        self.working |= {str(work.run_id): work for work in batch}

    def end(self, run_id: str) -> None:
        work = self.working.pop(run_id)
        self._done.append(AttemptEnd(work, Outcome(True, turn=AgentTurn("asked", "answered", None))))


class Checkout(Sandbox):
    def __init__(self, url: str, folder: Path) -> None:
        super().__init__(url, clock=ManualClock("2026-03-27T08:00:00Z"))
        self.tool = Tool(self.jobs, self.clock, lambda: None, self._loader, threads=8)
        self.tool.begin()
        self.executor = self.engine.executor = self.tool
        self.folder = folder / "garden"
        for inside in (".git", "docs"):
            (self.folder / inside).mkdir(parents=True, exist_ok=True)

    def agent(self, name: str, folder: str = ".", **settings: Any) -> None:
        self.agents.set(name, runner="demo", workdir=str(self.folder / folder), **settings)
        self.add(name, when="every day at 09:00", agent=name, prompt="Go on", overlap="allow")

    def start(self, name: str) -> str:
        run = self.run(name)
        self.settle()
        return run.id

    def states(self, *runs: str) -> list[str]:
        """A run that was handed over counts as running."""
        return [self.runs.get(run).state.replace("starting", "running") for run in runs]


@pytest.fixture
def checkout(url: str, tmp_path: Path) -> Iterator[Checkout]:
    made = Checkout(url, tmp_path)
    yield made
    made.close()


def test_b22_runs_in_one_checkout_take_turns(checkout: Checkout) -> None:
    """B22: also from a folder below it, and `why` names the run that is there"""
    checkout.agent("ann")
    checkout.agent("bob", "docs")
    first, second = checkout.start("ann"), checkout.start("bob")
    assert checkout.states(first, second) == ["running", "waiting"]
    waiting = checkout.runs.get(second)
    assert (waiting.reason, (waiting.evidence or {})["run"]) == (BUSY, first)
    summary = checkout.why("bob").summary
    assert f"run {first} works in {checkout.folder.resolve()}" in summary
    assert "worktree: shared" in summary
    checkout.tool.end(first)
    checkout.settle()
    checkout.clock.advance(2_000)
    checkout.settle()
    assert checkout.states(first, second) == ["succeeded", "running"]


def test_b22_engines_that_claim_at_once_take_turns(tmp_path: Path, postgres_url: str) -> None:
    """B22 S2: two engines on one PostgreSQL, each with a run for the same checkout"""
    one, other = Checkout(postgres_url, tmp_path), Checkout(postgres_url, tmp_path)
    try:
        for name in ("ann", "bob"):
            one.agent(name)
        for _ in range(10):
            runs = [one.run(name).id for name in ("ann", "bob")]
            threads = [threading.Thread(target=each.engine.turn) for each in (one, other)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            working = {**one.tool.working, **other.tool.working}
            assert len(working) == 1, runs
            while one.tool.working or other.tool.working:
                for each in (one, other):
                    for run in list(each.tool.working):
                        each.tool.end(run)
                    each.settle()
                one.clock.advance(2_000)
                other.clock.advance(2_000)
                for each in (one, other):
                    each.settle()
            assert one.states(*runs) == ["succeeded", "succeeded"]
    finally:
        one.close()
        other.close()


def test_b22_two_runs_of_one_turn_take_turns(checkout: Checkout) -> None:
    checkout.agent("ann")
    checkout.agent("bob")
    runs = [checkout.run(name).id for name in ("ann", "bob")]
    checkout.settle()
    assert sorted(checkout.states(*runs)) == ["running", "waiting"]


@pytest.mark.parametrize(
    ("settings", "folder"),
    [
        ({"worktree": "shared"}, "."),
        ({"worktree": "per_run"}, "."),
        ({"max_concurrent": 2}, "."),
        ({"worktree": "exclusive"}, ".."),  # no checkout
    ],
)
def test_b22_who_does_not_wait(checkout: Checkout, settings: dict[str, Any], folder: str) -> None:
    checkout.agent("ann", folder, **settings)
    assert checkout.states(checkout.start("ann"), checkout.start("ann")) == ["running", "running"]


def test_b22_an_agent_with_several_runs_may_still_take_turns(checkout: Checkout) -> None:
    checkout.agent("ann", max_concurrent=2, worktree="exclusive")
    assert checkout.states(checkout.start("ann"), checkout.start("ann")) == ["running", "waiting"]


def test_b22_an_agents_own_folder_is_no_checkout(checkout: Checkout) -> None:
    """The home of Matins may lie in a checkout, as that of the demonstration does."""
    checkout.agents.set("ann", runner="demo")
    checkout.add("ann", when="every day at 09:00", agent="ann", prompt="Go on", overlap="allow")
    assert checkout.states(checkout.start("ann"), checkout.start("ann")) == ["running", "running"]


def test_b22_a_run_that_waits_for_a_person_leaves_the_checkout(checkout: Checkout) -> None:
    """A held run has no process."""
    checkout.agent("ann")
    checkout.agent("bob")
    checkout.edit("ann", on_unknown="hold")
    first = checkout.start("ann")
    work = checkout.tool.working.pop(first)
    checkout.tool._done.append(AttemptEnd(work, Outcome(False, lost=True, error="gone")))
    checkout.settle()
    assert checkout.states(first, checkout.start("bob")) == ["held", "running"]
