"""Requests for approval: created here, answered through the service, expired by the timers."""

from __future__ import annotations

from typing import Any

import orjson

from matins.engine.approvals import agent_fingerprint, approval_request, authors, digest, needs_approval
from matins.engine.policies import Policies
from matins.engine.settings import dump_settings
from matins.engine.when.durations import DAY_MS
from matins.model.agent import Agent
from matins.model.approval import Approval, ApprovalKind
from matins.model.rows import NewEvent
from matins.model.settings import settings_of
from matins.ports import ApprovalRows, Transaction
from matins.runtime.catalog import Known

BUDGET_MS = 7 * DAY_MS


def ask_about_run(
    transaction: Transaction, known: Known, policies: Policies, run_id: int, slot: int | None, now: int
) -> int:
    """Request approval of a run from its approvers, or from the owner. Earlier approvals of the run become void."""
    for asked in transaction.approvals_of_run(run_id):
        if asked.kind == "run" and asked.state == "approved":
            _void(transaction, asked, now, "approval is requested again")
    makers = involved(transaction, known, run_id)
    maker, role = makers[0] if makers else ("owner", "owner")
    definition = known.definition
    request = approval_request(known.agent, known.name, definition, slot, known.timetable.trigger.describe())
    request["involved"] = makers
    if (agent := _woken(known, policies)) is not None:
        request["wakes"] = agent_fingerprint(agent)
    approval = Approval(
        0, "run", known.schedule_id, known.name, run_id, known.rev, run_digest(known, policies), definition.approval,
        definition.approvers, definition.approvals_required, definition.approval_default, maker, role, now,
        now + definition.approval_timeout_ms, "pending", None, request,
    )  # fmt: skip
    return _ask(transaction, approval, now)


def ask_about_schedule(
    transaction: Transaction, known: Known, by: str, role: str, now: int, expires_at: int, proposal: dict[str, Any]
) -> int:
    """Request approval of a schedule that an agent proposes."""
    request = (
        approval_request(known.agent, known.name, known.definition, None, known.timetable.trigger.describe()) | proposal
    )
    return _ask_owner(transaction, "schedule", known, None, by, role, now, expires_at, request)


def ask_about_budget(
    transaction: Transaction, known: Known, run_id: int | None, now: int, request: dict[str, Any]
) -> int:
    """Ask whether a schedule may continue after it spent too much."""
    request = {"schedule": known.name, "agent": known.agent, **request}
    return _ask_owner(transaction, "budget", known, run_id, "matins", "system", now, now + BUDGET_MS, request)


def void(transaction: Transaction, schedule_id: int, now: int, why: str, *, money: bool = False) -> list[Approval]:
    """Void the open requests about this schedule (with `money`: about its spending), and return them."""
    found = [asked for asked in transaction.open_approvals(schedule_id) if (asked.kind == "budget") == money]
    return [asked for asked in found if _void(transaction, asked, now, why)]


def void_run(transaction: Transaction, run_id: int, now: int) -> None:
    """Void the open requests about a run that has ended."""
    for asked in transaction.approvals_of_run(run_id):
        if asked.kind == "run" and asked.state in ("pending", "approved"):
            _void(transaction, asked, now, "the run has ended")


def _void(transaction: Transaction, asked: Approval, now: int, why: str) -> bool:
    voided = transaction.set_approval_state(asked.id, asked.state, "void", now)
    if voided:
        data = {"approval": str(asked.id), "why": why}
        transaction.events.append(NewEvent(now, "approval.voided", asked.schedule_id, asked.run_id, data))
    return voided


def involved(transaction: Transaction, known: Known, run_id: int) -> list[tuple[str, str]]:
    """(name, role) of all who are involved in a run: who started it manually, who changed its settings, and who created
    the schedule."""
    found: list[tuple[str, str]] = []
    run = transaction.run(run_id)
    by = orjson.loads(run.evidence).get("by") if run and run.evidence else None
    if by:
        found.append((by["name"], by["role"]))
    for asked in transaction.approvals_of_run(run_id):
        if asked.kind == "run" and asked.rev == known.rev:  # a repeated request: approvers may have edited the run
            found += authors(asked)
    found += transaction.authors(known.schedule_id, known.rev)
    schedule = transaction.schedule(known.schedule_id)
    if schedule is not None:
        found.append((schedule.created_by, schedule.creator_role))
    return list(dict.fromkeys((name, role) for name, role in found))


def digest_of(known: Known) -> str:
    return digest(known.agent, known.name, known.rev, known.definition)


def run_digest(known: Known, policies: Policies) -> str:
    """The digest of a run. It includes all settings of its agent, also hidden ones."""
    agent = _woken(known, policies)
    more = () if agent is None else ({"name": agent.name, **dump_settings(settings_of(Agent), agent)},)
    return digest(known.agent, known.name, known.rev, known.definition, *more)


def still_approved(transaction: ApprovalRows, known: Known, policies: Policies, run_id: int) -> bool:
    """Whether the run needs no approval, or its approval is for the agent's present settings."""
    if not needs_approval(known.definition):
        return True
    digest_now = run_digest(known, policies)
    return any(asked.state == "used" and asked.digest == digest_now for asked in transaction.approvals_of_run(run_id))


def _woken(known: Known, policies: Policies) -> Agent | None:
    return policies.agents.get(known.agent) if known.talks else None


def _ask_owner(
    transaction: Transaction, kind: ApprovalKind, known: Known, run_id: int | None, by: str, role: str, now: int,
    expires_at: int, request: dict[str, Any],
) -> int:  # fmt: skip
    approval = Approval(
        0, kind, known.schedule_id, known.name, run_id, known.rev, digest_of(known), "owner_approve", (), 1, "deny",
        by, role, now, expires_at, "pending", None, request,
    )  # fmt: skip
    return _ask(transaction, approval, now)


def _ask(transaction: Transaction, approval: Approval, now: int) -> int:
    number = transaction.insert_approval(approval)
    data = {
        "approval": str(number),
        "kind": approval.kind,
        "policy": approval.policy,
        "digest": approval.digest,
        "expires_at": approval.expires_at,
    }
    transaction.events.append(NewEvent(now, "approval.requested", approval.schedule_id, approval.run_id, data))
    return number
