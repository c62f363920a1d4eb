"""The rules for schedules that agents propose."""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from matins.engine.schedules import NOTABLE_SETTINGS, OWN_SETTINGS
from matins.engine.when.durations import format_duration
from matins.engine.when.triggers import Trigger
from matins.errors import NotAllowed
from matins.model.agent import Target
from matins.model.schedule import ScheduleDefinition
from matins.model.settings import Choice, Duration, Flag, Int, Names, Setting
from matins.model.trigger import Once

ALL_AGENTS = "*"


@dataclass(frozen=True, slots=True)
class AgentRules:
    """An owner's rules for what agents schedule. Annotations are settings, see `model.settings`."""

    agent: str
    max_schedules: Annotated[
        int, Setting(Int(0, 10_000), "Maximum number of schedules that the agent has made.", 5)
    ] = 20
    max_depth: Annotated[
        int, Setting(Int(0, 10_000), "How deep schedules may make schedules: 1 for those that people made.", 1)
    ] = 1
    min_interval_ms: Annotated[int, Setting(Duration(), "Shortest interval of a schedule.", "10m", "min_interval")] = (
        300_000
    )
    max_lifetime_ms: Annotated[int, Setting(Duration(), "How long a schedule may last.", "7d", "max_lifetime")] = (
        30 * 86_400_000
    )
    approval_timeout_ms: Annotated[
        int, Setting(Duration(), "How long a proposal stays open.", "2d", "approval_timeout")
    ] = 7 * 86_400_000
    auto_approve_one_shots: Annotated[
        bool, Setting(Flag(), "Whether a one-shot for the agent itself needs no approval.", True)
    ] = False
    auto_approve_jobs: Annotated[
        tuple[str, ...], Setting(Names(), "Jobs that one-shots may start without approval.", ["scheduled-task"])
    ] = ("scheduled-task",)
    sees: Annotated[
        Literal["own", "all"],
        Setting(Choice(("own", "all")), "Whose prompts, output and messages the agent can read.", "all"),
    ] = "own"


DEFAULT_RULES = AgentRules(ALL_AGENTS)


def limit_lifetime(definition: ScheduleDefinition, rules: AgentRules, now: int) -> ScheduleDefinition:
    """The agent's definition, ending no later than the rules allow."""
    latest = now + rules.max_lifetime_ms
    ends_at = latest if definition.ends_at is None else min(definition.ends_at, latest)
    return replace(definition, ends_at=ends_at)


def check_rules(trigger: Trigger, rules: AgentRules, depth: int, already: int) -> None:
    """Raise if the rules forbid another schedule by an agent."""
    if depth > rules.max_depth:
        raise NotAllowed(
            f"A schedule of a schedule has depth {depth}; the maximum for agents is {rules.max_depth}.",
            field="max_depth",
            hint="Ask the owner to add it.",
        )
    if already >= rules.max_schedules:
        raise NotAllowed(
            f"The agent already has {already} of at most {rules.max_schedules} schedules.",
            field="max_schedules",
            hint="Delete one, or ask the owner.",
        )
    gap = trigger.smallest_gap()
    if gap is not None and gap.total_seconds() * 1000 < rules.min_interval_ms:
        often, least = format_duration(round(gap.total_seconds() * 1000)), format_duration(rules.min_interval_ms)
        raise NotAllowed(
            f"The interval of {often} is too short for an agent's schedule; the minimum is {least}.",
            field="when",
            hint=f'Use "every {least}" or longer.',
        )


def needs_no_approval(
    definition: ScheduleDefinition, rules: AgentRules, *, own: bool, here: Target | None = None
) -> bool:
    """Whether the rules approve the proposal without a person: a one-shot for the agent itself, in a new
    conversation or in the agent's own thread, without notable settings."""
    once = isinstance(definition.trigger.when, Once) and definition.job in rules.auto_approve_jobs
    # A schedule with steps is never approved by itself: "steps" is a notable setting.
    stays = here is not None and definition.target == here
    plain = replace(definition, target=None) if stays else definition
    return rules.auto_approve_one_shots and own and once and not notable_settings(plain)


def standing_reason(agent: str, rules: AgentRules, last: int | None, now: int) -> str | None:
    """Why a person must approve a one-shot that an agent adds outside a run; None if the rules may. Without a run there
    is no depth, so all such one-shots of an agent are one chain. `last` is when the rules approved the last one."""
    if last is None or not 0 <= now - last < rules.min_interval_ms:  # in the future: the clock was ahead
        return None
    least = format_duration(rules.min_interval_ms)
    return f"A person decides: the last one-shot of {agent} was approved by its rules less than {least} ago."


def notable_settings(definition: ScheduleDefinition) -> list[str]:
    """The settings that reach further than a plain schedule."""
    plain = ScheduleDefinition(definition.trigger, definition.job)
    fields = {name: OWN_SETTINGS[name].field for name in NOTABLE_SETTINGS if name in OWN_SETTINGS}
    return [name for name, field in fields.items() if getattr(definition, field) != getattr(plain, field)]
