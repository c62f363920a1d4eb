"""Approvals: when one is required, who may vote, and what a vote is bound to."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Literal

import orjson

from matins.engine.jobs import full_prompt
from matins.engine.schedules import encode, schedule_settings, without_keys
from matins.engine.settings import format_settings, redact
from matins.model.access import Principal, name_of
from matins.model.agent import Agent
from matins.model.approval import Approval
from matins.model.schedule import ScheduleDefinition
from matins.model.settings import settings_of


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
    return {"name": agent.name, **format_settings(settings_of(Agent), agent), "environment": hidden}


def refusal_reason(approval: Approval, principal: Principal) -> str | None:
    """Why this principal may not vote; None when it may."""
    if not principal.is_human:
        return "agents cannot approve"
    if principal.role == "viewer":
        return "viewers cannot approve"
    if approval.approvers and principal.name not in approval.approvers:
        return f"the approvers are {', '.join(approval.approvers)}"
    if not approval.approvers and principal.role != "owner":
        return "only the owner can answer it"
    if principal.role != "owner" and _is_author(approval, principal):
        return "only the owner may approve what they made, changed or started themselves"
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
