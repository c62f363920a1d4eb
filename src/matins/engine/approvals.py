"""Who may approve what; rules for agents.

Approvals: when one is required, who may vote, and what a vote is bound to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Annotated, Any, Literal

import orjson

from matins.engine.jobs import full_prompt
from matins.engine.schedules import NOTABLE_SETTINGS, OWN_SETTINGS, encode, schedule_settings, without_keys
from matins.engine.settings import format_settings, redact
from matins.engine.when.durations import format_duration
from matins.engine.when.triggers import Trigger
from matins.errors import NotAllowed
from matins.model.access import Principal, name_of
from matins.model.agent import Agent, Target
from matins.model.policies import Approval
from matins.model.schedule import ScheduleDefinition
from matins.model.settings import Choice, Duration, Flag, Int, Names, Setting
from matins.model.trigger import Once


def needs_approval(definition: ScheduleDefinition) -> bool:
    if definition.approval == "auto" or definition.steps:  # each step is approved by itself
        return False
    if definition.approval_jobs:
        return definition.job in definition.approval_jobs
    return definition.approval == "council_approve" or not definition.harmless


def digest(agent: str, name: str, rev: int, definition: ScheduleDefinition, *more: object) -> str:
    """The digest of everything under review. A vote counts only for the digest that the voter saw."""
    return sha256(orjson.dumps([agent, name, rev, encode(definition), *more])).hexdigest()


def agent_fingerprint(agent: Agent) -> dict[str, Any]:
    """The agent as a reviewer sees it: its settings as people write them, without values that may be secrets."""
    hidden = [(name, redact(text)) for name, text in agent.environment]
    return {"name": agent.name, **format_settings(agent), "environment": hidden}


def refusal_reason(approval: Approval, principal: Principal, *, sole_owner: bool = True) -> str | None:
    """Why this principal may not vote; None when it may. The approvers may, else who has a grant, else the owner: of
    several owners none answers what they asked for themselves."""
    if not principal.is_human:
        return "agents cannot approve"
    if principal.role == "viewer":
        return "viewers cannot approve"
    if approval.approvers and principal.name not in approval.approvers:
        return f"the approvers are {', '.join(approval.approvers)}"
    if not approval.approvers and principal.role != "owner" and not principal.granted:
        return "only the owner can answer it"
    if principal.role != "owner" and _is_author(approval, principal):
        return "only the owner may approve what they made, changed or started themselves"
    if not sole_owner and _is_author(approval, principal):
        return "another owner answers what they made, changed or started themselves"
    return None


def _is_author(approval: Approval, principal: Principal) -> bool:
    """Whether the principal is an author. People and tokens of one name are one approver, who has one vote."""
    return principal.name in _author_names(approval) or any(who == principal.who for who, _ in authors(approval))


def _author_names(approval: Approval) -> set[str]:
    """The names of authors who could approve. Agents cannot."""
    return {name_of(who) for who, role in authors(approval) if role not in ("owner", "agent")}


def authors(approval: Approval) -> list[tuple[str, str]]:
    """(who, role) of the authors of the request."""
    authors_of_request: list[list[str]] = approval.request.get("involved") or [
        [approval.requested_by, approval.requester_role]
    ]
    return [(who, role) for who, role in authors_of_request]


def eligible_count(approval: Approval) -> int:
    """The number of approvers who may vote: the authors may not."""
    return len({*approval.approvers} - _author_names(approval)) if approval.approvers else 1


def tally(approval: Approval) -> Literal["pending", "approved", "denied"]:
    """The result of the votes. A request is denied once too few voters are left to approve it."""
    valid = sorted((vote for vote in approval.votes if vote.digest == approval.digest), key=lambda vote: vote.at)
    votes = {name_of(vote.voter): vote for vote in valid}.values()  # one approver, one vote: the last
    for_it = sum(vote.vote == "approve" for vote in votes)
    against = sum(vote.vote == "deny" for vote in votes)
    if for_it >= approval.needed:
        return "approved"
    return "denied" if against and eligible_count(approval) - against < approval.needed else "pending"


def approval_request(
    agent: str, name: str, definition: ScheduleDefinition, slot: int | None, description: str
) -> dict[str, Any]:
    """The document that a reviewer sees: every setting that differs from its default, as people write it."""
    request: dict[str, Any] = {"schedule": name, "agent": agent, "job": definition.job, "when": description}
    settings = without_keys(schedule_settings(definition))
    request |= {setting: value for setting, value in settings.items() if setting not in ("when", "job")}
    if definition.target is not None:
        request["target"] = {field: value for field, value in definition.target._asdict().items() if value is not None}
    if (prompt := full_prompt(definition)) is not None:
        request["prompt"] = prompt
    if slot is not None:
        request["slot"] = slot
    return request


def outside_digest(
    definition: ScheduleDefinition, agent: Agent | None, files: Mapping[str, str], *, itemless: bool = True
) -> list[str]:
    """What a run does that the digest of its approval does not cover; `files` by path, with the reason."""
    found: list[str] = []
    if definition.work_source is not None and itemless:
        found.append(f'the item of "{definition.work_source}", which is chosen when the run starts')
    if agent is not None:
        found += [f"the value of {text}" for _, text in agent.environment if text.startswith(("env:", "file:"))]
        found.append("what its commands and tools read, apart from the files named above")
    return found + [f"the content of {path}: {reason}" for path, reason in files.items()]


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
    max_messages: Annotated[
        int, Setting(Int(0, 1_000), "Number of messages that the agent may send during a run; 0 forbids it.", 3)
    ] = 10


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
    definition: ScheduleDefinition,
    rules: AgentRules,
    *,
    own: bool,
    here: Target | None = None,
    delivery: ScheduleDefinition | None = None,
) -> bool:
    """Whether the rules approve the proposal without a person: a one-shot for the agent itself, in a new
    conversation or in the agent's own thread, without notable settings. Its answers may go where those of the agent's
    run go: `delivery`."""
    once = isinstance(definition.trigger.when, Once) and definition.job in rules.auto_approve_jobs
    # A schedule with steps is never approved by itself: "steps" is a notable setting.
    stays = here is not None and definition.target == here
    plain = replace(definition, target=None) if stays else definition
    if delivery is not None and (plain.deliver, plain.attach) == (delivery.deliver, delivery.attach):
        plain = replace(plain, deliver=(), attach=())
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
