"""Both ways through the gates: what the masks leave out is judged too, and must come to the same."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from unittest.mock import patch

from sim_violation import require

from matins.engine.gates import ALL, Candidate, Facts, Mask, choose, level_mask
from matins.engine.planning import Plan, Timetable
from matins.runtime.catalog import CompiledSchedule
from matins.runtime.clearance import Clearance


@contextmanager
def both_ways(now_ms: Callable[[], int]) -> Generator[None]:
    """While a world runs, a gate that is left out and does not let pass is a violation."""
    plan, gates_to_start = Timetable.plan, Clearance.gates_to_start

    def planned(
        self: Timetable,
        schedule_id: int,
        slot: int,
        used: int,
        executions: int,
        facts: Facts,
        now: int,
        gates: Mask,
        taken: tuple[int, int] | None,
    ) -> Plan:
        quick = plan(self, schedule_id, slot, used, executions, facts, now, gates, taken)
        every = level_mask("run") if self.definition.steps else ALL
        full = plan(self, schedule_id, slot, used, executions, facts, now, every, taken)
        require(10, quick == full, f"by its mask {gates:b} it is planned as {quick}, by all gates as {full}")
        return quick

    def to_start(self: Clearance, item: CompiledSchedule) -> Mask:
        gates, now = gates_to_start(self, item), now_ms()
        facts = Facts((), False, item.agent, self.policies, guarded=self.guarded)
        candidate = Candidate(item.definition, now, facts, 0, True, now)
        stops = [gate.name for gate in choose("start", item.levels & ~gates) if gate.judge(candidate) is not None]
        require(10, not stops, f"{item.name} may start by its mask {gates:b}, but not by {stops}")
        return gates

    with patch.object(Timetable, "plan", planned), patch.object(Clearance, "gates_to_start", to_start):
        yield
