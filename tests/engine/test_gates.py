"""The gates, one by one and in their order."""

from __future__ import annotations

from typing import Any

import pytest

from matins.engine.gates import (
    BITS,
    Candidate,
    Facts,
    Mask,
    Surroundings,
    Verdict,
    active_gates,
    applicable_gates,
    choose,
    judge,
    touched_gates,
)
from matins.engine.policies import Policies
from matins.engine.schedules import parse_schedule
from matins.model.policies import Throttle
from matins.model.run import RunState

QUEUED, READY, RUNNING, HELD = RunState.QUEUED, RunState.READY, RunState.RUNNING, RunState.HELD


def judged(live: list[tuple[int, int]] | None = None, **given: Any) -> Verdict | None:
    executions, catching_up = given.pop("executions", 0), given.pop("catching_up", False)
    facts = Facts(live or [], given.pop("full", False))
    definition, _ = parse_schedule("* * * * *", {"job": "job", **given}, 0)
    return judge(Candidate(definition, 60_000, facts, executions, catching_up, 60_000))


@pytest.mark.parametrize("policy", ["skip", "queue", "cancel_other", "allow"])
def test_nothing_in_the_way(policy: str) -> None:
    """B8"""
    assert judged(overlap=policy) is None


@pytest.mark.parametrize("state", [RunState.WAITING, QUEUED, READY, RunState.STARTING, RUNNING, HELD])
def test_skip_says_which_run_is_in_the_way(state: RunState) -> None:
    """C9 B8: whatever state it is in, as long as it is not over"""
    verdict = judged([(7, state)])
    assert verdict == (RunState.SKIPPED, "already_running", {"run": "7", "state": state.label}, (), None)


def test_queue_waits_for_the_first() -> None:
    """B8"""
    assert judged([(7, RUNNING), (8, QUEUED)], overlap="queue") == (QUEUED, "waiting_for", {"run": "7"}, (), None)


def test_a_full_queue_skips() -> None:
    """B8"""
    live = [(7, RUNNING), (8, QUEUED), (9, QUEUED)]
    assert judged(live, overlap="queue", queue_limit=3) == (QUEUED, "waiting_for", {"run": "7"}, (), None)
    assert judged(live, overlap="queue", queue_limit=2) == (RunState.SKIPPED, "queue_full", {"queued": 2}, (), None)


def test_cancel_other_names_all_that_shall_end() -> None:
    """B8"""
    verdict = judged([(7, RUNNING), (8, QUEUED)], overlap="cancel_other")
    assert verdict == (QUEUED, "cancelling_other", {"runs": ["7", "8"]}, (7, 8), None)


def test_allow_runs_beside() -> None:
    """B8"""
    assert judged([(7, RUNNING)], overlap="allow") is None


@pytest.mark.parametrize("policy", ["skip", "queue", "cancel_other"])
def test_runs_that_catch_up_wait_for_one_another(policy: str) -> None:
    """S4: run_all_capped means that they all run"""
    verdict = judged([(0, READY)], overlap=policy, catching_up=True)
    assert verdict is not None
    assert (verdict.state, verdict.cancel) == (QUEUED, ())


def test_max_executions() -> None:
    """V5"""
    assert judged(max_executions=2, executions=1) is None
    assert judged(max_executions=2, executions=2) == (
        RunState.SKIPPED,
        "max_executions",
        {"max_executions": 2},
        (),
        None,
    )


def test_at_capacity() -> None:
    """H10 V3"""
    assert judged(full=True) is None, "it waits"
    assert judged(full=True, at_capacity="skip") == (RunState.SKIPPED, "at_capacity", None, (), None)
    assert judged(full=False, at_capacity="skip") is None


def test_the_first_gate_that_does_not_pass_gives_the_reason() -> None:
    """B8"""
    assert [gate.name for gate in choose("plan")] == [
        "paused", "ended", "backing_off", "calendar", "ping", "quiet_hours", "overlap", "throttle", "budget",
        "capacity",
    ]  # fmt: skip
    verdict = judged([(7, RUNNING)], max_executions=1, executions=1, full=True, at_capacity="skip")
    assert verdict is not None
    assert verdict.reason == "max_executions"
    verdict = judged([(7, RUNNING)], full=True, at_capacity="skip")
    assert verdict is not None
    assert verdict.reason == "already_running"


def test_only_the_gates_of_the_mask_are_judged() -> None:
    """B8: `test_declared_once` adds one"""
    definition, _ = parse_schedule("* * * * *", {"job": "job", "max_executions": 1, "at_capacity": "skip"}, 0)
    candidate = Candidate(definition, 0, Facts([(7, RUNNING)], full=True), 1, False, 0)
    found = [judge(candidate, bit) for bit in BITS.values()]
    assert [verdict.reason for verdict in found if verdict is not None] == [
        "max_executions", "already_running", "at_capacity",
    ]  # fmt: skip
    assert judge(candidate, 0) is None


def test_masks_are_counted_together() -> None:
    """B8: settings once for a revision, policies once in a turn, facts for each run"""
    plain, _ = parse_schedule("* * * * *", {"job": "job"}, 0)
    settings = {"quiet_hours": "nights", "ends_at": "2026-04-01T00:00", "approval": "owner_approve"}
    bound, _ = parse_schedule("* * * * *", {"job": "job", **settings}, 0)
    assert (applicable_gates(plain), active_gates(Surroundings()), touched_gates(Facts())) == (0, 0, 0)
    assert names(applicable_gates(bound)) == ["ended", "quiet_hours", "approval"]
    throttles = {"anthropic": Throttle("anthropic", 1, 0, (), "", "owner")}
    assert names(active_gates(Surroundings(Policies(throttles=throttles), guarded=True))) == ["throttle", "guard"]
    assert names(touched_gates(Facts([(7, RUNNING)], full=True))) == ["overlap", "capacity"]


def names(gates: Mask) -> list[str]:
    return [name for name, bit in BITS.items() if bit & gates]
