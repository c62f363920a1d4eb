"""The cause travels with the event: a subscriber that gets a failure gets its reason."""

import logging

import pytest

from matins.daemon.log_format import Lines, log_event
from matins.engine.reasons import sentence
from matins.engine.transitions import JOIN
from matins.model.run import RunState
from matins.testing import ManualClock, Sandbox


@pytest.fixture
def sandbox():
    found = Sandbox(clock=ManualClock("2026-03-27T08:00:00Z"))
    yield found
    found.close()


def test_a_failure_carries_its_error_and_the_sentence_of_why(sandbox, caplog):
    """B17, C7: events, callbacks (as webhooks get them) and the log say what `why` says."""

    @sandbox.job("report")
    def report(run):
        raise ValueError("the first line\nno disk left on /dev/sda1")

    heard = []
    sandbox.subscribe(heard.append, ["run.retrying", "run.failed"])
    sandbox.add("morning", when="0 9 * * *", job="report", retries=1, timezone="Europe/London")
    sandbox.run_until("2026-03-27T09:30:00Z")
    sandbox.outbox.run_once(sandbox.clock.now_ms())
    retrying, failed = [event["data"] for event in heard]
    why = sandbox.why("morning")
    assert failed["error"] == "no disk left on /dev/sda1"
    assert (failed["summary"], failed["quote"]) == ("Failed.", "no disk left on /dev/sda1")
    assert failed["summary"] in why.summary
    assert retrying["summary"].startswith("Retrying at 09:00:1")
    assert retrying["summary"].endswith("attempt 1 failed.")
    assert retrying["quote"] == "no disk left on /dev/sda1"
    with caplog.at_level(logging.INFO, "matins.events"):
        log_event(heard[1])
    line = Lines().format(caplog.records[-1])
    assert line.endswith("run.failed morning (run 1): Failed: no disk left on /dev/sda1.")


def test_slots_that_did_not_run_carry_the_sentence_too(sandbox):
    sandbox.jobs["report"] = lambda run: None
    sandbox.add("often", when="*/10 * * * *", job="report", grace="1m")
    sandbox.clock.advance(3_600_000)
    sandbox.settle()
    missed = sandbox.events.list(types=["schedule.missed"])
    assert missed
    assert all("no engine was running" in event.data["summary"] for event in missed)


def test_a_run_by_hand_that_is_over_budget_carries_the_sentence_too(sandbox):
    """B17: a run that is over when it is created, by every principal"""
    sandbox.jobs["report"] = lambda run: None
    sandbox.budgets.set("daily", period="day", max_cost="$1.00", timezone="UTC")
    sandbox.add("dear", when="0 9 * * *", job="report", max_cost="$1.20")
    sandbox.run("dear")
    sandbox.outbox.run_once(sandbox.clock.now_ms())
    (event,) = sandbox.events.list(types=["run.over_budget"])
    assert event.data["summary"].startswith('Over budget: budget "daily" had $1.00 left of $1.00')
    (incident,) = sandbox.incidents.list()
    assert incident.summary == event.data["summary"]


def test_the_end_of_a_run_of_steps_is_a_sentence(sandbox):
    """B17: no code of a reason; one of its steps expired"""
    sandbox.jobs["report"] = lambda run: None
    step = {"title": "first", "job": "report", "approval": "owner_approve"}
    sandbox.add("whole", when="0 9 * * *", steps=[step], approval_timeout="10m")
    sandbox.run_until("2026-03-27T09:30:00Z")
    assert sandbox.why("whole").summary.endswith("Expired: the approval of a step was not answered in time.")


ENDS = {
    RunState.FAILED: ("failed", "Failed.", 'step "first": no disk'),
    RunState.OVER_BUDGET: ("over_budget", "Over budget: the run reached its limit.", "no disk"),
    RunState.UNKNOWN: ("unknown", "Outcome unknown: the attempt did not report its end.", None),
    RunState.INTERRUPTED: ("stopped", "Interrupted: the engine stopped during the run.", None),
    RunState.CANCELLED: ("cancelled", "Cancelled.", None),
    RunState.DENIED: ("denied", "Denied: the approval of a step was denied.", "first"),
    RunState.EXPIRED: ("approval_expired", "Expired: the approval of a step was not answered in time.", "first"),
    RunState.SKIPPED: ("steps_skipped", "Skipped: a step was skipped.", 'step "first"'),
}


@pytest.mark.parametrize(("state", "end"), ENDS.items())
def test_each_end_of_a_run_of_steps_is_a_sentence(state, end):
    """B17: with its reason, and what others wrote about it as the quote"""
    reason, text, quote = end
    assert sentence(reason, {"steps": ["first"], "error": "no disk"}, "UTC", state=state) == (text, quote)


def test_all_ends_of_a_run_of_steps_are_known():
    """B17: a new outcome needs a sentence above"""
    assert set(JOIN) - {RunState.SUCCEEDED} == set(ENDS)


def test_the_audit_takes_the_cause_for_what_it_is(sandbox):
    """The sentence and the error in an event are no evidence of the run, which has the whole of both."""

    @sandbox.job("report")
    def report(run):
        raise ValueError("no disk left")

    sandbox.add("morning", when="0 9 * * *", job="report")
    sandbox.add("often", when="*/10 * * * *", job="report", grace="1m")
    sandbox.clock.advance(7_200_000)
    sandbox.settle()
    assert sandbox.runs.list(schedule="often")[-1].state == "missed"
    assert sandbox.audit.verify().problems == []
