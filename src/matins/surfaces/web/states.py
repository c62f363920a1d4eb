"""How a state looks: an icon with its shape, and a word. Colour only repeats them."""

from __future__ import annotations

from typing import Any, NamedTuple


class Look(NamedTuple):
    icon: str
    word: str


RUNS = {
    "waiting": Look("defer", "Waiting"),
    "queued": Look("plan", "Queued"),
    "ready": Look("plan", "Ready"),
    "running": Look("run", "Running"),
    "held": Look("unk", "Held"),
    "succeeded": Look("ok", "Succeeded"),
    "failed": Look("fail", "Failed"),
    "skipped": Look("skip", "Skipped"),
    "missed": Look("miss", "Missed"),
    "cancelled": Look("deny", "Cancelled"),
    "denied": Look("deny", "Denied"),
    "expired": Look("deny", "Expired"),
    "interrupted": Look("fail", "Interrupted"),
    "unknown": Look("unk", "Unknown"),
    "over_budget": Look("fail", "Over budget"),
    "blocked": Look("deny", "Blocked"),
}
SCHEDULES = {
    "active": Look("ok", "Active"),
    "paused": Look("pause", "Paused"),
    "pending": Look("wait", "Needs approval"),
    "rejected": Look("deny", "Rejected"),
    "broken": Look("fail", "Broken"),
    "completed": Look("ok", "Completed"),
    "draft": Look("plan", "Draft"),
    "failed": Look("fail", "Failed"),
    "cancelled": Look("deny", "Cancelled"),
}
VERDICTS = {
    "runs": Look("plan", "Will run"),
    "deferred": Look("defer", "Deferred"),
    "coalesced": Look("skip", "Joined with another"),
    "queued": Look("plan", "Queued"),
    "skipped": Look("skip", "Skipped"),
    "missed": Look("miss", "Missed"),
}
_APPROVAL = Look("wait", "Needs approval")


def of_run(run: Any) -> Look:
    """The look of a run, or of a step: what a waiting one waits for, rather than that it waits."""
    if run.state == "waiting" and run.status == "awaiting_approval":
        return _APPROVAL
    if run.state == "waiting" and run.status != "waiting":
        return Look("defer", words(run.status))
    if run.state == "succeeded" and run.reason == "with_denials":
        return Look("stuck", "Succeeded, with denials")
    return RUNS.get(run.state, Look("plan", words(run.state)))


def of_schedule(state: str) -> Look:
    return SCHEDULES.get(state, Look("plan", words(state)))


def of_verdict(verdict: str) -> Look:
    return VERDICTS.get(verdict) or of_schedule(verdict)


def words(code: str) -> str:
    """A code as words: `no_such_job` is "No such job"."""
    text = code.replace("_", " ")
    return text[:1].upper() + text[1:]
