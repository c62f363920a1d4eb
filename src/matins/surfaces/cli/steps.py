"""Steps in the terminal: as the option `--step`, and drawn as a tree."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from matins.errors import InvalidInput
from matins.surfaces.cli.context import CliContext, Document
from matins.surfaces.cli.tables import cells, fitted, run_state, state_text
from matins.surfaces.cli.times import duration_text
from matins.surfaces.display import one_line

FORM = "TITLE [(after A, B)] [@AGENT]: PROMPT"
_CARRIED_OVER = "carried_over"
_SHORTEST_REASON = 12
_STEP = re.compile(
    r"(?P<title>[^:(@]++)(?:\(\s*+after\s++(?P<after>[^)]*+)\)\s*+)?(?:@(?P<agent>[^\s:]++)\s*+)?(?::(?P<prompt>.*))?",
    re.DOTALL | re.IGNORECASE,
)
_EXAMPLE = '--step "Build @coder: Build the release" --step "Deploy (after Build) @ops: Deploy it"'


def parse_step(text: str) -> dict[str, Any]:
    """The settings of a step that is written in one line."""
    found = _STEP.fullmatch(text)
    if found is None or not found["title"].strip():
        message = f'"{text}" is not a step: {FORM}.'
        raise InvalidInput(message, value=text, field="steps", hint=f"For example: {_EXAMPLE}")
    step: dict[str, Any] = {"title": found["title"].strip()}
    if found["agent"]:
        step["agent"] = found["agent"]
    if found["prompt"]:
        step["prompt"] = found["prompt"].lstrip()
    if found["after"] is not None:
        step["after"] = [title.strip() for title in found["after"].split(",") if title.strip()]
    return step


def step_tree(context: CliContext, steps: Sequence[Document]) -> list[str]:
    """The steps as a tree: each below the last of those that it waits for."""
    children: dict[str, list[Document]] = {"": []}
    for step in steps:
        waits = _waits(step)
        children.setdefault(waits[-1] if waits else "", []).append(step)
    return [line for step in children[""] for line in _branch(context, step, children, "", "")]


def _branch(
    context: CliContext, step: Document, children: Mapping[str, list[Document]], first: str, rest: str
) -> list[str]:
    lines = [_line(context, step, f"  {first}")]
    below = children.get(step["title"], [])
    for number, child in enumerate(below, 1):
        last = number == len(below)
        lines += _branch(context, child, children, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))
    return lines


def _line(context: CliContext, step: Document, branch: str) -> str:
    """For example: 2 Deploy @ops  ✓ succeeded in 4.1s. A long reason is cut, so that the tree stays one."""
    waits = _waits(step)
    number = f"{step['number']} " if "number" in step else ""
    doer = f" @{step['agent']}" if step.get("agent") else ""
    job = f" [{step['job']}]" if step.get("job") else ""
    several = f" (after {', '.join(waits)})" if len(waits) > 1 else ""
    head = branch + one_line(f"{number}{step['title']}{doer}{job}{several}").rstrip()
    return head + _state(context, step, cells(head))


def _waits(step: Document) -> list[str]:
    return step.get("after") or []


def _state(context: CliContext, step: Document, before: int) -> str:
    if "cost_per_day" in step:
        return f"  cost {step['cost_per_day']} a day"
    if "state" not in step:
        return ""
    length = "" if step["duration_ms"] is None else f" in {duration_text(step['duration_ms'])}"
    outcome: Document = step["outcome"] or {}
    error = str(outcome.get("error") or "").strip().rpartition("\n")[2]
    shown = step["reason"] if step["reason"] not in (None, step["state"], step["status"]) else None
    why = error or (state_text(shown) if shown else "")
    cost = "".join(f", {cost_text(cost)}" for cost in costs_of([step]))
    state, more = run_state(step), f"{length}{cost}"
    reason = one_line(f": {why}") if why else ""
    if reason and context.width is not None:
        reason = fitted(reason, max(context.width - before - cells(f"  {state.text}{more}"), _SHORTEST_REASON))
    return f"  {context.painted(state)}{more}{reason}"


def costs_of(steps: Sequence[Document]) -> list[Document]:
    """What agents reported for the steps of a run. A step that was carried over cost nothing this time."""
    costs: list[Document] = []
    for step in steps:
        outcome: Document = step["outcome"] or {}
        match outcome.get("result"):
            case {"money": {"micro_dollars": int(), "estimated": bool()} as money} if step["reason"] != _CARRIED_OVER:
                costs.append(cast("Document", money))
            case _:
                pass
    return costs


def cost_text(money: Document) -> str:
    from matins.engine.money import format_money  # help is printed without the engine

    return format_money(money["micro_dollars"]) + (" (estimated)" if money["estimated"] else "")
