"""Questions to people: made here, answered through the service, expired by the timers."""

from __future__ import annotations

from typing import Any

import orjson

from matins.engine.approvals import digest, told
from matins.model.policy import Approval, ApprovalKind
from matins.model.records import NewEvent
from matins.ports import Transaction
from matins.runtime.catalog import Known

BUDGET_MS = 7 * 86_400_000


def ask_about_run(transaction: Transaction, known: Known, run_id: int, slot: int | None, now: int) -> int:
    """May this run start? Asked of those whom its words name, else of the owner."""
    maker, role = _requester(transaction, known.schedule_id, run_id)
    definition = known.definition
    request = told(known.agent, known.name, definition, slot, known.rule.trigger.describe())
    approval = Approval(
        0, "run", known.schedule_id, known.name, run_id, known.rev, digest_of(known), definition.approval,
        definition.approvers, definition.approvals_needed, definition.approval_default, maker, role, now,
        now + definition.approval_ms, "pending", None, request,
    )  # fmt: skip
    return _ask(transaction, approval, now)


def ask_about_schedule(
    transaction: Transaction, known: Known, by: str, role: str, now: int, expires_at: int, proposal: dict[str, Any]
) -> int:
    """May this schedule, which an agent proposes, be?"""
    request = told(known.agent, known.name, known.definition, None, known.rule.trigger.describe()) | proposal
    return _ask_owner(transaction, "schedule", known, None, by, role, now, expires_at, request)


def ask_about_budget(transaction: Transaction, known: Known, run_id: int, now: int, request: dict[str, Any]) -> int:
    """It spent more than it may: shall it go on?"""
    request = {"schedule": known.name, "agent": known.agent, **request}
    return _ask_owner(transaction, "budget", known, run_id, "matins", "system", now, now + BUDGET_MS, request)


def void(transaction: Transaction, schedule_id: int, now: int, why: str) -> list[Approval]:
    """What was asked about this schedule is about other words now; those that could still have had an effect."""
    voided: list[Approval] = []
    for approval in transaction.approvals_open(schedule_id):
        if approval.kind != "budget" and transaction.settle_approval(approval.id, approval.state, "void", now):
            data = {"approval": str(approval.id), "why": why}
            transaction.events.append(NewEvent(now, "approval.void", schedule_id, approval.run_id, data))
            voided.append(approval)
    return voided


def _requester(transaction: Transaction, schedule_id: int, run_id: int) -> tuple[str, str]:
    """Who started it by hand, else who made the schedule."""
    run = transaction.run(run_id)
    by = orjson.loads(run[16]).get("by") if run and run[16] else None
    if by:
        return by["name"], by["role"]
    schedule = transaction.schedule(schedule_id)
    return (schedule[16], schedule[17]) if schedule else ("owner", "owner")


def digest_of(known: Known) -> str:
    return digest(known.agent, known.name, known.rev, known.definition)


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
