"""A cost that cannot be right is not zero: the reservation is charged, the run says so, and the budget asks."""

from __future__ import annotations

import json
from pathlib import Path

import office as offices
import pytest
from office import Office

from matins.executors.runners.outcomes import StreamNotes
from matins.executors.runners.tool_events import read_event, storable

office = offices.office
RESULT = {
    "type": "result", "subtype": "success", "is_error": False, "result": "done", "session_id": "s", "num_turns": 1,
    "usage": {"input_tokens": 1, "output_tokens": 1}, "permission_denials": [],
}  # fmt: skip


@pytest.mark.parametrize("cost", ["-5", "NaN", "-Infinity", "1e999", "100001", '"free"', "true"])
def test_b5_an_impossible_cost_is_charged_as_reserved(office: Office, tmp_path: Path, cost: str) -> None:
    """B5 B16"""
    m = office.matins
    line = json.dumps(RESULT)[:-1] + f', "total_cost_usd": {cost}}}'
    claude = tmp_path / "bin" / "claude"
    claude.parent.mkdir()
    claude.write_text(f"#!/bin/sh\ncat > /dev/null\ncat <<'END'\n{line}\nEND\n")
    claude.chmod(0o755)
    m.agents.set("ann", runner="claude", environment={"PATH": f"{claude.parent}:/usr/bin:/bin"}, max_cost="$2")
    m.budgets.set("day", period="day", max_cost="$10")
    m.add("s", when="every 1 day", agent="ann", prompt="Go.")
    run = office.fire("s")
    assert run.state == "succeeded", run.outcome
    assert run.outcome["result"]["money"]["problem"] == "the tool reported a cost that cannot be right"
    (usage,) = m.budgets.list()[0].usage
    assert usage.money == "$2.00"
    (asked,) = m.approvals.list()
    assert "reported a cost that cannot be right" in asked.request["note"]
    assert m.get("s").state == "paused"


@pytest.mark.parametrize("cost", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_b5_no_reader_takes_a_cost_that_is_not_finite_for_none(cost: str) -> None:
    """B5: whichever tool reports it; its text is stored without it"""
    event = read_event(f'{{"cost": {cost}, "more": {{"x": {cost}}}}}'.encode())
    assert event is not None
    notes = StreamNotes()
    notes.report_cost(event, "cost")
    assert (notes.cost_usd, notes.cost_invalid) == (None, True)
    assert storable(event.raw) == {"cost": None, "more": {"x": None}}


def test_b5_a_message_reserves_nothing(office: Office) -> None:
    """B5: it runs where a budget has no room for anything, and nothing is charged"""
    m = office.matins
    m.budgets.set("day", period="day", max_cost="$0.01")
    m.add("note", when="every 1 day", job="message", payload={"text": "Good morning"})
    assert office.fire("note").state == "succeeded"
    assert not [one for one in m.budgets.list()[0].usage if (one.money, one.money_reserved) != ("$0.00", "$0.00")]
    assert not m.approvals.list()
