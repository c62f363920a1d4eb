"""May it run? An ordered list of small decisions; the first that does not pass says what becomes of the run and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from matins.model.run import RunState
from matins.model.schedule import ScheduleDefinition


class Candidate(NamedTuple):
    """A run that is about to be made."""

    definition: ScheduleDefinition
    slot: int | None
    live: Sequence[tuple[int, int]]
    """(run id, state) of the schedule's runs that are not over; id 0 for one that is made in the same step."""
    executions: int
    catching_up: bool
    full: bool
    """Whether there is no place for it now. A forecast: the permits are taken when it starts."""
    now: int


class Verdict(NamedTuple):
    state: RunState
    reason: str
    evidence: dict[str, Any] | None = None
    cancel: tuple[int, ...] = ()
    """Runs that shall end to make room."""


Gate = Callable[[Candidate], Verdict | None]


def ended(candidate: Candidate) -> Verdict | None:
    most = candidate.definition.max_executions
    if most is not None and candidate.executions >= most:
        return Verdict(RunState.SKIPPED, "max_executions", {"max_executions": most})
    return None


def overlap(candidate: Candidate) -> Verdict | None:
    policy = candidate.definition.overlap
    if not candidate.live or policy == "allow":
        return None
    blocking = [run for run, _ in candidate.live]
    if policy == "skip" and not candidate.catching_up:
        return Verdict(RunState.SKIPPED, "already_running", {"run": str(blocking[0])})
    if policy == "cancel_other" and not candidate.catching_up:
        return Verdict(RunState.QUEUED, "cancelling_other", {"runs": [str(run) for run in blocking]}, tuple(blocking))
    queued = sum(state == RunState.QUEUED for _, state in candidate.live)
    if queued >= candidate.definition.queue_limit:
        return Verdict(RunState.SKIPPED, "queue_full", {"queued": queued})
    return Verdict(RunState.QUEUED, "waiting_for", {"run": str(blocking[0])})


def capacity(candidate: Candidate) -> Verdict | None:
    if candidate.full and candidate.definition.at_capacity == "skip":
        return Verdict(RunState.SKIPPED, "at_capacity")
    return None


GATES: tuple[tuple[str, Gate], ...] = (("ended", ended), ("overlap", overlap), ("capacity", capacity))


def judge(candidate: Candidate, gates: Sequence[tuple[str, Gate]] = GATES) -> Verdict | None:
    """The first verdict that is not a pass."""
    for _, gate in gates:
        verdict = gate(candidate)
        if verdict is not None:
            return verdict
    return None
