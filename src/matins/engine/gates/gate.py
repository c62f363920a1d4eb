"""A gate, its inputs and its verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from matins.engine.money import BudgetShortage, Charge
from matins.engine.policies import NO_POLICIES, Policies
from matins.model.policies import BudgetUsage
from matins.model.run import RunState, Usage
from matins.model.schedule import ScheduleDefinition, ScheduleRecord
from matins.model.words import Sentence

Stage = Literal["plan", "start", "claim"]
"""When a gate is judged: at planning, between ready and started, or at the claim."""
Level = Literal["run", "step"]
"""What a gate lets through: a whole run once, or each of its steps. A run without steps passes both."""


class Surroundings(NamedTuple):
    """The facts of one turn, for all schedules."""

    policies: Policies = NO_POLICIES
    guarded: bool = False
    """Whether this process has a guard."""


class Standing(NamedTuple):
    """Facts for explanations. Decisions do not use them."""

    schedule: ScheduleRecord
    limits: Mapping[str, Mapping[str, int]]
    """`size`, `taken` and `held` (kept by held runs) of the limits that apply, by scope."""
    usages: Sequence[tuple[Charge, BudgetUsage]]
    """The budgets that apply."""
    wanted: Usage
    """The reservation of a run in the budgets."""


class Facts(NamedTuple):
    """The inputs of gates besides the schedule's settings, read after the schedule's cursor is locked."""

    live: Sequence[tuple[int, int]] = ()
    """(run id, state) of the schedule's live runs; id 0 for a run that is created in the same step."""
    full: bool = False
    """Whether a limit is reached now. A forecast: the permits are taken when the run starts."""
    agent: str = ""
    policies: Policies = NO_POLICIES
    shortage: BudgetShortage | None = None
    """The budget that the run does not fit into. A forecast: the money is reserved when the run starts."""
    manual: bool = False
    """Whether a person started the run."""
    called: bool = False
    """Whether a call started the run. Each call has a body of its own, so its run is not coalesced with others."""
    guarded: bool = False
    paused: bool = False
    """Whether the schedule is paused in the same step."""
    failures: int = 0
    """The number of consecutive failures, while the schedule backs off or for explanations."""
    backs_off_until: int | None = None
    """Until when slots are skipped because of failures."""
    standing: Standing | None = None
    queued: int | None = None
    """How many of the live runs are queued, where it was counted."""
    backfill: int | None = None
    """The live run of a backfill that a run may meet: a slot waits for it, and is never skipped for it."""


class Candidate(NamedTuple):
    """A run that is about to be created, or to start."""

    definition: ScheduleDefinition
    slot: int | None
    facts: Facts
    executions: int
    catching_up: bool
    """Whether the run is later than its slot."""
    now: int
    due_at: int | None = None
    """When the slot was due, if the run is on time."""

    @property
    def zone(self) -> str:
        return self.definition.trigger.timezone


class Verdict(NamedTuple):
    state: RunState
    reason: str
    evidence: dict[str, Any] | None = None
    cancel: tuple[int, ...] = ()
    """Runs to cancel in favour of this one."""
    until: int | None = None
    """When a deferred run is checked again."""


class Objection(NamedTuple):
    """Why a run that passes the gate still does not start."""

    sentence: str
    evidence: dict[str, Any]
    quote: str | None = None
    """What a person or a check wrote about it."""


def never(_: object) -> Literal[False]:
    return False


def nothing(_: Candidate) -> None:
    return None


def unexplained(_: Candidate) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One decision between due and started. A gate whose three predicates are false passes every run."""

    name: str
    order: int
    """Gates are judged in this order. The first gate that does not pass decides."""
    stages: tuple[Stage, ...]
    level: Level = "run"
    settings: str
    """The settings and calls of the gate, for the documentation."""
    refusal: str
    """The effect when the gate does not pass, for the documentation."""
    reasons: tuple[str, ...] = ()
    """The reasons of records that it stopped, where they are not its name."""
    applies: Callable[[ScheduleDefinition], bool] = never
    """Whether these settings may stop a run; called once per revision."""
    active: Callable[[Surroundings], bool] = never
    """Whether policies or this process may stop a run; called once per turn."""
    touched: Callable[[Facts], bool] = never
    """Whether the present facts may stop this run."""
    judge: Callable[[Candidate], Verdict | None]
    """The verdict; None passes the run."""
    asks: bool = False
    """Whether the verdict needs an answer from code, a command, a person or the store."""
    predictable: bool = True
    """Whether the verdict on a future slot depends only on settings, policies and time."""
    sentence: Callable[[Candidate], str | Sentence] = unexplained
    """Why the run passes, or what would be checked; refusals are in `reasons`. Explanations omit a gate without it."""
    objects: Callable[[Candidate], Objection | None] = nothing
    """An explanation's objection to a run that passes the gate."""

    @property
    def explained(self) -> bool:
        return self.sentence is not unexplained


def deferred(candidate: Candidate, reason: str, evidence: dict[str, Any], until: int) -> Verdict:
    """Defer the run, or coalesce it with a run that already waits."""
    waiting = [run for run, state in candidate.facts.live if state == RunState.WAITING]
    if waiting and not candidate.facts.called:
        return Verdict(RunState.SKIPPED, "coalesced", {**evidence, "for": reason, "run": str(waiting[0])})
    return Verdict(RunState.WAITING, reason, evidence, until=until)
