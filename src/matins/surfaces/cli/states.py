"""States as text, with a mark and, if the terminal has colours, a colour."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from matins.surfaces.cli.tables import Cell
from matins.surfaces.cli.times import local, relative_time, when

_RUNS = {
    "queued": ("◌", None),
    "ready": ("◌", None),
    "running": ("▸", "cyan"),
    "held": ("?", "yellow"),
    "succeeded": ("✓", "green"),
    "failed": ("✗", "red"),
    "skipped": ("↷", "yellow"),
    "missed": ("↷", "yellow"),
    "cancelled": ("⊘", None),
    "denied": ("⊘", "red"),
    "blocked": ("⊘", "yellow"),
    "expired": ("⊘", "yellow"),
    "interrupted": ("✗", "yellow"),
    "unknown": ("?", "yellow"),
    "over_budget": ("✗", "red"),
}
_SCHEDULES = {"paused": "yellow", "pending": "magenta", "rejected": "red", "broken": "red"}
_MISSIONS = {
    "active": ("▸", "cyan"),
    "paused": ("‖", "yellow"),
    "completed": ("✓", "green"),
    "failed": ("✗", "red"),
    "cancelled": ("⊘", None),
    "draft": ("◌", None),
}
_WAITS = "awaiting_approval"


def waits_for_approval(run: dict[str, Any]) -> bool:
    return run["state"] == "waiting" and run["status"] == _WAITS


def run_state(run: dict[str, Any]) -> Cell:
    """The state of a run; if it waits, the reason."""
    if waits_for_approval(run):
        return Cell("◆ needs approval", "magenta")
    if run["state"] == "waiting":
        return Cell(f"◌ waits: {state_text(run['status'])}", "yellow")
    if run["state"] == "succeeded" and run["reason"] == "with_denials":
        return Cell("✓ with denials", "yellow")
    mark, colour = _RUNS.get(run["state"], ("·", None))
    return Cell(f"{mark} {state_text(run['state'])}", colour)


def last_run(run: dict[str, Any] | None, at: datetime) -> Cell:
    if run is None:
        return Cell("–")
    state = run_state(run)
    if run["live"]:
        return state
    since = run["ended_at"] or run["started_at"] or run["slot"] or run["planned_at"]
    ago = relative_time(since, at)
    return state._replace(text=f"{state.text} {ago}", short=f"{state.text[0]} {ago}")


def moment(text: str | None, at: datetime) -> Cell:
    """An instant in a table: in 3h (09:00); where that has no room, 09:00."""
    return Cell("–") if text is None else Cell(when(text, at), short=local(text, at))


def next_run(schedule: dict[str, Any], at: datetime) -> Cell:
    """The time of the next run, or the reason why there is none."""
    if schedule["state"] == "active":
        return moment(schedule["next_run_at"], at)
    return schedule_state(schedule)


def schedule_state(schedule: dict[str, Any]) -> Cell:
    state = schedule["state"]
    if state == "pending":
        return Cell("◆ needs approval", "magenta")
    mark = {"active": "✓", "paused": "‖", "rejected": "⊘", "broken": "✗"}.get(state, "·")
    return Cell(f"{mark} {state}", _SCHEDULES.get(state))


def mission_status(mission: dict[str, Any]) -> Cell:
    status = mission["status"]
    mark, colour = _MISSIONS.get(status, ("·", None))
    return Cell(f"{mark} {status}", colour)


def gate_verdict(passes: bool | None) -> Cell:
    """The verdict of a gate; None if it is known only when the run starts."""
    if passes is None:
        return Cell("? asks", "yellow")
    return Cell("✓ passes", "green") if passes else Cell("✗ stops", "red")


def state_text(name: str) -> str:
    """The text of a state, reason or setting: `over budget` for `over_budget`."""
    return name.replace("_", " ")
