"""Runs of several steps: unfolded, advanced and joined by the engine."""

from __future__ import annotations

from typing import Any

import pytest

from matins.api.results import Run, RunStep
from matins.errors import Conflict, InvalidInput, NotFound
from matins.model.access import Principal
from matins.testing import ManualClock, Sandbox

START = "2026-03-27T08:00:00Z"
ALWAYS = "2026-03-27T09:00:00Z"


@pytest.fixture
def sandbox() -> Any:
    made = Sandbox(clock=ManualClock(START))
    made.ran = []  # type: ignore[attr-defined]
    made.broken = set()  # type: ignore[attr-defined]

    @made.job("work")
    def work(run: Any) -> Any:
        made.ran.append(run.payload)  # type: ignore[attr-defined]
        if run.payload in made.broken:  # type: ignore[attr-defined]
            raise ValueError(f"{run.payload} is broken")
        return {"text": f"{run.payload} is done", "before": sorted(run.steps)}

    yield made
    made.close()


def step(title: str, *after: str, **more: Any) -> dict[str, Any]:
    return {"title": title, "job": "work", "payload": title, "after": list(after), **more}


def shown(run: Run) -> dict[str, str]:
    return {step.title: step.status for step in run.steps}


def newest(sandbox: Any, name: str = "m") -> Run:
    return sandbox.runs.get(sandbox.runs.list(schedule=name)[0].id)


def one(run: Run, title: str) -> RunStep:
    return next(step for step in run.steps if step.title == title)


def test_a_run_of_steps_does_each_after_what_it_waits_for(sandbox: Any) -> None:
    """P6 V13: one record for the slot, one for each step"""
    sandbox.add("m", when="0 9 * * *", steps=[step("C", "B"), step("A"), step("B", "A")])
    sandbox.run_until("2026-03-27T09:30:00Z")
    assert sandbox.ran == ["A", "B", "C"]
    (run,) = sandbox.runs.list(schedule="m")
    assert (run.state, run.steps) == ("succeeded", [])
    run = newest(sandbox)
    assert shown(run) == {"C": "succeeded", "A": "succeeded", "B": "succeeded"}
    assert run.outcome["result"] == {"text": "C is done", "before": ["A", "B"]}
    assert sandbox.get("m").executions == 1
    assert sandbox.runs.list() == [sandbox.runs.list(schedule="m")[0]]


def test_a_failure_stops_dependants_and_lets_the_others_go_on(sandbox: Any) -> None:
    """P6: each step keeps its own state"""
    sandbox.broken.add("A")
    sandbox.add("m", when="0 9 * * *", steps=[step("A"), step("B", "A"), step("C", "B"), step("D")])
    sandbox.run_until("2026-03-27T09:30:00Z")
    run = newest(sandbox)
    assert shown(run) == {"A": "failed", "B": "skipped", "C": "skipped", "D": "succeeded"}
    assert (run.state, run.reason, run.evidence) == ("failed", "failed", {"steps": ["A"]})
    assert "A is broken" in run.outcome["error"]
    assert one(run, "B").reason == "step_failed"
    assert sandbox.get("m").failures == 1


def test_events_of_steps_have_names_of_their_own(sandbox: Any) -> None:
    """P9: started and ended once, for the whole"""
    sandbox.add("m", when="0 9 * * *", steps=[step("A"), step("B", "A")])
    sandbox.run_until("2026-03-27T09:30:00Z")
    types = [event.type for event in sandbox.events.list()]
    assert [kind for kind in types if kind.startswith("run.")] == ["run.planned", "run.started", "run.succeeded"]
    assert types.count("step.started") == types.count("step.succeeded") == 2


def test_a_step_retries_first_and_then_the_run_repeats_what_did_not_succeed(sandbox: Any) -> None:
    """P2 B8"""
    sandbox.broken.add("B")
    sandbox.add("m", when="0 9 * * *", retries=1, steps=[step("A"), step("B", "A", retries=1), step("C", "B")])
    sandbox.run_until("2026-03-27T09:00:15Z")
    assert sandbox.ran == ["A", "B", "B"]
    assert newest(sandbox).status == "ready"
    sandbox.broken.clear()
    sandbox.run_until("2026-03-27T09:30:00Z")
    assert sandbox.ran == ["A", "B", "B", "B", "C"]
    run = newest(sandbox)
    assert (run.state, run.attempt) == ("succeeded", 2)
    assert one(run, "A").reason == "carried_over"
    assert one(run, "C").outcome["result"]["before"] == ["A", "B"]


def test_the_next_slot_waits_for_the_whole_run(sandbox: Any) -> None:
    """P8: never a second run of an active one"""
    sandbox.add("m", when="* * * * *", approval="owner_approve", steps=[step("A")])
    sandbox.run_until("2026-03-27T08:02:30Z")
    records = [(run.state, run.reason) for run in sandbox.runs.list(schedule="m")]
    assert records == [("skipped", "already_running"), ("running", None)]


def test_each_step_is_approved_by_itself_and_others_go_on(sandbox: Any) -> None:
    """V6 V13"""
    sandbox.add("m", when="0 9 * * *", steps=[step("A"), step("B", "A", approval="owner_approve"), step("C")])
    sandbox.run_until("2026-03-27T09:30:00Z")
    assert shown(newest(sandbox)) == {"A": "succeeded", "B": "awaiting_approval", "C": "succeeded"}
    (asked,) = sandbox.approvals.list()
    assert asked.request["payload"] == "B"
    sandbox.approvals.approve(asked.id)
    sandbox.settle()
    assert (newest(sandbox).state, sandbox.ran) == ("succeeded", ["A", "C", "B"])


def test_an_edit_in_flight_touches_neither_the_steps_nor_their_request(sandbox: Any) -> None:
    """V7"""
    sandbox.add("m", when="0 9 * * *", steps=[step("A", approval="owner_approve"), step("B", "A")])
    sandbox.run_until("2026-03-27T09:30:00Z")
    sandbox.edit("m", steps=[step("X")])
    (asked,) = sandbox.approvals.list()
    with pytest.raises(InvalidInput, match="cannot be edited"):
        sandbox.approvals.approve(asked.id, edits={"retries": 1})
    sandbox.approvals.approve(asked.id)
    sandbox.settle()
    assert sandbox.ran == ["A", "B"]


def test_a_denied_step_ends_the_run_as_denied(sandbox: Any) -> None:
    """V6 V13"""
    sandbox.add("m", when="0 9 * * *", steps=[step("A", approval="owner_approve"), step("B", "A")])
    sandbox.run_until("2026-03-27T09:30:00Z")
    sandbox.approvals.deny(sandbox.approvals.list()[0].id)
    assert shown(newest(sandbox)) == {"A": "denied", "B": "skipped"}
    assert newest(sandbox).state == "denied"


def test_a_cancelled_run_ends_with_its_last_step(sandbox: Any) -> None:
    """B8"""
    sandbox.add("m", when="0 9 * * *", steps=[step("A", approval="owner_approve"), step("B", "A")])
    sandbox.run_until("2026-03-27T09:30:00Z")
    run = sandbox.runs.cancel(newest(sandbox).id)
    assert (run.state, shown(run)) == ("cancelled", {"A": "cancelled", "B": "cancelled"})
    assert sandbox.approvals.list() == []


def test_of_a_cancelled_run_whose_steps_all_succeeded_nothing_is_left_to_retry(theatre: Any) -> None:
    """B8 S2: its steps would all be carried over, and the new run would never end"""
    theatre.add("m", when="0 9 * * *", steps=[step("A"), step("B", "A")])
    theatre.run_until("2026-03-27T09:00:00Z")
    theatre.end("m")
    run = theatre.runs.cancel(newest(theatre).id)
    theatre.end("m")
    ended = newest(theatre)
    assert (ended.state, shown(ended)) == ("cancelled", {"A": "succeeded", "B": "succeeded"})
    with pytest.raises(Conflict, match="nothing is left to retry") as caught:
        theatre.runs.retry(run.id)
    assert caught.value.hint == "Name the step to start from."
    again = theatre.runs.retry(run.id, from_step="B")
    theatre.settle()
    theatre.end("m")
    assert theatre.runs.get(again.id).state == "succeeded"


def test_a_paused_schedule_holds_steps_that_become_ready(sandbox: Any) -> None:
    """B8"""
    sandbox.add("m", when="0 9 * * *", steps=[step("A", approval="owner_approve"), step("B", "A")])
    sandbox.run_until("2026-03-27T09:30:00Z")
    sandbox.pause("m")
    sandbox.approvals.approve(sandbox.approvals.list()[0].id)
    sandbox.settle()
    assert (sandbox.ran, shown(newest(sandbox))) == ([], {"A": "paused", "B": "waiting_for_step"})
    sandbox.resume("m")
    sandbox.settle()
    assert (sandbox.ran, newest(sandbox).state) == (["A", "B"], "succeeded")


def test_gates_of_the_whole_run_are_asked_once(sandbox: Any) -> None:
    """C6 P7"""
    sandbox.add("m", when="0 9 * * *", pre_check="true", before_run="true", steps=[step("A"), step("B", "A")])
    sandbox.run_until("2026-03-27T09:30:00Z")
    run = newest(sandbox)
    assert run.state == "succeeded"
    assert [check.gate for check in sandbox.runs.checks(run.id)] == ["hook", "pre_check"]
    assert sandbox.runs.checks(f"{run.id}/1") == []


def test_limits_count_steps_and_not_their_run(sandbox: Any) -> None:
    """H10"""
    sandbox.limits.set("global", size=1)
    sandbox.add("m", when="0 9 * * *", steps=[step("A"), step("B"), step("C")])
    sandbox.run_until("2026-03-27T09:30:00Z")
    assert newest(sandbox).state == "succeeded"
    assert sandbox.limits.get("global").in_use == 0


def test_steps_share_the_limit_of_their_run(sandbox: Any) -> None:
    """B5"""

    @sandbox.job("spend")
    def spend(run: Any) -> None:
        run.spend("$0.60")

    steps = [step("A", job="spend"), step("B", "A", job="spend"), step("C", "B", job="spend")]
    sandbox.add("m", when="0 9 * * *", max_cost="$1", steps=steps)
    sandbox.run_until("2026-03-27T09:30:00Z")
    states = shown(newest(sandbox))
    assert (states["A"], states["C"]) == ("succeeded", "skipped")
    assert states["B"] == "over_budget"


def test_a_step_is_named_by_its_run_and_number(sandbox: Any) -> None:
    """V13"""
    sandbox.add("m", when="0 9 * * *", steps=[step("A"), step("B", "A")])
    sandbox.run_until("2026-03-27T09:30:00Z")
    run = newest(sandbox)
    second = sandbox.runs.get(f"{run.id}/2")
    assert (second.parent, second.step, second.id) == (run.id, 2, one(run, "B").run_id)
    with pytest.raises(NotFound, match=f"Run {run.id} has no step 3"):
        sandbox.runs.get(f"{run.id}/3")
    with pytest.raises(InvalidInput, match="is not a step"):
        sandbox.runs.get(f"{run.id}/two")


# -- retry


def test_a_retry_runs_again_what_failed(sandbox: Any) -> None:
    """B8: with the settings of then, and the results of what succeeded"""
    sandbox.broken.add("B")
    sandbox.add("m", when="0 9 * * *", steps=[step("A"), step("B", "A"), step("C", "B")])
    sandbox.run_until("2026-03-27T09:30:00Z")
    sandbox.broken.clear()
    failed = newest(sandbox)
    sandbox.edit("m", steps=[step("X")])
    again = sandbox.runs.retry(failed.id)
    assert again.retry_of == failed.id
    sandbox.settle()
    again = sandbox.runs.get(again.id)
    assert (again.state, sandbox.ran) == ("succeeded", ["A", "B", "B", "C"])
    assert one(again, "C").outcome["result"]["before"] == ["A", "B"]
    assert sandbox.runs.get(failed.id).state == "failed"


def test_a_retry_from_a_step_repeats_it_and_all_behind_it(sandbox: Any) -> None:
    """B8"""
    sandbox.add("m", when="0 9 * * *", steps=[step("A"), step("B", "A"), step("C", "B"), step("D", "A")])
    sandbox.run_until("2026-03-27T09:30:00Z")
    first = newest(sandbox).id
    with pytest.raises(Conflict, match="nothing is left to retry"):
        sandbox.runs.retry(first)
    with pytest.raises(InvalidInput, match='has no step "Z"'):
        sandbox.runs.retry(first, from_step="Z")
    sandbox.ran.clear()
    sandbox.runs.retry(first, from_step="B")
    sandbox.settle()
    assert sandbox.ran == ["B", "C"]
    sandbox.runs.retry(f"{first}/4")
    sandbox.settle()
    assert sandbox.ran == ["B", "C", "D"]


def test_a_retry_with_a_key_is_made_once(sandbox: Any) -> None:
    """B8: the same key gives the run that exists, also when that one has succeeded"""
    sandbox.broken.add("B")
    sandbox.add("m", when="0 9 * * *", overlap="allow", steps=[step("A"), step("B", "A")])
    sandbox.run_until("2026-03-27T09:30:00Z")
    failed = newest(sandbox).id
    sandbox.broken.clear()
    again = sandbox.runs.retry(failed, key="fix-1")
    assert sandbox.runs.retry(failed, key="fix-1").id == again.id
    sandbox.settle()
    assert sandbox.runs.retry(failed, key="fix-1").state == "succeeded"
    assert sandbox.runs.retry(failed, key="fix-2").id != again.id
    assert sandbox.ran == ["A", "B", "B"]


def test_a_plain_run_is_repeated_whole(sandbox: Any) -> None:
    """B8"""
    sandbox.broken.add("A")
    sandbox.add("m", when="0 9 * * *", job="work", payload="A")
    sandbox.run_until("2026-03-27T09:30:00Z")
    failed = newest(sandbox).id
    sandbox.broken.clear()
    again = sandbox.runs.retry(failed)
    sandbox.settle()
    assert (sandbox.runs.get(again.id).state, again.retry_of) == ("succeeded", failed)
    with pytest.raises(Conflict, match="nothing is left to retry"):
        sandbox.runs.retry(again.id)


# -- drafts, edits


def test_steps_without_a_time_wait_to_be_started(sandbox: Any) -> None:
    """P2: a draft"""
    made = sandbox.add("m", steps=[step("A")])
    assert (made.trigger_text, made.next_run_at, made.state, made.job) == ("never", None, "active", "steps")
    sandbox.run("m")
    sandbox.settle()
    assert (sandbox.ran, sandbox.get("m").state) == (["A"], "active")


def test_an_edit_turns_a_job_into_steps_and_back(sandbox: Any) -> None:
    """V13"""
    sandbox.add("m", when="0 9 * * *", job="work", payload="A")
    made = sandbox.edit("m", steps=[step("B")])
    assert (made.job, [item["title"] for item in made.settings["steps"]]) == ("steps", ["B"])
    made = sandbox.edit("m", steps=None, job="work")
    assert (made.job, "steps" in made.settings) == ("work", False)


def test_an_agent_cannot_wake_others_through_a_step(sandbox: Any) -> None:
    """B7"""
    sandbox.agents.set("scout", runner="demo")
    scout = sandbox.acting_as(Principal("agent", "scout"))
    with pytest.raises(Exception, match="scout cannot schedule ops"):
        scout.add("m", when="0 9 * * *", steps=[{"title": "A", "prompt": "Hello", "agent": "ops"}])
    assert scout.add("m", when="0 9 * * *", steps=[{"title": "A", "prompt": "Hello"}]).state == "pending"


def test_history_is_pruned_with_its_steps(sandbox: Any) -> None:
    """S7"""
    sandbox.add("m", when="0 9 * * *", max_cost="$5", steps=[step("A"), step("B", "A")])
    sandbox.run_until("2026-03-27T09:30:00Z")
    with sandbox._store.transaction(sandbox.clock.now_ms()) as transaction:
        found = transaction.prunable(sandbox.clock.now_ms() + 1, sandbox.clock.now_ms(), 100)
        assert found == [int(newest(sandbox).id)]
        transaction.delete_runs(found)
        assert transaction.steps_of(found[0]) == []
