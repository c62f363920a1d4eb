"""Gates that count: overlap, throttle, budget, capacity.

The overlap gate: whether an earlier run of the schedule is still live.

The throttle gate: whether the provider's rate limit is active.

The capacity gate: whether a limit is reached. The claim takes the permits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matins.engine.catch_up import grace_of
from matins.engine.gates.gate import Candidate, Gate, Objection, Verdict, deferred
from matins.engine.money import Charge, format_money, format_tokens
from matins.model.policies import BudgetUsage
from matins.model.run import RunState
from matins.model.trigger import Once


def _judge_throttle(candidate: Candidate) -> Verdict | None:
    facts = candidate.facts
    found = facts.policies.throttle_of(candidate.definition.provider, facts.agent, candidate.now)
    if found is None:
        return None
    # Without the reason: it is what the tool of another agent may have printed.
    evidence: dict[str, Any] = {"provider": found.provider, "until": found.resets_at}
    if found.login is not None:
        evidence["login"] = found.login
    return deferred(candidate, "throttled", evidence, found.resets_at)


def _throttle_sentence(candidate: Candidate) -> str:
    agent = candidate.facts.policies.agents.get(candidate.facts.agent)
    provider = candidate.definition.provider or (agent.provider if agent else None)
    return f'Provider "{provider}" is not throttled.' if provider else "The schedule has no provider."


THROTTLE = Gate(
    name="throttle",
    order=50,
    stages=("plan", "start"),
    level="step",
    settings="`provider`",
    refusal="The run is deferred until the provider serves again.",
    reasons=("throttled",),
    applies=lambda definition: definition.provider is not None,
    active=lambda surroundings: bool(surroundings.policies.throttles),
    judge=_judge_throttle,
    sentence=_throttle_sentence,
)


def count_queued(live: Sequence[tuple[int, int]]) -> int:
    return sum(state == RunState.QUEUED for _, state in live)


def _judge_overlap(candidate: Candidate) -> Verdict | None:
    policy = candidate.definition.overlap
    live = candidate.facts.live
    if not live or policy == "allow":
        return None
    if candidate.facts.backfill is not None:
        return Verdict(RunState.QUEUED, "backfill", {"run": str(candidate.facts.backfill)})
    if policy == "skip" and not candidate.catching_up:
        throttled = None if candidate.facts.called else THROTTLE.judge(candidate)
        if throttled is not None and throttled.state is RunState.SKIPPED:  # the run that waits covers this slot
            return throttled
        evidence = {"run": str(live[0][0]), "state": RunState(live[0][1]).label}
        return Verdict(RunState.SKIPPED, "already_running", evidence)
    if policy == "cancel_other" and not candidate.catching_up:
        blocking = [run for run, _ in live]
        return Verdict(RunState.QUEUED, "cancelling_other", {"runs": [str(run) for run in blocking]}, tuple(blocking))
    queued = candidate.facts.queued
    if queued is None:
        queued = count_queued(live)
    if queued >= candidate.definition.queue_limit:
        return Verdict(RunState.SKIPPED, "queue_full", {"queued": queued})
    return Verdict(RunState.QUEUED, "waiting_for", {"run": str(live[0][0])})


def _overlap_sentence(candidate: Candidate) -> str:
    live = candidate.facts.live
    if not live:
        return "No run of the schedule is in progress."
    run, state = live[0]
    return f"Run {run} is {RunState(state).label}; runs may overlap."


OVERLAP = Gate(
    name="overlap",
    order=40,
    stages=("plan",),
    settings="`overlap`: `skip`, `queue`, `cancel_other`, `allow`",
    refusal="The slot is `skipped`, or the run waits its turn.",
    reasons=("already_running", "waiting_for", "cancelling_other", "queue_full", "backfill"),
    touched=lambda facts: bool(facts.live),
    judge=_judge_overlap,
    sentence=_overlap_sentence,
)


def _judge_budget(candidate: Candidate) -> Verdict | None:
    """The verdict. A one-shot has no next slot: it waits for the next period if that starts within its grace."""
    shortage, slot = candidate.facts.shortage, candidate.slot
    if shortage is None:
        return None
    definition = candidate.definition
    latest = None if slot is None else slot + grace_of(definition, slot, None)
    if latest is not None and isinstance(definition.trigger.when, Once) and shortage.resets_at <= latest:
        return Verdict(RunState.WAITING, "over_budget", shortage.evidence(), until=shortage.resets_at)
    return Verdict(RunState.OVER_BUDGET, "over_budget", shortage.evidence())


def _budget_sentence(candidate: Candidate) -> str:
    standing = candidate.facts.standing
    if standing is None or not standing.usages:
        return "No budget applies."
    left = "; ".join(_left(charge, usage) for charge, usage in standing.usages)
    wanted = f"{format_money(standing.wanted.money)} and {format_tokens(standing.wanted.tokens)} tokens"
    return f"{left}; a run reserves {wanted}."


def _left(charge: Charge, usage: BudgetUsage) -> str:
    money, tokens = charge.budget.max_cost, charge.budget.max_tokens
    parts: list[str] = []
    if money is not None:
        parts.append(f"{format_money(money - usage.money - usage.money_reserved)} left of {format_money(money)}")
    if tokens is not None:
        left = format_tokens(tokens - usage.tokens - usage.tokens_reserved)
        parts.append(f"{left} tokens left of {format_tokens(tokens)}")
    return f'Budget "{charge.budget.name}" has {" and ".join(parts)}'


BUDGET = Gate(
    name="budget",
    order=60,
    stages=("plan", "claim"),
    level="step",
    settings="`m.budgets.set`; `max_cost`, `max_tokens` of one run",
    refusal="The run is `over_budget`.",
    reasons=("over_budget",),
    active=lambda surroundings: bool(surroundings.policies.budgets),
    touched=lambda facts: facts.shortage is not None,
    judge=_judge_budget,
    predictable=False,
    sentence=_budget_sentence,
)


def _judge_capacity(candidate: Candidate) -> Verdict | None:
    if candidate.facts.full and candidate.definition.at_capacity == "skip":
        return Verdict(RunState.SKIPPED, "at_capacity")
    return None


def _objects(candidate: Candidate) -> Objection | None:
    """The objection to a run that may wait: it passes the gate, but does not start while the limit is reached."""
    standing = candidate.facts.standing
    if standing is None or not candidate.facts.full:
        return None
    reached = reached_limits(standing.limits)
    places = taken_places(reached)
    held = max((limit["held"] for limit in reached.values()), default=0)
    kept = f" {held} of them belong to held runs, until a person resolves them." if held else ""
    return Objection(f"{places} are taken; a run would wait.{kept}", dict(standing.limits))


def reached_limits(limits: Mapping[str, Mapping[str, int]]) -> dict[str, Mapping[str, int]]:
    """The limits that leave no place, by scope."""
    return {scope: limit for scope, limit in limits.items() if limit["taken"] >= limit["size"]}


def taken_places(reached: Mapping[str, Mapping[str, int]]) -> str:
    """`2 of 2 places of "nightly"`, for each limit that is reached."""
    return " and ".join(f'{limit["taken"]} of {limit["size"]} places of "{scope}"' for scope, limit in reached.items())


CAPACITY = Gate(
    name="capacity",
    order=70,
    stages=("plan", "claim"),
    level="step",
    settings="`m.limits.set`; `at_capacity`: `wait` or `skip`",
    refusal="The run waits for capacity, or is `skipped`.",
    reasons=("at_capacity",),
    touched=lambda facts: facts.full,
    judge=_judge_capacity,
    predictable=False,
    sentence=lambda candidate: "There is capacity.",
    objects=_objects,
)
