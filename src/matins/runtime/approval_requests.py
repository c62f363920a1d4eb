"""Requests for approval: created here, answered through the service, expired by the timers."""

from __future__ import annotations

from typing import Any

import orjson

from matins.engine.agent_rules import notable_settings
from matins.engine.approvals import (
    agent_fingerprint,
    approval_request,
    authors,
    digest,
    needs_approval,
    outside_digest,
)
from matins.engine.audit import approval_digest
from matins.engine.policies import Policies
from matins.engine.prompts import MAX_CALL_BYTES, CallContext
from matins.engine.settings import dump_settings
from matins.engine.when.durations import DAY_MS
from matins.model.agent import Agent
from matins.model.approval import Approval, ApprovalKind
from matins.model.rows import NewEvent
from matins.model.settings import settings_of
from matins.ports import ApprovalRows, Transaction
from matins.runtime.call_contexts import call_context
from matins.runtime.catalog import CompiledSchedule
from matins.runtime.named_files import TOO_LARGE, named_files

BUDGET_TIMEOUT_MS = 7 * DAY_MS
_GRANTED = 20
"""How many of the last approvals of a schedule count for its files."""


def request_run_approval(
    transaction: Transaction, compiled: CompiledSchedule, policies: Policies, run_id: int, slot: int | None, now: int
) -> int:
    """Request approval of a run from its approvers, or from the owner. Earlier approvals of the run become void."""
    for approval in transaction.approvals_of_run(run_id):
        if approval.kind == "run" and approval.state == "approved":
            _void_approval(transaction, approval, now, "approval is requested again")
    makers = authors_of(transaction, compiled, run_id)
    maker, role = makers[0] if makers else ("owner", "owner")
    definition = compiled.definition
    asks = needs_approval(definition)
    request = approval_request(compiled.agent, compiled.name, definition, slot, compiled.timetable.trigger.describe())
    request["involved"] = makers
    request["unusual"] = notable_settings(definition)
    request |= about_agent(compiled, policies)
    if changed := changed_files(transaction, compiled, policies):
        request["changed"] = changed
    if (call := call_context(transaction, run_id)) is not None:
        request["call"] = _shown_call(call)
    approval = Approval(
        0, "run", compiled.schedule_id, compiled.name, run_id, compiled.rev, content_digest(compiled, policies),
        definition.approval, definition.approvers, definition.approvals_required, definition.approval_default, maker,
        role, now, now + definition.approval_timeout_ms, "pending", None, request,
    )  # fmt: skip
    if not asks:  # only because a file has changed: the owner answers, as with the proposal
        approval = approval._replace(policy="owner_approve", approvers=(), needed=1, default="deny")
    return _insert_request(transaction, approval, now)


def _shown_call(call: CallContext) -> dict[str, Any]:
    """The call that started the run, as a reviewer sees it. Of a large body, the beginning."""
    text = orjson.dumps(call.body, option=orjson.OPT_INDENT_2).decode()
    body = call.body if len(text) <= MAX_CALL_BYTES else f"{text[:MAX_CALL_BYTES]}… ({len(text):,} characters)"
    return {"id": call.id, "source": call.source, "type": call.type, "text": call.text, "body": body}


def request_schedule_approval(
    transaction: Transaction,
    compiled: CompiledSchedule,
    policies: Policies,
    by: str,
    role: str,
    now: int,
    expires_at: int,
    proposal: dict[str, Any],
) -> int:
    """Request approval of a schedule that an agent proposes."""
    request = approval_request(
        compiled.agent, compiled.name, compiled.definition, None, compiled.timetable.trigger.describe()
    )
    request |= proposal | about_agent(compiled, policies)
    digest_now = content_digest(compiled, policies)
    return _request_from_owner(transaction, "schedule", compiled, digest_now, None, by, role, now, expires_at, request)


def renew_schedule_request(
    transaction: Transaction, asked: Approval, compiled: CompiledSchedule, policies: Policies, now: int
) -> int:
    """Request approval again because the agent or a file changed since the request."""
    _void_approval(transaction, asked, now, "its agent or a file that it names has changed")
    request = asked.request | about_agent(compiled, policies)
    digest_now = content_digest(compiled, policies)
    renewed = asked._replace(id=0, digest=digest_now, requested_at=now, state="pending", request=request, votes=())
    return _insert_request(transaction, renewed, now)


def request_budget_approval(
    transaction: Transaction, compiled: CompiledSchedule, run_id: int | None, now: int, request: dict[str, Any]
) -> int:
    """Request approval for a schedule to continue after it spent too much."""
    request = {"schedule": compiled.name, "agent": compiled.agent, **request}
    digest_now, expires_at = settings_digest(compiled), now + BUDGET_TIMEOUT_MS
    return _request_from_owner(
        transaction, "budget", compiled, digest_now, run_id, "matins", "system", now, expires_at, request
    )


def void_approvals(
    transaction: Transaction, schedule_id: int, now: int, why: str, *, money: bool = False
) -> list[Approval]:
    """Void the open requests about this schedule (with `money`: about its spending), and return them. A step keeps its
    request: its run has started, with the settings of then."""
    found = [approval for approval in transaction.open_approvals(schedule_id) if (approval.kind == "budget") == money]
    steps = {approval.run_id for approval in found if approval.run_id and transaction.parents_of([approval.run_id])}
    found = [approval for approval in found if approval.run_id is None or approval.run_id not in steps]
    return [approval for approval in found if _void_approval(transaction, approval, now, why)]


def void_run(transaction: Transaction, run_id: int, now: int) -> None:
    """Void the open requests about a run that has ended."""
    for approval in transaction.approvals_of_run(run_id):
        if approval.kind == "run" and approval.state in ("pending", "approved"):
            _void_approval(transaction, approval, now, "the run has ended")


def _void_approval(transaction: Transaction, approval: Approval, now: int, why: str) -> bool:
    voided = transaction.set_approval_state(approval.id, approval.state, "void", now)
    if voided:
        data = {"approval": str(approval.id), "why": why}
        transaction.events.append(NewEvent(now, "approval.voided", approval.schedule_id, approval.run_id, data))
    return voided


def authors_of(transaction: Transaction, compiled: CompiledSchedule, run_id: int) -> list[tuple[str, str]]:
    """(who, role) of everyone involved in a run: who started it manually, changed its settings, or created the
    schedule."""
    found: list[tuple[str, str]] = []
    run = transaction.run(run_id)
    by = orjson.loads(run.evidence).get("by") if run and run.evidence else None
    if by and "role" in by:  # a call has no role: its sender is no principal
        found.append((by["who"], by["role"]))
    for approval in transaction.approvals_of_run(run_id):
        if approval.kind == "run" and approval.rev == compiled.rev:  # asked again: approvers may have edited the run
            found += authors(approval)
    found += transaction.authors(compiled.schedule_id, compiled.rev)
    schedule = transaction.schedule(compiled.schedule_id)
    if schedule is not None:
        found.append((schedule.created_by, schedule.creator_role))
    return list(dict.fromkeys((who, role) for who, role in found))


def settings_digest(compiled: CompiledSchedule) -> str:
    return digest(compiled.agent, compiled.name, compiled.rev, compiled.definition)


def content_digest(compiled: CompiledSchedule, policies: Policies) -> str:
    """The digest of what runs. It includes all settings of the agent, also hidden ones, and the files that commands
    name."""
    agent = _agent_of(compiled, policies)
    more = [] if agent is None else [{"name": agent.name, **dump_settings(settings_of(Agent), agent)}]
    files = _files_of(compiled, policies)
    return digest(compiled.agent, compiled.name, compiled.rev, compiled.definition, *more, *([files] if files else []))


def _files_of(compiled: CompiledSchedule, policies: Policies) -> dict[str, str]:
    """The digests of the files that commands of a schedule and of its steps name."""
    found = named_files(compiled.definition, _agent_of(compiled, policies), policies)
    for number in range(1, len(compiled.steps) + 1):
        found |= _files_of(compiled.step_of(number), policies)
    return found


def changed_files(transaction: ApprovalRows, compiled: CompiledSchedule, policies: Policies) -> list[str]:
    """The files of an agent's schedule that differ from what a person approved: with the proposal, or with one of its
    last runs. Only the owner can name other files afterwards."""
    now = {} if compiled.creator is None else _files_of(compiled, policies)
    granted = transaction.granted_approvals(compiled.schedule_id, _GRANTED) if now else []
    found: list[str] = []
    for approval in granted:
        files = approval.request.get("files", {})
        others = now if approval.rev != compiled.rev else {}
        found = [path for path, content in now.items() if files.get(path, others.get(path)) != content]
        if not found:
            break
    return found


def about_agent(compiled: CompiledSchedule, policies: Policies) -> dict[str, Any]:
    """What a request says about the agent, the files that its commands name, and what the digest does not cover."""
    agent = _agent_of(compiled, policies)
    files = _files_of(compiled, policies)
    large = [path for path, content in files.items() if content == TOO_LARGE]
    about: dict[str, Any] = {} if agent is None else {"wakes": agent_fingerprint(agent)}
    if files:
        about["files"] = files
    outside = outside_digest(compiled.definition, agent, large)
    if outside:
        about["outside"] = outside
    return about


def still_approved(transaction: ApprovalRows, compiled: CompiledSchedule, policies: Policies, run_id: int) -> bool:
    """Whether the run needs no approval, or its approval is for the agent's present settings and files."""
    if not needs_approval(compiled.definition) and not changed_files(transaction, compiled, policies):
        return True
    digest_now = content_digest(compiled, policies)
    return any(
        approval.state == "used" and approval.digest == digest_now for approval in transaction.approvals_of_run(run_id)
    )


def _agent_of(compiled: CompiledSchedule, policies: Policies) -> Agent | None:
    return policies.agents.get(compiled.agent) if compiled.wakes_agent else None


def _request_from_owner(
    transaction: Transaction, kind: ApprovalKind, compiled: CompiledSchedule, digest_now: str, run_id: int | None,
    by: str, role: str, now: int, expires_at: int, request: dict[str, Any],
) -> int:  # fmt: skip
    approval = Approval(
        0, kind, compiled.schedule_id, compiled.name, run_id, compiled.rev, digest_now, "owner_approve", (), 1,
        "deny", by, role, now, expires_at, "pending", None, request,
    )  # fmt: skip
    return _insert_request(transaction, approval, now)


def _insert_request(transaction: Transaction, approval: Approval, now: int) -> int:
    number = transaction.insert_approval(approval)
    data = {
        "approval": str(number),
        "kind": approval.kind,
        "policy": approval.policy,
        "digest": approval.digest,
        "expires_at": approval.expires_at,
        "record": approval_digest(approval),
    }
    transaction.events.append(NewEvent(now, "approval.requested", approval.schedule_id, approval.run_id, data))
    return number
