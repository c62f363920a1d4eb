"""The pre-check gate: the schedule's own command, which decides whether there is work."""

from __future__ import annotations

import shlex

from matins.engine.gates.gate import Candidate, Gate, Verdict
from matins.engine.when.durations import format_duration
from matins.model.run import RunState
from matins.model.schedule import CommandLine
from matins.model.sentence import Sentence

CHECK = Verdict(RunState.WAITING, "checking")
"""The run waits for its checks: guard, pre-check and hooks, in one step."""


def command_text(command: CommandLine, limit_ms: int) -> str:
    text = command if isinstance(command, str) else shlex.join(command)
    return f"{text} (at most {format_duration(limit_ms)})"


def _sentence(candidate: Candidate) -> str | Sentence:
    command, limit = candidate.definition.pre_check, candidate.definition.check_timeout_ms
    return "The schedule has no pre-check." if command is None else Sentence("Would run.", command_text(command, limit))


PRE_CHECK = Gate(
    name="pre_check",
    order=90,
    stages=("start",),
    settings="`pre_check`, `check_timeout`",
    refusal="The run is `skipped`.",
    applies=lambda definition: definition.pre_check is not None,
    judge=lambda candidate: None if candidate.definition.pre_check is None else CHECK,
    asks=True,
    sentence=_sentence,
)
