"""A gate, what it looks at, and what it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from matins.engine.charges import BudgetShortage, Charge
from matins.engine.policies import NO_POLICIES, Policies
from matins.model.budget import BudgetUsage
from matins.model.run import RunState, Usage
from matins.model.schedule import ScheduleDefinition, ScheduleRecord

Stage = Literal["plan", "start", "claim"]
"""When a gate is judged: when the slot is planned, between ready and started, when the run is claimed."""


class Surroundings(NamedTuple):
    """What holds for all schedules during one turn."""

    policies: Policies = NO_POLICIES
    guarded: bool = False
    """Whether this process has a guard."""


class Standing(NamedTuple):
    """What an explanation tells people besides; no decision needs it."""

    schedule: ScheduleRecord
    limits: Mapping[str, Mapping[str, int]]
    """`size` and `taken` of the limits that apply, by scope."""
    usages: Sequence[tuple[Charge, BudgetUsage]]
    """The budgets that apply."""
    wanted: Usage
    """What a run reserves in them."""


class Facts(NamedTuple):
    """What gates look at besides the schedule's settings; read after its cursor was locked."""

    live: Sequence[tuple[int, int]] = ()
    """(run id, state) of the schedule's runs that are not over; id 0 for one that is made in the same step."""
    full: bool = False
    """Whether there is no place for it now. A forecast: the permits are taken when it starts."""
    agent: str = ""
    policies: Policies = NO_POLICIES
    shortage: BudgetShortage | None = None
    """The budget that has no room for it. A forecast: the money is reserved when it starts."""
    manual: bool = False
    """A person asked for it now."""
    guarded: bool = False
    paused: bool = False
    """Whether the schedule is paused in the same step."""
    standing: Standing | None = None


class Candidate(NamedTuple):
    """A run that is about to be made, or to start."""

    definition: ScheduleDefinition
    slot: int | None
    facts: Facts
    executions: int
    catching_up: bool
    """Whether it comes later than its slot was due."""
    now: int
    due_at: int | None = None
    """When its slot was due, if it comes in time for it."""

    @property
    def zone(self) -> str:
        return self.definition.trigger.timezone


class Verdict(NamedTuple):
    state: RunState
    reason: str
    evidence: dict[str, Any] | None = None
    cancel: tuple[int, ...] = ()
    """Runs that shall end to make room."""
    until: int | None = None
    """When a run that is put off is looked at again."""


class Objection(NamedTuple):
    """What keeps a run from starting that no verdict stops."""

    sentence: str
    evidence: dict[str, Any]


def never(_: object) -> Literal[False]:
    return False


def nothing(_: Candidate) -> None:
    return None


def unexplained(_: Candidate) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One decision between due and started. A gate whose three predicates are false lets every run pass."""

    name: str
    order: int
    """Gates are judged in this order; the first one that does not pass decides."""
    stages: tuple[Stage, ...]
    settings: str
    """How people use it, for the documentation."""
    refusal: str
    """What happens when it does not pass, for the documentation."""
    applies: Callable[[ScheduleDefinition], bool] = never
    """Whether these settings may stop a run; asked once for a revision."""
    active: Callable[[Surroundings], bool] = never
    """Whether policies or this process may stop a run; asked once in a turn."""
    touched: Callable[[Facts], bool] = never
    """Whether the present facts may stop this run."""
    judge: Callable[[Candidate], Verdict | None]
    """None lets the run pass."""
    asks: bool = False
    """Whether its verdict is a question, which code, a command, a person or the store answers."""
    predictable: bool = True
    """Whether its verdict on a slot to come depends on settings, policies and time alone."""
    sentence: Callable[[Candidate], str] = unexplained
    """Why it passes, or what it would ask; refusals are in `reasons`. Without it, explanations leave the gate out."""
    objects: Callable[[Candidate], Objection | None] = nothing
    """What an explanation says against a run that the verdict lets pass."""

    @property
    def explained(self) -> bool:
        return self.sentence is not unexplained


def deferred(candidate: Candidate, reason: str, evidence: dict[str, Any], until: int) -> Verdict:
    """The run is put off; what comes due meanwhile is one with it."""
    waiting = [run for run, state in candidate.facts.live if state == RunState.WAITING]
    if waiting:
        return Verdict(RunState.SKIPPED, "coalesced", {**evidence, "for": reason, "run": str(waiting[0])})
    return Verdict(RunState.WAITING, reason, evidence, until=until)
