"""An agent outside a run has no depth: the rules approve its one-shots, but only `min_interval` apart."""

from __future__ import annotations

import threading

import pytest
from security_cast import ROVER, SCOUT, Open, Watched

from matins.model.access import Principal

MINUTE = 60_000
DECIDES = "A person decides: the last one-shot of scout was approved by its rules less than 10m ago."


@pytest.fixture
def url(kept_url: str) -> str:
    return kept_url


@pytest.fixture
def open_door(bench: Watched) -> Watched:
    bench.agent_rules.set("*", auto_approve_one_shots=True, auto_approve_jobs=["work"], min_interval="10m")
    return bench


def add(bench: Watched, name: str, agent: Principal = SCOUT) -> str:
    return bench.acting_as(agent).add(name, when="in 1m", job="work").state


def test_b7_one_shots_of_a_standing_token_are_approved_by_rules_an_interval_apart(open_door: Watched) -> None:
    """B7: the others wait for a person; so a client's token is no way to renew a one-shot without end"""
    bench = open_door
    assert add(bench, "first") == "active"
    second = bench.acting_as(SCOUT).add("second", when="in 1m", job="work")
    assert (second.state, second.notes[-1]) == ("pending", DECIDES)
    assert bench.asked("second").request["note"] == DECIDES
    assert add(bench, "other", ROVER) == "active", "each agent is a chain of its own"
    bench.clock.advance(10 * MINUTE - 1)
    assert add(bench, "third") == "pending"
    bench.clock.advance(1)
    assert add(bench, "fourth") == "active"
    bench.approvals.approve(bench.asked("second").id)
    assert bench.get("second").state == "active"
    bench.clock.advance(10 * MINUTE)
    assert add(bench, "fifth") == "active", "what a person approved counts for nothing"


def test_b7_a_deleted_one_shot_still_counts(open_door: Watched) -> None:
    """B7"""
    bench = open_door
    assert add(bench, "first") == "active"
    bench.acting_as(SCOUT).delete("first")
    assert add(bench, "second") == "pending"


def test_b7_of_several_one_shots_in_one_call_the_first_is_approved(open_door: Watched) -> None:
    """B7"""
    bench = open_door
    bench.acting_as(SCOUT).add_many([{"name": f"s{n}", "when": "in 1m", "job": "work"} for n in range(3)])
    assert [bench.get(f"s{n}").state for n in range(3)] == ["active", "pending", "pending"]


def test_b7_a_preview_says_that_a_person_decides(open_door: Watched) -> None:
    """B7: and counts for nothing itself"""
    bench = open_door
    acting = bench.acting_as(SCOUT)
    for _ in range(2):
        assert not acting.preview_new("s", when="in 1m", job="work").needs_approval
    assert add(bench, "first") == "active"
    second = acting.preview_new("s", when="in 1m", job="work")
    assert (second.needs_approval, second.notes) == (True, [DECIDES])


def test_b7_a_run_has_a_depth_and_is_no_standing_token(open_door: Watched) -> None:
    """B7: the control; also after the clock was ahead"""
    bench = open_door
    bench.agent_rules.set("scout", auto_approve_one_shots=True, auto_approve_jobs=["work"], min_interval="10m")
    bench.add("s", when="5 * * * *", job="work", agent="scout")
    run = bench.run("s")
    inside = Principal("agent", "scout", int(run.id))
    assert [add(bench, f"s{n}", inside) for n in range(3)] == ["active"] * 3
    bench.clock.step(24 * 60 * MINUTE)
    assert add(bench, "ahead") == "active"
    bench.clock.step(-24 * 60 * MINUTE)
    assert add(bench, "back") == "active"
    assert add(bench, "at once") == "pending"


def add_at_once(benches: list[Watched], names: list[str]) -> list[str]:
    together, states = threading.Barrier(len(names)), list[str]()

    def go(one: Watched, name: str) -> None:
        together.wait()
        states.append(add(one, name))

    threads = [threading.Thread(target=go, args=pair) for pair in zip(benches, names, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(states)


def test_b7_two_one_shots_at_the_same_moment_are_not_both_approved(
    open_door: Watched, url: str, open_bench: Open
) -> None:
    """B7: on PostgreSQL from two processes"""
    benches = [open_door, open_bench(url) if url.startswith("postgresql") else open_door]
    for number in range(8):
        names = [f"{number} a", f"{number} b"]
        assert add_at_once(benches, names) == ["active", "pending"]
        for name in names:
            open_door.delete(name)
        open_door.clock.advance(10 * MINUTE)
