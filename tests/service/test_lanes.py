"""What the page shows of many: lanes, and what is broken by cause. On every store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import every_store
import pytest

from matins.errors import InvalidInput, NotFound
from matins.testing import Sandbox

postgres_server, postgres_url = every_store.postgres_server, every_store.postgres_url
url = every_store.each_dialect
bench, in_memory = every_store.bench, every_store.in_memory


def sums(parts: Mapping[str, Sequence[int]]) -> dict[str, int]:
    return {state: sum(counts) for state, counts in parts.items()}


def test_lanes_with_failures_come_first_and_the_rest_is_folded(bench: Sandbox) -> None:
    """B12: few runs are marks, many are counts; nothing is left out, and a selector narrows all of it"""
    bench.add("dense", when="* * * * *", job="work", agent="busy", labels={"team": "ops"})
    bench.add("few", when="0 * * * *", job="fail", agent="ann", labels={"team": "web"})
    bench.add("quiet", when="30 * * * *", job="work", agent="zoe")
    bench.run_until("2026-03-27T10:00:30Z")
    found = bench.lanes(limit=2)
    ann, busy = found.lanes
    assert (ann.name, ann.runs, ann.failed, ann.planned) == ("ann", 2, 2, 2)
    assert (busy.name, busy.runs, busy.failed, busy.planned) == ("busy", 120, 0, 120)
    assert [(mark.state, mark.run_id is None) for mark in ann.marks] == [
        ("failed", False), ("failed", False), ("runs", True), ("runs", True),
    ]  # fmt: skip
    assert busy.marks == []
    assert sums(busy.parts) == {"succeeded": 120, "planned": 120}
    # 8 hours in 96 parts: now is at three quarters, and what ran is left of it.
    assert sum(busy.parts["succeeded"][:73]) == 120
    assert (found.rest.folded, found.rest.runs, found.runs, found.failed) == (1, 2, 124, 2)
    teams = bench.lanes(by="label.team", select="label.team")
    assert {(one.name, one.runs) for one in teams.lanes} == {("ops", 120), ("web", 2)}
    assert [one.name for one in bench.lanes(select="agent=zoe").lanes] == ["zoe"]
    with pytest.raises(InvalidInput, match="no lanes by"):
        bench.lanes(by="colour")


def test_troubles_are_told_by_cause(bench: Sandbox) -> None:
    """B17: one error of several schedules is one cause, with where and when; who acknowledges it, acknowledges all"""
    for name in ("a", "b"):
        bench.add(name, when="0 * * * *", job="fail", agent=f"agent-{name}")
    bench.run_until("2026-03-27T10:00:30Z")
    bench.outbox.run_once(bench.clock.now_ms())
    (cause,) = bench.incidents.causes()
    assert (cause.text, cause.count, cause.schedules) == ("ValueError: no luck", 4, 2)
    assert cause.agents == ["agent-a", "agent-b"]
    assert (sum(cause.parts), cause.acknowledged) == (4, False)
    assert {lane.note for lane in bench.lanes().lanes} == {"ValueError: no luck"}
    assert bench.incidents.causes(select="agent=agent-b")[0].schedules == 1
    assert len(bench.incidents.acknowledge_cause(cause.kind, cause.signature)) == 2
    assert bench.incidents.causes()[0].acknowledged
    assert bench.incidents.acknowledge_cause(cause.kind, cause.signature) == []
    with pytest.raises(NotFound, match="No incident of this cause"):
        bench.incidents.acknowledge_cause("failed", "something else")
