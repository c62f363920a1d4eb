"""May it run? An ordered list of small decisions; the first that does not pass says what becomes of the run and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from matins.engine.catch_up import grace_of
from matins.engine.policies import NONE, Policies
from matins.engine.quiet_hours import QuietHours, quiet_until
from matins.engine.spending import Shortage
from matins.model.run import RunState
from matins.model.schedule import ScheduleDefinition
from matins.model.trigger import Once


class Facts(NamedTuple):
    """What gates look at beside the schedule's own words; read after its cursor was locked."""

    live: Sequence[tuple[int, int]] = ()
    """(run id, state) of the schedule's runs that are not over; id 0 for one that is made in the same step."""
    full: bool = False
    """Whether there is no place for it now. A forecast: the permits are taken when it starts."""
    agent: str = ""
    policies: Policies = NONE
    shortage: Shortage | None = None
    """The budget that has no room for it. A forecast: the money is reserved when it starts."""
    manual: bool = False
    """A person asked for it now."""


class Candidate(NamedTuple):
    """A run that is about to be made."""

    definition: ScheduleDefinition
    slot: int | None
    facts: Facts
    executions: int
    catching_up: bool
    now: int
    due_at: int | None = None
    """When its slot was due, if it comes in time for it."""


class Verdict(NamedTuple):
    state: RunState
    reason: str
    evidence: dict[str, Any] | None = None
    cancel: tuple[int, ...] = ()
    """Runs that shall end to make room."""
    until: int | None = None
    """When a run that is put off is looked at again."""


Gate = Callable[[Candidate], Verdict | None]


def ended(candidate: Candidate) -> Verdict | None:
    definition = candidate.definition
    if candidate.facts.manual:
        return None
    if definition.ends_at is not None and (candidate.slot or candidate.now) > definition.ends_at:
        return Verdict(RunState.SKIPPED, "end_date", {"ends_at": definition.ends_at})
    most = definition.max_executions
    if most is not None and candidate.executions >= most:
        return Verdict(RunState.SKIPPED, "max_executions", {"max_executions": most})
    return None


def quiet_hours(candidate: Candidate) -> Verdict | None:
    """What was due in hours that skip is skipped, also when somebody looks at it only after them; a run that makes up
    for what was not is put off."""
    policy = _kept_by(candidate)
    if policy is None:
        return None
    late = candidate.catching_up and candidate.due_at is None
    skips = not late and policy is skipping(candidate.definition, candidate.facts.policies)
    due_at = min(candidate.due_at or candidate.now, candidate.now)  # before a change it is planned ahead of its jitter
    until = (quiet_until(policy, due_at) if skips else None) or quiet_until(policy, candidate.now)
    if until is None:
        return None
    evidence = quiet_evidence(candidate.definition, until)
    if skips:
        return Verdict(RunState.SKIPPED, "quiet_hours", evidence)
    return _deferred(candidate, "quiet_hours", evidence, until)


def still_quiet(candidate: Candidate) -> Verdict | None:
    """What came due earlier and had to wait does not begin in them either: it is put off, whatever their mode."""
    policy = _kept_by(candidate)
    until = None if policy is None else quiet_until(policy, candidate.now)
    if until is None:
        return None
    return Verdict(RunState.WAITING, "quiet_hours", quiet_evidence(candidate.definition, until), until=until)


def skipping(definition: ScheduleDefinition, policies: Policies) -> QuietHours | None:
    """The quiet hours whose slots do not come again. A one-shot has no other slot: it is put off."""
    policy = policies.quiet_hours.get(definition.quiet_hours or "")
    once = isinstance(definition.trigger.when, Once)
    return None if policy is None or policy.mode != "skip" or once else policy


def quiet_evidence(definition: ScheduleDefinition, until: int | None) -> dict[str, Any]:
    return {"policy": definition.quiet_hours, "until": until}


def _kept_by(candidate: Candidate) -> QuietHours | None:
    facts = candidate.facts
    return None if facts.manual else facts.policies.quiet_hours.get(candidate.definition.quiet_hours or "")


def overlap(candidate: Candidate) -> Verdict | None:
    policy = candidate.definition.overlap
    live = candidate.facts.live
    if not live or policy == "allow":
        return None
    blocking = [run for run, _ in live]
    if policy == "skip" and not candidate.catching_up:
        return Verdict(
            RunState.SKIPPED, "already_running", {"run": str(blocking[0]), "state": RunState(live[0][1]).label}
        )
    if policy == "cancel_other" and not candidate.catching_up:
        return Verdict(RunState.QUEUED, "cancelling_other", {"runs": [str(run) for run in blocking]}, tuple(blocking))
    queued = sum(state == RunState.QUEUED for _, state in live)
    if queued >= candidate.definition.queue_limit:
        return Verdict(RunState.SKIPPED, "queue_full", {"queued": queued})
    return Verdict(RunState.QUEUED, "waiting_for", {"run": str(blocking[0])})


def throttle(candidate: Candidate) -> Verdict | None:
    definition, facts = candidate.definition, candidate.facts
    found = facts.policies.throttle_of(definition.provider, facts.agent, candidate.now)
    if found is None:
        return None
    evidence = {"provider": found.provider, "until": found.resets_at, "why": found.reason}
    return _deferred(candidate, "throttled", evidence, found.resets_at)


def budget(candidate: Candidate) -> Verdict | None:
    """A one-shot has no next slot: it waits for the next period, when that begins within its grace."""
    shortage, slot = candidate.facts.shortage, candidate.slot
    if shortage is None:
        return None
    definition = candidate.definition
    latest = None if slot is None else slot + grace_of(definition, slot, None)
    if latest is not None and isinstance(definition.trigger.when, Once) and shortage.resets_at <= latest:
        return Verdict(RunState.WAITING, "over_budget", shortage.evidence(), until=shortage.resets_at)
    return Verdict(RunState.OVER_BUDGET, "over_budget", shortage.evidence())


def capacity(candidate: Candidate) -> Verdict | None:
    if candidate.facts.full and candidate.definition.at_capacity == "skip":
        return Verdict(RunState.SKIPPED, "at_capacity")
    return None


def _deferred(candidate: Candidate, reason: str, evidence: dict[str, Any], until: int) -> Verdict:
    """Put off; what comes due meanwhile is one with it."""
    waiting = [run for run, state in candidate.facts.live if state == RunState.WAITING]
    if waiting:
        return Verdict(RunState.SKIPPED, "coalesced", {**evidence, "for": reason, "run": str(waiting[0])})
    return Verdict(RunState.WAITING, reason, evidence, until=until)


GATES: tuple[tuple[str, Gate], ...] = (
    ("ended", ended),
    ("quiet_hours", quiet_hours),
    ("overlap", overlap),
    ("throttle", throttle),
    ("budget", budget),
    ("capacity", capacity),
)
"""What can be decided without leaving the transaction."""
EFFECTS = ("guard", "pre_check", "hook", "approval")
"""What comes after: somebody's code, a command, a person. They stand between ready and started."""
ORDER = ("paused", *(name for name, _ in GATES), *EFFECTS)


def judge(candidate: Candidate, gates: Sequence[tuple[str, Gate]] = GATES) -> Verdict | None:
    """The first verdict that is not a pass."""
    for _, gate in gates:
        verdict = gate(candidate)
        if verdict is not None:
            return verdict
    return None
