"""What agents may schedule: proposed by them, bounded by rules, decided by people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from matins.engine.given import check_number, check_texts, check_words, wrong
from matins.engine.when.durations import format_duration, parse_duration
from matins.engine.when.triggers import Trigger
from matins.errors import NotAllowed
from matins.model.agent import Target
from matins.model.schedule import ScheduleDefinition
from matins.model.trigger import Once

PROPOSED = ("pre_check", "before", "after", "provider", "max_cost", "max_tokens", "quiet_hours", "approval",
            "approvers", "approvals_needed", "approval_actions", "approval_default", "approval_ms")  # fmt: skip
"""Words that only the owner sets; agents propose them."""
REACHING = (*PROPOSED, "target", "work")
"""Words that reach beyond an agent's own prompt and place: pointed out where it proposes them."""


@dataclass(frozen=True, slots=True)
class AgentRules:
    """An owner's rules for what agents schedule."""

    quota: int = 20
    """How many schedules of an agent's making there may be at once."""
    depth: int = 1
    """How far schedules may make schedules: 1 lets what people made make some, and those none."""
    floor_ms: int = 300_000
    """How often they may fire."""
    expiry_ms: int = 30 * 86_400_000
    """How long they last at the most."""
    approval_ms: int = 7 * 86_400_000
    """How long a proposal waits for an answer."""
    auto_one_shots: bool = False
    """Whether a one-shot for the agent itself goes through unasked, when it starts one of these jobs."""
    auto_jobs: tuple[str, ...] = ("scheduled-task",)


USUAL_RULES = AgentRules()
DURATIONS = {"floor": "floor_ms", "expiry": "expiry_ms", "approval_expires": "approval_ms"}
WORDS = ("quota", "depth", "auto_one_shots", "auto_jobs", *DURATIONS)


def define_rules(words: Mapping[str, Any]) -> AgentRules:
    """From words such as quota=5, floor="10m", expiry="7d"."""
    check_words("A rule for agents", words, WORDS)
    values = {DURATIONS.get(word, word): _checked(word, value) for word, value in words.items()}
    return AgentRules(**values)


def _checked(word: str, value: Any) -> Any:
    if word in DURATIONS:
        return parse_duration(value)
    if word == "auto_jobs":
        return check_texts(word, value, "a list of jobs")
    if word != "auto_one_shots":
        return check_number(word, value, 0, 10_000)
    if isinstance(value, bool):
        return value
    raise wrong(word, value, "true or false")


def rules_to_dict(rules: AgentRules) -> dict[str, Any]:
    return asdict(rules)


def rules_from_dict(data: Mapping[str, Any]) -> AgentRules:
    values: dict[str, Any] = {**data, "auto_jobs": tuple(data.get("auto_jobs", USUAL_RULES.auto_jobs))}
    return AgentRules(**values)


def bounded(definition: ScheduleDefinition, rules: AgentRules, now: int) -> ScheduleDefinition:
    """What an agent asked for, ending no later than the rules allow."""
    latest = now + rules.expiry_ms
    ends_at = latest if definition.ends_at is None else min(definition.ends_at, latest)
    return replace(definition, ends_at=ends_at)


def refuse_unruly(trigger: Trigger, rules: AgentRules, depth: int, already: int) -> None:
    """Raise what the rules have against another schedule by an agent."""
    if depth > rules.depth:
        raise NotAllowed(
            f"A schedule that agents made may not make others (depth {depth}, allowed {rules.depth})",
            field="depth",
            hint="ask the owner to add it",
        )
    if already >= rules.quota:
        raise NotAllowed(
            f"This agent has {already} schedules already; it may have {rules.quota}",
            field="quota",
            hint="remove one that is no longer needed, or ask the owner",
        )
    gap = trigger.smallest_gap()
    if gap is not None and gap.total_seconds() * 1000 < rules.floor_ms:
        often, floor = format_duration(round(gap.total_seconds() * 1000)), format_duration(rules.floor_ms)
        raise NotAllowed(
            f"An agent's schedule may not fire as often as every {often}; the minimum is {floor}",
            field="when",
            hint=f'no more often than "every {floor}"',
        )


def harmless(definition: ScheduleDefinition, rules: AgentRules, *, own: bool, here: Target | None = None) -> bool:
    """Whether the owner's rule lets it through unasked: once, for the agent itself, anew or in the thread that it
    speaks from, and nothing out of the ordinary."""
    once = isinstance(definition.trigger.when, Once) and definition.do in rules.auto_jobs
    stays = here is not None and definition.target == here
    plain = replace(definition, target=None) if stays else definition
    return rules.auto_one_shots and own and once and not unusual(plain)


def unusual(definition: ScheduleDefinition) -> list[str]:
    """The words by which it reaches further than a schedule has to."""
    plain = ScheduleDefinition(definition.trigger, definition.do)
    return [word for word in REACHING if getattr(definition, word) != getattr(plain, word)]
