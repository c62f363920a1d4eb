"""A cost that cannot be right is not zero: the reservation is charged, the run says so, and the budget asks."""

from __future__ import annotations

import json
from pathlib import Path

import office as offices
import pytest
from office import Office

office = offices.office
RESULT = {
    "type": "result", "subtype": "success", "is_error": False, "result": "done", "session_id": "s", "num_turns": 1,
    "usage": {"input_tokens": 1, "output_tokens": 1}, "permission_denials": [],
}  # fmt: skip


@pytest.mark.parametrize("cost", ["-5", "1e300", "100001", '"free"', "true"])
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


def test_b5_a_message_reserves_nothing(office: Office) -> None:
    """B5"""
    m = office.matins
    m.budgets.set("day", period="day", max_cost="$0.01")
    m.add("note", when="every 1 day", job="message", payload={"text": "Good morning"})
    assert office.fire("note").state == "succeeded"
