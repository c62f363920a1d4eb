"""A gate whose predicates are false never refuses: leaving it out changes nothing."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from matins.engine.gates import GATES, Candidate, Facts, Surroundings
from matins.engine.jobs import AGENT_JOB
from matins.engine.money import Budget, BudgetShortage, Charge, Shortfall
from matins.engine.policies import BEFORE_RUN, Policies
from matins.engine.quiet_hours import QuietHours, parse_windows
from matins.engine.schedules import parse_schedule
from matins.model.agent import Agent
from matins.model.policies import Hook, Throttle
from matins.model.run import RunState
from matins.model.schedule import ScheduleDefinition

HOUR_MS = 3_600_000
NOW = 1_000 * HOUR_MS
BUDGET = Budget("daily", max_cost=1_000_000)
LIVE = [state for state in RunState if state.live]
moments = st.integers(NOW - 3 * HOUR_MS, NOW + 3 * HOUR_MS)


def perhaps(*values: str) -> st.SearchStrategy[str | None]:
    return st.sampled_from((None, *values))


@st.composite
def definitions(draw: st.DrawFn) -> ScheduleDefinition:
    when = draw(st.sampled_from(["* * * * *", "1h", "2026-03-27T09:00"]))
    plain, _ = parse_schedule(when, {"job": draw(st.sampled_from(["work", "star_repo", "message", "expect_ping"]))}, 0)
    return replace(
        plain,
        job=draw(st.sampled_from([plain.job, AGENT_JOB])),
        overlap=draw(st.sampled_from(["skip", "queue", "cancel_other", "allow"])),
        queue_limit=draw(st.integers(1, 2)),
        at_capacity=draw(st.sampled_from(["wait", "skip"])),
        ends_at=draw(st.none() | moments),
        max_executions=draw(st.none() | st.integers(1, 3)),
        quiet_hours=draw(perhaps("always", "unknown")),
        skip_on=draw(st.sampled_from([(), ("1970-02-01..1970-02-28",)])),
        provider=draw(perhaps("anthropic", "openai")),
        pre_check=draw(perhaps("true")),
        before_run=draw(perhaps("true")),
        approval=draw(st.sampled_from(["auto", "owner_approve", "council_approve"])),
        approval_jobs=draw(st.sampled_from([(), ("work",)])),
    )


@st.composite
def policies(draw: st.DrawFn) -> Policies:
    quiet = QuietHours("always", parse_windows(["00:00-24:00"]), mode=draw(st.sampled_from(["skip", "defer"])))
    throttle = Throttle("anthropic", draw(moments), 0, draw(st.sampled_from([(), ("scout",)])), "429", "owner")
    agent = Agent("scout", provider="anthropic", runner="demo")
    return Policies(
        quiet_hours={"always": quiet} if draw(st.booleans()) else {},
        throttles={"anthropic": throttle} if draw(st.booleans()) else {},
        budgets=(BUDGET,) if draw(st.booleans()) else (),
        hooks={BEFORE_RUN: Hook(BEFORE_RUN, "true")} if draw(st.booleans()) else {},
        agents={"scout": agent} if draw(st.booleans()) else {},
    )


@st.composite
def candidates(draw: st.DrawFn) -> Candidate:
    in_force, now = draw(policies()), draw(moments)
    short = BudgetShortage(Charge(BUDGET, "all", "2026-03-27"), Shortfall("money", 1, 1, 1), NOW + HOUR_MS)
    facts = Facts(
        draw(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(LIVE)), max_size=3)),
        draw(st.booleans()),
        draw(st.sampled_from(["", "scout"])),
        in_force,
        short if in_force.budgets and draw(st.booleans()) else None,
        manual=draw(st.booleans()),
        guarded=draw(st.booleans()),
        paused=draw(st.booleans()),
        backs_off_until=draw(st.none() | moments),
    )
    slot, due_at, catching_up = draw(st.none() | moments), draw(st.none() | moments), draw(st.booleans())
    return Candidate(draw(definitions()), slot, facts, draw(st.integers(0, 3)), catching_up, now, due_at)


@given(candidates())
@settings(max_examples=400, deadline=None)
def test_a_gate_that_nothing_sets_off_never_refuses(candidate: Candidate) -> None:
    """B8"""
    surroundings = Surroundings(candidate.facts.policies, candidate.facts.guarded)
    for gate in GATES:
        set_off = gate.applies(candidate.definition) or gate.active(surroundings) or gate.touched(candidate.facts)
        assert set_off or gate.judge(candidate) is None, gate.name


def test_every_gate_refuses_something() -> None:
    """B8: what is drawn can set each of them off"""
    refusing: set[str] = set()

    @given(candidates())
    @settings(max_examples=200, deadline=None, derandomize=True)
    def look(candidate: Candidate) -> None:
        refusing.update(gate.name for gate in GATES if gate.judge(candidate) is not None)

    look()
    assert refusing == {gate.name for gate in GATES}
