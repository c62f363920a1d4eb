"""The gates: whether a run may start. The first gate that does not pass decides state and reason.

A mask is an integer with a bit for each gate that may stop a run. For most schedules it is 0.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from matins.engine.gates.gate import Candidate, Facts, Gate, Level, Stage, Standing, Surroundings, Verdict, never
from matins.model.schedule import ScheduleDefinition

__all__ = [
    "ALL", "BITS", "GATES", "Candidate", "Facts", "Gate", "Mask", "Standing", "Surroundings", "Verdict", "active_gates",
    "applicable_gates", "choose", "judge", "level_mask", "mask", "touched_gates",
]  # fmt: skip
Mask = int


def _found() -> tuple[Gate, ...]:
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    values: list[Any] = [value for module in modules for value in vars(module).values()]
    found = {value.name: value for value in values if isinstance(value, Gate)}
    return tuple(sorted(found.values(), key=lambda gate: gate.order))


GATES = _found()
BITS = {gate.name: 1 << nth for nth, gate in enumerate(GATES)}
ALL: Mask = (1 << len(GATES)) - 1
_APPLIES = [(BITS[gate.name], gate.applies) for gate in GATES if gate.applies is not never]
_ACTIVE = [(BITS[gate.name], gate.active) for gate in GATES if gate.active is not never]
_TOUCHED = [(BITS[gate.name], gate.touched) for gate in GATES if gate.touched is not never]


def mask(*stages: Stage) -> Mask:
    """The gates that are judged at one of these stages."""
    return sum(BITS[gate.name] for gate in GATES if not set(stages).isdisjoint(gate.stages))


def level_mask(level: Level) -> Mask:
    """The gates that let a whole run through, or those that let each step through."""
    return sum(BITS[gate.name] for gate in GATES if gate.level == level)


def applicable_gates(definition: ScheduleDefinition) -> Mask:
    """The gates at which these settings may stop a run."""
    return sum(bit for bit, applies in _APPLIES if applies(definition))


def active_gates(surroundings: Surroundings) -> Mask:
    """The gates that may stop a run of any schedule in this turn."""
    return sum(bit for bit, active in _ACTIVE if active(surroundings))


def touched_gates(facts: Facts) -> Mask:
    """The gates that may stop one run, given the facts."""
    return sum(bit for bit, touched in _TOUCHED if touched(facts))


@cache
def choose(stage: Stage, gates: Mask = ALL) -> tuple[Gate, ...]:
    """The gates of the mask that are judged at this stage, in their order."""
    return tuple(gate for gate in GATES if stage in gate.stages and BITS[gate.name] & gates)


def judge(candidate: Candidate, gates: Mask = ALL) -> Verdict | None:
    """The first verdict of these gates, at the plan stage, that is not a pass."""
    for gate in choose("plan", gates):
        verdict = gate.judge(candidate)
        if verdict is not None:
            return verdict
    return None
