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
    hands = involved(transaction, known, run_id)
    maker, role = hands[0] if hands else ("owner", "owner")
    definition = known.definition
    request = told(known.agent, known.name, definition, slot, known.rule.trigger.describe())
    request["involved"] = hands
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


def void(transaction: Transaction, schedule_id: int, now: int, why: str, *, money: bool = False) -> list[Approval]:
    """What was asked about this schedule (or, with `money`, about its spending) counts no more; those that could still
    have had an effect."""
    voided: list[Approval] = []
    for approval in transaction.approvals_open(schedule_id):
        if (approval.kind == "budget") == money and transaction.settle_approval(
            approval.id, approval.state, "void", now
        ):
            data = {"approval": str(approval.id), "why": why}
            transaction.events.append(NewEvent(now, "approval.void", schedule_id, approval.run_id, data))
            voided.append(approval)
    return voided


def involved(transaction: Transaction, known: Known, run_id: int) -> list[tuple[str, str]]:
    """(name, role) of whoever had a hand in it: who started it by hand, who wrote these words, who made it."""
    found: list[tuple[str, str]] = []
    run = transaction.run(run_id)
    by = orjson.loads(run[16]).get("by") if run and run[16] else None
    if by:
        found.append((by["name"], by["role"]))
    author = transaction.author(known.schedule_id, known.rev)
    if author is not None:
        found.append((author[0], author[1]))
    schedule = transaction.schedule(known.schedule_id)
    if schedule is not None:
        found.append((schedule[16], schedule[17]))
    return found


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
