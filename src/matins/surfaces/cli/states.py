"""States as people see them: a mark, a text and, where there are colours, a colour."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from matins.surfaces.cli.tables import Cell
from matins.surfaces.cli.times import relative_time, when

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
_WAITS = "awaiting_approval"


def waits_for_approval(run: dict[str, Any]) -> bool:
    return run["state"] == "waiting" and run["status"] == _WAITS


def run_state(run: dict[str, Any]) -> Cell:
    """Its state; of a run that waits, what it waits for."""
    if waits_for_approval(run):
        return Cell("◆ needs approval", "magenta")
    if run["state"] == "waiting":
        return Cell(f"◌ waits: {state_text(run['status'])}", "yellow")
    mark, colour = _RUNS.get(run["state"], ("·", None))
    return Cell(f"{mark} {state_text(run['state'])}", colour)


def last_run(run: dict[str, Any] | None, at: datetime) -> Cell:
    if run is None:
        return Cell("–")
    state = run_state(run)
    if run["live"]:
        return state
    since = run["ended_at"] or run["started_at"] or run["slot"] or run["planned_at"]
    return state._replace(text=f"{state.text} {relative_time(since, at)}")


def next_run(schedule: dict[str, Any], at: datetime) -> Cell:
    """When it runs next, or why it does not."""
    if schedule["state"] == "active":
        return Cell(when(schedule["next_run_at"], at))
    return schedule_state(schedule)


def schedule_state(schedule: dict[str, Any]) -> Cell:
    state = schedule["state"]
    if state == "pending":
        return Cell("◆ needs approval", "magenta")
    mark = {"active": "✓", "paused": "‖", "rejected": "⊘", "broken": "✗"}.get(state, "·")
    return Cell(f"{mark} {state}", _SCHEDULES.get(state))


def gate_verdict(passes: bool | None) -> Cell:
    """Whether a gate passes; None where that is known only when it is asked."""
    if passes is None:
        return Cell("? asks", "yellow")
    return Cell("✓ passes", "green") if passes else Cell("✗ stops", "red")


def state_text(name: str) -> str:
    """`over budget` for `over_budget`: of states, reasons and settings."""
    return name.replace("_", " ")
