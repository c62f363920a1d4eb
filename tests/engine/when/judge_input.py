"""Run as a program: reads texts as JSON, puts each to the engine under a step bound, writes what happened.

It stands in a process of its own so that a hang or a crash of the interpreter is a failed test and no more.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from matins.engine.when.parse import parse_trigger
from matins.engine.when.triggers import Trigger
from matins.errors import TriggerError
from steps import TooManySteps, at_most

STEP_LIMIT = 2_000_000
NOW = datetime(2026, 3, 1, 12, 0, 17, tzinfo=UTC)
NOW_MS = int(NOW.timestamp()) * 1000
TEN_YEARS_MS = 3653 * 86_400_000


@dataclass(frozen=True)
class Question:
    text: str
    timezone: str = "UTC"
    strict: bool = False


@dataclass(frozen=True)
class Verdict:
    """`outcome` is trigger, refused, or what went wrong."""

    outcome: str
    message: str
    steps: int


def use(trigger: Trigger) -> None:
    """Everything that a caller would ask of a trigger right away."""
    at: int | None = NOW_MS
    for _ in range(3):
        at = None if at is None else trigger.next_ms(at)
    trigger.next_after(NOW)
    trigger.prev_ms(NOW_MS)
    trigger.count(NOW_MS, NOW_MS + TEN_YEARS_MS)
    trigger.smallest_gap()
    json.dumps(trigger.to_dict())
    assert trigger.describe()


def judge(question: Question) -> Verdict:
    with at_most(STEP_LIMIT) as steps:
        try:
            use(parse_trigger(question.text, now_ms=NOW_MS, timezone=question.timezone, strict=question.strict))
            outcome, message = "trigger", ""
        except TriggerError as error:
            outcome, message = "refused", str(error)
        except TooManySteps as error:
            outcome, message = "too many steps", str(error)
        except Exception as error:
            outcome, message = type(error).__name__, str(error)
    return Verdict(outcome, message, steps.taken)


def main() -> None:
    questions = [Question(**fields) for fields in json.load(sys.stdin)]
    json.dump([asdict(judge(question)) for question in questions], sys.stdout)


if __name__ == "__main__":
    main()
