"""Sentences about results. The engine makes them; this fills in what it needs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from matins.api.results import Run, RunStep, Status
from matins.engine.money import format_money
from matins.engine.reasons import sentence
from matins.model.counting import counted
from matins.surfaces.web.states import words

_MAX_LENGTH = 200


def because(run: Run | RunStep, zone: str, stopped_by: str | None = None) -> str:
    """Why a run is as it is; of one that ended well, what it said. `stopped_by`: the step that stopped this one."""
    if run.reason is None:
        return _said(run.outcome)
    evidence: dict[str, Any] = {"error": _error(run.outcome), "attempt": run.attempt, "step": stopped_by}
    if isinstance(run, Run):
        evidence |= {"slots": run.slots, "first": _ms(run.first_slot), "last": _ms(run.slot), **(run.evidence or {})}
    return beside(run.state, sentence(run.reason, evidence, zone).joined)


def beside(state: str, text: str) -> str:
    """A sentence that stands beside the word of the state, which it need not repeat."""
    rest = text.removeprefix(f"{words(state)}: ")
    return rest[:1].upper() + rest[1:]


def expected(text: str) -> str:
    """The same for a slot to come: the word beside it says what will happen."""
    rest = text.partition(": ")[2] if text.startswith("Will be ") else text
    return rest[:1].upper() + rest[1:]


def overview(status: Status) -> str:
    """What matters now, in one sentence."""
    running, needs, failed = len(status.running), len(status.attention), status.failed
    parts = [f"{counted(running, 'run')} in progress" if running else "Nothing runs"]
    parts += [
        f"{counted(needs, 'thing')} {'needs' if needs == 1 else 'need'} you" if needs else "nothing waits for you"
    ]
    parts += [f"{counted(failed, 'run')} failed in the last 24 hours"] if failed else []
    return f"{', '.join(parts)}."


def _said(outcome: Any) -> str:
    match outcome:
        case {"result": {"text": str(text)}}:
            return _first_line(text)
        case {"result": str(text)}:
            return _first_line(text)
        case _:
            return ""


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= _MAX_LENGTH else f"{line[:_MAX_LENGTH]}…"


def _error(outcome: Any) -> str | None:
    match outcome:
        case {"error": str(error)}:
            return error.strip().rpartition("\n")[2][:_MAX_LENGTH]
        case _:
            return None


def _ms(at: datetime | None) -> int | None:
    return None if at is None else round(at.timestamp() * 1000)


def usage(run: Run) -> dict[str, str]:
    """What a run used, as its tool reported it."""
    match run.outcome:
        case {"result": {"money": {"micro_dollars": int(cost)}} as result}:
            tokens: dict[str, int] = result.get("tokens") or {}
            found: dict[str, str] = {}
            if cost:
                found["Cost"] = format_money(cost)
            if any(tokens.values()):
                found["Tokens"] = f"{tokens.get('in', 0):,} in · {tokens.get('out', 0):,} out"
            return found | ({"Turns": str(result["turns"])} if result.get("turns") else {})
        case _:
            return {}
