"""Jobs of schedules: the payload is checked against the inputs of the job's type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from matins.engine.settings import ParseContext, check_required, parse_settings
from matins.engine.validation import invalid
from matins.errors import Example, InvalidInput
from matins.model.agent import FRESH, Agent
from matins.model.job import JobType
from matins.model.schedule import CommandLine, ScheduleDefinition
from matins.model.settings import Table, settings_of

AGENT_JOB = "scheduled-task"
"""The job that sends a prompt to an agent."""
MESSAGE_JOB = "message"
"""The job that emits its payload as an event; also the name of a runner."""


PING_JOB = "expect_ping"
"""The job that is done elsewhere, and reports by a ping."""
BUILT_IN = (AGENT_JOB, MESSAGE_JOB)
"""Jobs of every engine."""
SHELL = "shell"
"""The runner of commands, and the agent that runs those of people."""
SHELL_AGENT = Agent(
    SHELL, runner=SHELL, workdir="~", worktree="shared", timeout_ms=None, idle_timeout_ms=None, mcp=False,
    isolation="none", memory=None, file_size=None,
)  # fmt: skip
"""The owner's hand: what a crontab would run. A silent dump is no hang."""
JOB_NEED = "job:"
"""The prefix of a job among what runs need and engines offer."""
_NOTHING: frozenset[str] = frozenset()


def job_needs(definition: ScheduleDefinition) -> frozenset[str]:
    """What an engine must have for the job itself."""
    return _NOTHING if definition.job in BUILT_IN else frozenset([f"{JOB_NEED}{definition.job}"])


def wakes_agent(definition: ScheduleDefinition) -> bool:
    """Whether runs are an agent's: a prompt of the schedule or of its job, or a command."""
    return definition.job == AGENT_JOB or definition.job_prompt is not None


def as_scheduled(agent: Agent, definition: ScheduleDefinition) -> Agent:
    """The agent as runs of this schedule wake it: with its folder and variables, or with the command in place of the
    agent's own tool. Isolation, account and limits stay those of the agent."""
    command = definition.command
    if command is None and definition.workdir is None and not definition.environment:
        return agent
    environment = tuple({**dict(agent.environment), **dict(definition.environment)}.items())
    placed = replace(agent, workdir=definition.workdir or agent.workdir, environment=environment)
    if command is None:
        return placed
    return replace(
        placed, runner=SHELL, command=argv_of(command), arguments=(), model=None, tools=(), permission_mode=None,
        max_turns=None, url=None, options={}, target=FRESH, provider=SHELL, max_cost=None, mcp=False,
    )  # fmt: skip


def argv_of(command: CommandLine) -> tuple[str, ...]:
    return ("/bin/sh", "-c", command) if isinstance(command, str) else command


def runs_only_commands(agent: Agent) -> bool:
    """Whether it has no program of its own: it runs what people write into schedules, as a crontab does."""
    return agent.runner == SHELL and not agent.command


def converses(definition: ScheduleDefinition) -> bool:
    """Whether runs are parts of a conversation: prompts are, commands are not."""
    return definition.command is None and wakes_agent(definition)


def retries_unknown(definition: ScheduleDefinition) -> bool:
    """Whether a run whose outcome is unknown is retried, not held. An agent's work is not repeated by default."""
    if definition.on_unknown is None:
        return not wakes_agent(definition)
    return definition.on_unknown == "retry"


def full_prompt(definition: ScheduleDefinition) -> str | None:
    """The prompt: the job's, then the schedule's own."""
    parts = [part for part in (definition.job_prompt, definition.prompt) if part is not None]
    return "\n\n".join(parts) if parts else None


def decided_by(job: JobType, payload: Any, context: ParseContext) -> tuple[str | None, bool]:
    """`job_prompt` and `harmless`, which the type of a job decides. Raises InvalidInput for a payload it refuses."""
    inputs = parse_inputs(job, payload, context)
    return None if job.prompt is None else job.prompt(inputs), not job.destructive


def parse_inputs(job: JobType, payload: Any, context: ParseContext) -> Any:
    """The inputs of a job, from its payload. Errors name the input: `payload.repos`."""
    if job.inputs is None:
        return payload
    if payload is not None and not isinstance(payload, Mapping):
        raise invalid("payload", payload, "a mapping", hint=example_of(job))
    given = cast("Mapping[str, Any]", payload or {})
    owner = f'The job "{job.name}"'
    try:
        check_required(owner, inputs_of(job), given)
        return job.inputs(**parse_settings(owner, inputs_of(job), given, context))
    except InvalidInput as error:
        if isinstance(error.hint, Example) or error.hint is None:
            error.hint = example_of(job, getattr(error.hint, "settings", {}))
        error.field = f"payload.{error.field}" if error.field else "payload"
        raise


def inputs_of(job: JobType) -> Table:
    """The inputs that a type declares, by written name."""
    return {} if job.inputs is None else settings_of(job.inputs)


def example_of(job: JobType, settings: Mapping[str, Any] | None = None) -> Example | None:
    """A payload with an example of each required input, and these."""
    table = inputs_of(job)
    needed = {name: declared.setting.example for name, declared in table.items() if declared.setting.required}
    payload = {**needed, **(settings or {})}
    return Example({"payload": payload}) if payload else None
