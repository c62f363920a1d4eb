"""Waiting for a run, with what becomes of it told on the way."""

from __future__ import annotations

from typing import Any, NamedTuple

from matins.surfaces.cli import times
from matins.surfaces.cli.desk import Desk
from matins.surfaces.cli.states import run_state, waits_for_approval

_FIRST_LOOK, _SLOWEST_LOOK = 0.1, 1.0


class Waited(NamedTuple):
    run: dict[str, Any]
    asked: str | None = None
    """The approval that it waits for."""
    timed_out: bool = False


def wait_for(desk: Desk, run: dict[str, Any], timeout: float | None) -> Waited:
    """Until it is over, or nothing goes on without a person."""
    begun, pause, told = times.now(), _FIRST_LOOK, ""
    while run["live"] and run["state"] != "held":
        told = _tell(desk, run, told)
        if waits_for_approval(run):
            return Waited(run, asked=_approval_of(desk, run))
        if timeout is not None and (times.now() - begun).total_seconds() >= timeout:
            return Waited(run, timed_out=True)
        desk.wait(pause)
        pause = min(pause * 1.5, _SLOWEST_LOOK)
        run = desk.ask("get_run", run_id=run["id"])
    return Waited(run)


def _tell(desk: Desk, run: dict[str, Any], told: str) -> str:
    state = run_state(run).text
    if state != told:
        desk.tell(f"Run {run['id']}: {state}")
    return state


def _approval_of(desk: Desk, run: dict[str, Any]) -> str:
    waiting = desk.ask("approvals", limit=1000)
    return next((asked["id"] for asked in waiting if asked["run_id"] == run["id"]), "(see matins approvals)")
