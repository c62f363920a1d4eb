"""Waiting for a run, with a note for each state."""

from __future__ import annotations

from typing import NamedTuple

from matins.surfaces.cli import times
from matins.surfaces.cli.context import CliContext, Document
from matins.surfaces.cli.states import run_state, waits_for_approval

_FIRST_POLL_S, _MAX_POLL_S = 0.1, 1.0


class Waited(NamedTuple):
    run: Document
    approval: str | None = None
    """The approval that the run waits for."""
    timed_out: bool = False


def wait_for(context: CliContext, run: Document, timeout: float | None) -> Waited:
    """Wait until a run has ended, or needs a person."""
    begun, pause, noted = times.now(), _FIRST_POLL_S, ""
    while run["live"] and run["state"] != "held":
        noted = _note_state(context, run, noted)
        if waits_for_approval(run):
            return Waited(run, approval=_approval_of(context, run))
        if timeout is not None and (times.now() - begun).total_seconds() >= timeout:
            return Waited(run, timed_out=True)
        context.wait(pause)
        pause = min(pause * 1.5, _MAX_POLL_S)
        run = context.call("runs.get", run_id=run["id"])
    return Waited(run)


def _note_state(context: CliContext, run: Document, noted: str) -> str:
    state = run_state(run).text
    if state != noted:
        context.note(f"Run {run['id']}: {state}")
    return state


def _approval_of(context: CliContext, run: Document) -> str:
    pending = context.call("approvals.list", limit=1000)
    return next((approval["id"] for approval in pending if approval["run_id"] == run["id"]), "ID")
