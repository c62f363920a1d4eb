"""`why` for a past slot: what the gates decided then, whatever they would say now."""

from __future__ import annotations

import every_store

import postgres_fixtures
from matins.engine.gates import GATES
from matins.testing import Sandbox

url = postgres_fixtures.url
bench = every_store.bench
NAMES = [gate.name for gate in GATES if gate.explained]


def recorded(bench: Sandbox, name: str = "s") -> dict[str, tuple[bool | None, str]]:
    why = bench.why(name)
    assert why.run is not None
    return {report.gate: (report.passes, report.sentence) for report in why.run.gates}


def test_b2_a_skipped_slot_keeps_its_gates_when_the_policy_is_gone(bench: Sandbox) -> None:
    """B2: those before the one that stopped it passed, those after it were not reached."""
    bench.quiet_hours.set("morning", windows=["08:40-09:30"])
    bench.add("s", when="0 9 * * *", job="work", quiet_hours="morning")
    bench.run_until("2026-03-27T09:05:00Z")
    bench.edit("s", quiet_hours=None)
    found = recorded(bench)
    assert list(found) == NAMES
    assert found["quiet_hours"] == (False, 'Skipped: quiet hours "morning" were active until 09:30 UTC.')
    stopped = NAMES.index("quiet_hours")
    assert {found[name] for name in NAMES[:stopped]} == {(True, "It passed.")}
    assert {found[name] for name in NAMES[stopped + 1 :]} == {(None, "Not reached.")}
    why = bench.why("s")
    assert why.run is not None
    assert next(one for one in why.run.gates if one.gate == "quiet_hours").evidence == why.run.run.evidence
    assert next(one for one in why.now if one.gate == "quiet_hours").passes


def test_b2_a_slot_that_ran_passed_every_gate(bench: Sandbox) -> None:
    """B2: also where the schedule is paused now."""
    bench.add("s", when="0 9 * * *", job="fail")
    bench.run_until("2026-03-27T09:05:00Z")
    bench.pause("s")
    assert recorded(bench) == dict.fromkeys(NAMES, (True, "It passed."))


def test_b2_a_slot_that_was_missed_was_asked_by_no_gate(bench: Sandbox) -> None:
    """B2: nothing is claimed that the record does not have."""
    bench.add("s", when="0 9 * * *", job="work", catch_up="skip")
    bench.clock.advance_to("2026-03-27T12:00:00Z")
    bench.settle()
    why = bench.why("s")
    assert why.run is not None
    assert (why.run.run.state, why.run.gates) == ("missed", [])


def test_b2_what_is_asked_before_the_start_comes_after_the_plan(bench: Sandbox) -> None:
    """B2: a pre-check that refuses has every gate of the plan behind it; a run that waits has the last before it."""
    bench.add("s", when="0 9 * * *", job="work", pre_check="exit 1")
    bench.add("asks", when="0 9 * * *", job="work", approval="owner_approve")
    bench.run_until("2026-03-27T09:05:00Z")
    found = {name: passes for name, (passes, _) in recorded(bench).items()}
    assert found == {**dict.fromkeys(NAMES, True), "pre_check": False, "hook": None, "approval": None}
    assert recorded(bench, "asks")["approval"] == (False, "Waiting: the run needs approval.")
