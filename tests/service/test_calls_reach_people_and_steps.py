"""The body of a call: in the prompts of steps, on the card of an approval, and in the trial of an endpoint."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest

from matins import InvalidInput, Matins
from matins.engine.prompts import MAX_CALL_BYTES
from matins.jobs import JobType, Setting, Text
from matins.testing import ManualClock, Sandbox

PR = {"number": 7, "pull_request": {"title": "Fix the door"}}


def endpoint(m: Matins) -> None:
    m.inbound.set("prs", kind="github", secret="env:GH_SECRET")


def test_b13_steps_read_the_call(tmp_path: Path) -> None:
    """B13 H5 P6: each step sees the call that started its run, here as it is, because a program reads it"""
    with closing(Matins(f"sqlite:///{tmp_path}/matins.db")) as m, m:
        endpoint(m)
        m.agents.set("scout", runner="shell", command=["cat"])
        steps = [
            {"title": "Read", "prompt": "Read {{call.body.pull_request.title}} ({{call.id}})"},
            {"title": "Judge", "prompt": "Number {{call.body.number}} after {{steps.read.text}}", "after": ["Read"]},
        ]
        m.add("review", on={"webhook": "prs"}, agent="scout", steps=steps)
        call = m.calls.fire("webhook", "prs", "d1", body=PR)
        run = m.runs.wait(call.runs[0].id, timeout=90)
        assert run.state == "succeeded", run.steps
        read, judge = (step.outcome["result"]["text"] for step in run.steps)
        assert read == "Read Fix the door (d1)\n"
        assert judge == f"Number 7 after {read}\n".replace("\n\n", "\n")


def test_steps_of_a_schedule_that_no_call_starts_cannot_name_one() -> None:
    with closing(Sandbox()) as bench:
        bench.agents.set("scout", runner="demo")
        with pytest.raises(InvalidInput, match="no call starts the schedule"):
            bench.add("s", when="0 9 * * *", agent="scout", steps=[{"title": "A", "prompt": "Read {{call.body}}"}])


def asked(bench: Sandbox, body: Any) -> Any:
    endpoint(bench)
    bench.job("work")(lambda run: run.call.body["number"])
    bench.add("s", on={"webhook": "prs"}, job="work", approval="owner_approve")
    bench.calls.fire("webhook", "prs", "d1", type="pull_request", body=body)
    bench.settle()
    (approval,) = bench.approvals.list()
    return approval


def test_v6_an_approval_shows_the_body_of_the_call() -> None:
    """V6 B7: who approves a run sees what started it, and it is what the run gets"""
    with closing(Sandbox(clock=ManualClock("2026-03-27T08:00:00Z"))) as bench:
        approval = asked(bench, PR)
        shown = {"id": "d1", "source": "webhook", "type": "pull_request", "text": None, "body": PR}
        assert approval.request["call"] == shown
        bench.approvals.approve(approval.id)
        bench.settle()
        (run,) = bench.runs.list(schedule="s")
        assert (run.state, (run.outcome or {})["result"]) == ("succeeded", 7)


def test_an_approval_shows_the_beginning_of_a_large_body() -> None:
    with closing(Sandbox(clock=ManualClock("2026-03-27T08:00:00Z"))) as bench:
        body = asked(bench, {"number": 1, "text": "x" * 2 * MAX_CALL_BYTES}).request["call"]["body"]
        assert body.startswith('{\n  "number": 1')
        assert MAX_CALL_BYTES < len(body) < MAX_CALL_BYTES + 100
        assert body.endswith(" characters)")


@dataclass(frozen=True)
class Triage:
    label: Annotated[str, Setting(Text(), "Label of the issues.", "bug", required=True)]


def test_the_trial_of_an_endpoint_shows_the_prompt_of_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the agent of a job would read: the prompt of the job's type, then the schedule's own"""
    monkeypatch.setenv("GH_SECRET", "0123456789abcdef")
    with closing(Sandbox()) as bench:
        endpoint(bench)
        bench.agents.set("scout", runner="demo")
        bench.jobs.register(JobType("triage", "Sort.", Triage, prompt=lambda given: f"Triage {given.label}."))
        bench.add(
            "s", on={"webhook": "prs"}, agent="scout", job="triage", payload={"label": "bug"},
            prompt="Begin with {{call.body.number}}.",
        )  # fmt: skip
        (tested,) = bench.inbound.test("prs", body=PR, dry_run=True).schedules
        assert "Triage bug.\n\nBegin with <data" in (tested.prompt or "")
