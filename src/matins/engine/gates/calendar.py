"""The calendar gate: whether a slot is on a day that its schedule leaves out."""

from __future__ import annotations

from typing import Any

from matins.engine.calendars import moved_to, skipped_day
from matins.engine.gates.gate import Candidate, Gate, Verdict, deferred
from matins.model.run import RunState


def _judge(candidate: Candidate) -> Verdict | None:
    """The verdict on a slot, by the day of its nominal time. A run that has no slot is for now, whatever the day."""
    definition, slot = candidate.definition, candidate.slot
    if slot is None or not definition.skip_on:
        return None
    calendars = candidate.facts.policies.calendars
    day = skipped_day(definition.skip_on, calendars, slot, candidate.zone)
    if day is None:
        return None
    evidence: dict[str, Any] = {"day": day.name, "calendar": day.calendar}
    until = None
    if definition.move_to is not None:
        until = moved_to(definition.skip_on, calendars, slot, candidate.zone)
        if until is not None and until <= candidate.now:
            return None
    if until is None:
        return Verdict(RunState.SKIPPED, "calendar", evidence)
    return deferred(candidate, "calendar", {**evidence, "until": until}, until)


CALENDAR = Gate(
    name="calendar",
    order=27,
    stages=("plan",),
    settings="`skip_on`: calendars, days; `move_to`",
    refusal="The slot is `skipped`, or the run waits for the next day that is not left out.",
    applies=lambda definition: bool(definition.skip_on),
    judge=_judge,
    sentence=lambda candidate: (
        f"The day is not in {', '.join(candidate.definition.skip_on)}."
        if candidate.definition.skip_on
        else "The schedule leaves out no day."
    ),
)
