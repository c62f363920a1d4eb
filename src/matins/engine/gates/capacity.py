"""The capacity gate: whether a limit is reached. The claim takes the permits."""

from __future__ import annotations

from collections.abc import Mapping

from matins.engine.gates.gate import Candidate, Gate, Objection, Verdict
from matins.model.run import RunState


def _judge(candidate: Candidate) -> Verdict | None:
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
    judge=_judge,
    predictable=False,
    sentence=lambda candidate: "There is capacity.",
    objects=_objects,
)
