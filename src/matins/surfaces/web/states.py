"""How a state looks: an icon with its shape, and a word. Colour only repeats them."""

from __future__ import annotations

from typing import Any, NamedTuple


class Look(NamedTuple):
    icon: str
    word: str


RUNS = {
    "waiting": Look("deferred", "Waiting"),
    "queued": Look("planned", "Queued"),
    "ready": Look("planned", "Ready"),
    "running": Look("running", "Running"),
    "held": Look("unknown", "Held"),
    "succeeded": Look("succeeded", "Succeeded"),
    "failed": Look("failed", "Failed"),
    "skipped": Look("skipped", "Skipped"),
    "missed": Look("missed", "Missed"),
    "cancelled": Look("denied", "Cancelled"),
    "denied": Look("denied", "Denied"),
    "expired": Look("denied", "Expired"),
    "interrupted": Look("failed", "Interrupted"),
    "unknown": Look("unknown", "Unknown"),
    "over_budget": Look("failed", "Over budget"),
    "blocked": Look("denied", "Blocked"),
}
SCHEDULES = {
    "active": Look("succeeded", "Active"),
    "paused": Look("pause", "Paused"),
    "pending": Look("waiting", "Needs approval"),
    "rejected": Look("denied", "Rejected"),
    "broken": Look("failed", "Broken"),
    "completed": Look("succeeded", "Completed"),
    "draft": Look("planned", "Draft"),
    "failed": Look("failed", "Failed"),
    "cancelled": Look("denied", "Cancelled"),
}
VERDICTS = {
    "runs": Look("planned", "Will run"),
    "deferred": Look("deferred", "Deferred"),
    "coalesced": Look("skipped", "Joined with another"),
    "queued": Look("planned", "Queued"),
    "skipped": Look("skipped", "Skipped"),
    "missed": Look("missed", "Missed"),
}
_APPROVAL = Look("waiting", "Needs approval")


def of_run(run: Any) -> Look:
    """The look of a run, or of a step: what a waiting one waits for, rather than that it waits."""
    if run.state == "waiting" and run.status == "awaiting_approval":
        return _APPROVAL
    if run.state == "waiting" and run.status != "waiting":
        return Look("deferred", words(run.status))
    if run.state == "succeeded" and run.reason == "with_denials":
        return Look("stuck", "Succeeded, with denials")
    return RUNS.get(run.state, Look("planned", words(run.state)))


def of_schedule(state: str) -> Look:
    return SCHEDULES.get(state, Look("planned", words(state)))


def of_verdict(verdict: str) -> Look:
    return VERDICTS.get(verdict) or of_schedule(verdict)


def words(code: str) -> str:
    """A code as words: `no_such_job` is "No such job"."""
    text = code.replace("_", " ")
    return text[:1].upper() + text[1:]
