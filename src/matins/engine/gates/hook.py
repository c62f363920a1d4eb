"""The hook gate: commands before a run, of all schedules and of this one."""

from __future__ import annotations

from matins.engine.gates.gate import Candidate, Gate, Verdict
from matins.engine.gates.pre_check import CHECK, command_text
from matins.engine.policies import BEFORE_RUN
from matins.model.sentence import Sentence


def _judge(candidate: Candidate) -> Verdict | None:
    hooked = candidate.definition.before_run is not None or BEFORE_RUN in candidate.facts.policies.hooks
    return CHECK if hooked else None


def _sentence(candidate: Candidate) -> str | Sentence:
    definition, hook = candidate.definition, candidate.facts.policies.hooks.get(BEFORE_RUN)
    commands = [] if hook is None else [command_text(hook.command, hook.timeout_ms)]
    if definition.before_run is not None:
        commands.append(command_text(definition.before_run, definition.check_timeout_ms))
    return Sentence("Would run.", ", then ".join(commands)) if commands else "There is no hook before a run."


HOOK = Gate(
    name="hook",
    order=100,
    stages=("start",),
    settings="`before_run`; `m.hooks.set` for all schedules",
    refusal="The run is `skipped`.",
    applies=lambda definition: definition.before_run is not None,
    active=lambda surroundings: BEFORE_RUN in surroundings.policies.hooks,
    judge=_judge,
    asks=True,
    sentence=_sentence,
)
