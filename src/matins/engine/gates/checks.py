"""Gates that run code or a command: guard, pre-check, hook.

The guard gate: a function of this process, called before every run.

The pre-check gate: the schedule's own command, which decides whether there is work.

The hook gate: commands before a run, of all schedules and of this one.

The ping gate: work that happens elsewhere, which reports by a ping.
"""

from __future__ import annotations

import shlex

from matins.engine.catch_up import grace_of
from matins.engine.gates.gate import Candidate, Gate, Verdict
from matins.engine.jobs import PING_JOB
from matins.engine.policies import BEFORE_RUN
from matins.engine.when.durations import format_duration
from matins.engine.when.triggers import compile_trigger
from matins.model.run import RunState
from matins.model.schedule import CommandLine, ScheduleDefinition
from matins.model.words import Sentence

CHECK = Verdict(RunState.WAITING, "checking")
"""The run waits for its checks: guard, pre-check and hooks, in one step."""


def ping_until(definition: ScheduleDefinition, slot: int) -> int:
    """Until when the ping of a slot is expected."""
    trigger = compile_trigger(definition.trigger)
    return slot + grace_of(definition, slot, trigger.next_ms(slot))


def _judge_ping(candidate: Candidate) -> Verdict | None:
    """The verdict on a slot. A run that has no slot is of a ping that came when none was expected."""
    slot, now = candidate.slot, candidate.now
    if slot is None or candidate.definition.job != PING_JOB:
        return None
    until = ping_until(candidate.definition, slot)
    if now >= until:
        return Verdict(RunState.MISSED, "no_ping", {"until": now})
    return Verdict(RunState.WAITING, "awaiting_ping", {"until": until}, until=until)


PING = Gate(
    name="ping",
    order=28,
    stages=("plan",),
    settings="`job: expect_ping`, `grace`",
    refusal="The run waits for a ping, and is `missed` when none comes within its grace.",
    reasons=("awaiting_ping", "no_ping"),
    applies=lambda definition: definition.job == PING_JOB,
    judge=_judge_ping,
)


def command_text(command: CommandLine, limit_ms: int) -> str:
    text = command if isinstance(command, str) else shlex.join(command)
    return f"{text} (at most {format_duration(limit_ms)})"


def _pre_check_sentence(candidate: Candidate) -> str | Sentence:
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
    sentence=_pre_check_sentence,
)


GUARD = Gate(
    name="guard",
    order=80,
    stages=("start",),
    settings="`Matins(guard=…)`",
    refusal="The run is `blocked`.",
    active=lambda surroundings: surroundings.guarded,
    judge=lambda candidate: CHECK if candidate.facts.guarded else None,
    asks=True,
    sentence=lambda candidate: "If the engine has a guard, it is called before a run starts.",
)


def _judge(candidate: Candidate) -> Verdict | None:
    hooked = candidate.definition.before_run is not None or BEFORE_RUN in candidate.facts.policies.hooks
    return CHECK if hooked else None


def _hook_sentence(candidate: Candidate) -> str | Sentence:
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
    sentence=_hook_sentence,
)
