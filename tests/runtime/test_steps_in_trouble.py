"""Runs of steps whose schedule is paused, rejected, deleted or unreadable, and whose steps belong to several agents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from matins.api.results import Run
from matins.errors import Conflict
from matins.model.access import Principal
from matins.testing import ManualClock, Sandbox


@pytest.fixture
def sandbox() -> Iterator[Any]:
    made: Any = Sandbox(clock=ManualClock("2026-03-27T08:00:00Z"))
    made.ran = []
    made.meanwhile = {}
    """What happens while a step runs, by its title."""

    @made.job("work")
    def work(run: Any) -> None:
        made.ran.append(run.payload)
        made.meanwhile.get(run.payload, lambda: None)()

    yield made
    made.close()


def step(title: str, *after: str, **more: Any) -> dict[str, Any]:
    return {"title": title, "job": "work", "payload": title, "after": list(after), **more}


def newest(sandbox: Any) -> Run:
    return sandbox.runs.get(sandbox.runs.list()[0].id)


def shown(run: Run) -> dict[str, str]:
    return {step.title: step.status for step in run.steps}


def spoil(sandbox: Any) -> None:
    """Store settings that nobody can read."""
    sandbox._store._connection.execute("UPDATE revisions SET definition = '{'")
    for catalog in (sandbox.engine._catalog, sandbox._service.core.catalog):
        catalog.clear()


def fail(*before: Callable[[], Any]) -> Callable[[], None]:
    def failing() -> None:
        for act in before:
            act()
        raise ValueError("it is broken")

    return failing


# -- paused, rejected, deleted


def test_no_new_round_starts_while_the_schedule_is_paused(sandbox: Any) -> None:
    """B8 P2: a step that runs goes on; the run is held before its next round."""
    sandbox.add("m", when="0 9 * * *", retries=1, retry_delay="1s", steps=[step("A"), step("B", "A")])
    sandbox.meanwhile["A"] = fail(lambda: sandbox.pause("m"))
    sandbox.run_until("2026-03-27T09:30:00Z")
    run = newest(sandbox)
    assert (run.state, run.reason, sandbox.ran) == ("waiting", "paused", ["A"])
    sandbox.meanwhile.clear()
    sandbox.resume("m")
    sandbox.settle()
    assert (newest(sandbox).state, sandbox.ran) == ("succeeded", ["A", "A", "B"])


def test_a_rejected_schedule_leaves_no_step_behind(sandbox: Any) -> None:
    """B7: the step that runs ends by itself, and the others never start."""
    ann = sandbox.acting_as(Principal("agent", "ann"))
    ann.add("m", when="0 9 * * *", steps=[step("A"), step("B", "A")])
    sandbox.approvals.approve(sandbox.approvals.list()[0].id)
    sandbox.meanwhile["A"] = lambda: ann.edit("m", when="0 10 * * *")
    sandbox.run_until("2026-03-27T09:30:00Z")
    assert shown(newest(sandbox)) == {"A": "succeeded", "B": "paused"}
    sandbox.approvals.deny(sandbox.approvals.list()[0].id)
    sandbox.settle()
    run = newest(sandbox)
    assert (run.state, shown(run), sandbox.ran) == ("cancelled", {"A": "succeeded", "B": "cancelled"}, ["A"])


def test_a_run_of_a_deleted_schedule_is_not_repeated(sandbox: Any) -> None:
    """B8"""
    sandbox.meanwhile["A"] = fail()
    sandbox.add("m", when="0 9 * * *", steps=[step("A")])
    sandbox.run_until("2026-03-27T09:30:00Z")
    run = newest(sandbox)
    sandbox.delete("m")
    with pytest.raises(Conflict, match='"m" is deleted and cannot run'):
        sandbox.runs.retry(run.id)


# -- settings that cannot be read


def test_a_cancelled_run_ends_although_its_settings_cannot_be_read(sandbox: Any) -> None:
    """S8"""
    sandbox.add("m", when="0 9 * * *", steps=[step("A", approval="owner_approve"), step("B", "A")])
    sandbox.run_until("2026-03-27T09:30:00Z")
    spoil(sandbox)
    sandbox.runs.cancel(sandbox.runs.list()[0].id)
    assert states(sandbox) == [("unknown", "unreadable"), ("cancelled", "unreadable"), ("cancelled", "unreadable")]
    assert ends(sandbox) == ["step.cancelled", "step.cancelled", "run.unknown"]


def test_a_denied_step_ends_its_run_although_its_settings_cannot_be_read(sandbox: Any) -> None:
    """S8 V6"""
    sandbox.add("m", when="0 9 * * *", steps=[step("A", approval="owner_approve"), step("B", "A")])
    sandbox.run_until("2026-03-27T09:30:00Z")
    spoil(sandbox)
    sandbox.approvals.deny(sandbox.approvals.list()[0].id)
    assert states(sandbox) == [("unknown", "unreadable"), ("denied", "unreadable"), ("cancelled", "unreadable")]


def test_a_step_that_ends_after_its_settings_were_spoiled_ends_its_run(sandbox: Any) -> None:
    """S8: its result is recorded, nothing starts behind it, and the engine goes on."""
    sandbox.add("m", when="0 9 * * *", steps=[step("A"), step("B", "A")])
    sandbox.meanwhile["A"] = lambda: spoil(sandbox)
    sandbox.run_until("2026-03-27T09:30:00Z")
    assert states(sandbox) == [("unknown", "unreadable"), ("succeeded", None), ("cancelled", "unreadable")]
    assert sandbox.ran == ["A"]


def states(sandbox: Any) -> list[tuple[str, str | None]]:
    """Of the newest run and of its steps, as they are stored: without settings there are no titles."""
    with sandbox._store.reading() as transaction:
        (run,) = transaction.recent_runs(1 << 60, 1, None)
        rows = [run, *transaction.steps_of(run.id)]
    labels = [sandbox.runs.get(row.id).state for row in rows]
    return [(label, row.reason) for label, row in zip(labels, rows, strict=True)]


def ends(sandbox: Any) -> list[str]:
    return [event.type for event in sandbox.events.list() if event.type.endswith((".cancelled", ".unknown"))]


# -- edits


def test_an_edit_gives_a_schedule_more_steps_and_fewer(sandbox: Any) -> None:
    """V13"""
    sandbox.add("m", when="0 9 * * *", steps=[step("A")])
    for titles in (["A", "B", "C"], ["B"]):
        made = sandbox.edit("m", steps=[step(title) for title in titles])
        assert [one["title"] for one in made.settings["steps"]] == titles


# -- steps of other agents


def test_the_budget_of_a_schedule_holds_for_the_steps_of_other_agents(sandbox: Any) -> None:
    """B5"""

    @sandbox.job("spend")
    def spend(run: Any) -> None:
        run.spend("$0.60")

    sandbox.budgets.set("cap", period="day", max_cost="$1", scope="schedule", of="/m")
    steps = [step("A", job="spend", agent="ann", max_cost="$0.60"), step("B", "A", job="spend", max_cost="$0.60")]
    sandbox.add("m", when="0 9 * * *", steps=steps)
    sandbox.run_until("2026-03-27T09:30:00Z")
    assert shown(newest(sandbox)) == {"A": "succeeded", "B": "over_budget"}
