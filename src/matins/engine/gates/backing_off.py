"""The back-off gate: whether the schedule has failed several times in a row, so that slots are left out."""

from __future__ import annotations

from typing import NamedTuple

from matins.engine.gates.gate import Candidate, Gate, Verdict
from matins.model.run import RunState

MIN_FAILURES = 3
"""The number of consecutive failures from which slots are skipped."""
_MAX_DELAY_MS = 3_600_000
_MAX_DOUBLINGS = 22
"""An hour is less than a millisecond, doubled so often."""


class Failures(NamedTuple):
    """The consecutive failures of a schedule."""

    number: int = 0
    last_at: int | None = None
    """The instant of the last failure; None after an edit, a pause or a resumption, which end the back-off."""


def backs_off_until(failures: Failures, period: int) -> int | None:
    """The end of the back-off: 2 periods after the third failure, then 4, 8 …, an hour at most. None for schedules with
    too few failures, and for those whose slots are an hour apart or more."""
    if failures.last_at is None or failures.number < MIN_FAILURES or not 0 < period < _MAX_DELAY_MS:
        return None
    doublings = min(failures.number - MIN_FAILURES + 1, _MAX_DOUBLINGS)
    return failures.last_at + min(period << doublings, _MAX_DELAY_MS)


def _judge(candidate: Candidate) -> Verdict | None:
    until = candidate.facts.backs_off_until
    if until is None or candidate.now >= until:
        return None
    return Verdict(RunState.SKIPPED, "backing_off", {"failures": candidate.facts.failures, "until": until})


def _sentence(candidate: Candidate) -> str:
    failures = candidate.facts.failures
    if candidate.definition.failure_backoff == "none":
        return "The schedule does not back off after failures."
    return (
        f"The last {failures} runs failed; the schedule tries again." if failures > 1 else "The last runs did not fail."
    )


BACKING_OFF = Gate(
    name="backing_off",
    order=25,
    stages=("plan",),
    settings="`failure_backoff`: `exponential` or `none`",
    refusal="The slot is `skipped`: from the third failure in a row, for 2, 4, 8 … periods, an hour at most.",
    touched=lambda facts: facts.backs_off_until is not None,
    judge=_judge,
    sentence=_sentence,
)
